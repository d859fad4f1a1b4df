"""Brings dashboards, data sources and alert rules to a Grafana, and takes them away again.

Everything is put by uid, one thing at a time, and each only where it differs: a run that fails in
the middle is mended by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus

from monitor.grafana.client import Grafana
from monitor.grafana.items.base import Act, Change, Item
from monitor.grafana.items.dashboard import Dashboard
from monitor.grafana.items.datasource import Datasource
from monitor.grafana.items.folder import Folder
from monitor.grafana.items.rules import Rules
from monitor.grafana.wanted import FOLDER, POSTGRESQL, PROMETHEUS, Wanted, shipped_dashboards
from monitor.model import GrafanaError


@dataclass(frozen=True, slots=True)
class Step:
    """One thing, what is to be done about it, and what came of that."""

    item: Item
    change: Change
    problem: str | None = None
    """Why it was not done."""
    done: bool = False

    @property
    def open(self) -> bool:
        """Whether it is not as it should be."""
        return self.problem is not None or self.change.act is Act.REFUSED


def items(wanted: Wanted, folder: str = FOLDER) -> list[Item]:
    """All things, in the order in which they need each other."""
    found: list[Item] = [Folder(folder, frozenset(wanted.dashboards))]
    found += [
        Datasource(body, wanted.secrets.get(uid, {})) for uid, body in wanted.datasources.items()
    ]
    found += [Dashboard(board, folder) for board in wanted.dashboards.values()]
    if wanted.rules:
        found.append(Rules(wanted.rules, folder))
    return found


def removable() -> list[Item]:
    """Everything that may have been brought, whatever options it was brought with."""
    boards = shipped_dashboards()
    return [
        Rules((), FOLDER),
        *(Dashboard(board, FOLDER) for board in boards.values()),
        *(Datasource({"uid": uid}, {}) for uid in (PROMETHEUS, POSTGRESQL)),
        Folder(FOLDER, frozenset(boards)),
    ]


def plan(grafana: Grafana, things: Iterable[Item], *, force: bool = False) -> list[Step]:
    """What would be done; nothing is changed.

    Raises:
        GrafanaError: Grafana cannot be asked, or does not let us in.
    """
    return [_looked(item, lambda item: item.look(grafana, force=force)) for item in things]


def plan_removal(grafana: Grafana, things: Iterable[Item], *, force: bool = False) -> list[Step]:
    """What would be done to be rid of ``things``."""
    return [
        _looked(item, lambda item: item.look_to_remove(grafana, force=force)) for item in things
    ]


def apply(grafana: Grafana, steps: Iterable[Step]) -> Iterator[Step]:
    """Does what was planned; each step comes back as soon as it is done, or has failed."""
    return _run(steps, lambda step: step.item.put(grafana, step.change), {Act.CREATE, Act.UPDATE})


def remove(grafana: Grafana, steps: Iterable[Step]) -> Iterator[Step]:
    """Takes away what was planned."""
    return _run(steps, lambda step: step.item.remove(grafana), {Act.REMOVE})


def _looked(item: Item, look: Callable[[Item], Change]) -> Step:
    try:
        return Step(item, look(item))
    except GrafanaError as error:
        if error.status in (None, HTTPStatus.UNAUTHORIZED):
            raise
        # One thing that cannot be seen is no reason to leave the others.
        return Step(item, Change(item.kind, item.name, Act.REFUSED), problem=str(error))


def _run(steps: Iterable[Step], do: Callable[[Step], None], acts: set[Act]) -> Iterator[Step]:
    blocked: str | None = None
    for planned in steps:
        step, problem = planned, planned.problem
        if step.change.act in acts:
            problem = blocked or _tried(do, step)
            step = replace(step, problem=problem, done=problem is None)
        if problem is not None and isinstance(step.item, Folder):
            # Without its folder nothing can be made.
            blocked = "left out, as its folder could not be made"
        yield step


def _tried(do: Callable[[Step], None], step: Step) -> str | None:
    try:
        do(step)
    except GrafanaError as error:
        return str(error)
    return None
