"""A smoke test for one's own Grafana.

Everything is made beside what is there, read back, compared, and taken away again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from monitor.grafana import marks
from monitor.grafana.client import Grafana
from monitor.grafana.compare import differences
from monitor.grafana.items.base import Act, Item
from monitor.grafana.items.dashboard import Dashboard
from monitor.grafana.items.folder import Folder
from monitor.grafana.items.rules import Rules
from monitor.grafana.wanted import Wanted
from monitor.model import GrafanaError

FOLDER = "specdec-verify"
OLDEST, NEWEST = (11, 6), (13, 99)
"""Releases whose API this is written for."""


class Check(NamedTuple):
    """One part of the test."""

    name: str
    passed: bool
    said: str


def verify(grafana: Grafana, wanted: Wanted, now: float) -> Iterator[Check]:
    """Tries everything; each part comes back as soon as it is known. Nothing is left behind."""
    healthy = _checked("health", lambda: _health(grafana))
    yield healthy
    if not healthy.passed:
        return
    boards = {uid: _copy(board, uid) for uid, board in wanted.dashboards.items()}
    folder = Folder(FOLDER, frozenset(board["uid"] for board in boards.values()))
    try:
        made = _checked("folder", lambda: _make_folder(grafana, folder))
        yield made
        if made.passed:
            for uid, board in boards.items():
                yield _checked(f"dashboard {uid}", partial(_try_dashboard, grafana, board))
            if wanted.rules:
                yield _checked("alert rules", lambda: _try_rules(grafana, wanted))
        yield _checked("annotation", lambda: _try_annotation(grafana, now))
    finally:
        left = _checked("clean up", lambda: _clean_up(grafana, folder, boards, wanted))
    yield left


def _checked(name: str, run: Callable[[], str]) -> Check:
    try:
        return Check(name, passed=True, said=run())
    except GrafanaError as error:
        return Check(name, passed=False, said=str(error))


def _health(grafana: Grafana) -> str:
    version = grafana.health().get("version")
    if not isinstance(version, str) or not (found := re.match(r"(\d+)\.(\d+)", version)):
        return "answers, and does not tell its release"
    release = (int(found[1]), int(found[2]))
    if OLDEST <= release <= NEWEST:
        return f"Grafana {found[0]}"
    return f"Grafana {found[0]}; this is written for 11.6 to 13"


def _make_folder(grafana: Grafana, folder: Folder) -> str:
    change = folder.look(grafana, force=False)
    if change.act is Act.CREATE:
        folder.put(grafana, change)
    return folder.uid


def _copy(board: dict[str, Any], uid: str) -> dict[str, Any]:
    """The same dashboard under another uid and title, so that nobody's is touched."""
    short = uid.removeprefix("specdec-")[:25]
    return {**board, "uid": f"{FOLDER}-{short}", "title": f"{board.get('title')} (verify)"}


def _try_dashboard(grafana: Grafana, board: dict[str, Any]) -> str:
    item = Dashboard(board, FOLDER)
    change = item.look(grafana, force=True)
    if change.act in (Act.CREATE, Act.UPDATE):
        item.put(grafana, change)
    found = grafana.get(f"/api/dashboards/uid/{board['uid']}", f"dashboard {board['uid']}")
    stored = found.get("dashboard") if isinstance(found, dict) else None
    again = item.look(grafana, force=False)
    if again.act is not Act.UNCHANGED:
        raise GrafanaError(f"a second run would change it again: {again.reason or again.act}")
    return _same(stored, board)


def _try_rules(grafana: Grafana, wanted: Wanted) -> str:
    rules = [
        {**rule, "uid": f"{rule['uid'][:32]}-v{number:02d}", "isPaused": True}
        for number, rule in enumerate(wanted.rules)
    ]
    item = Rules(rules, FOLDER)
    change = item.look(grafana, force=True)
    if change.act in (Act.CREATE, Act.UPDATE):
        item.put(grafana, change)
    again = item.look(grafana, force=False)
    if again.act is not Act.UNCHANGED:
        lines = "; ".join(again.lines[:3])
        raise GrafanaError(f"a second run would change them again: {lines or again.reason}")
    return f"{len(rules)} rules, stored as they were sent"


def _try_annotation(grafana: Grafana, now: float) -> str:
    mark = marks.Mark("verify", "written by monitor grafana verify", now)
    number = marks.begin(grafana, mark)
    try:
        marks.end(grafana, number, now + 1.0)
    finally:
        grafana.delete(f"/api/annotations/{number}", "annotation")
    return "made, ended and taken away"


def _same(stored: Any, wanted: dict[str, Any]) -> str:
    lines = list(differences(stored, wanted))
    if not lines:
        return "stored as it was sent"
    # Grafana may bring what it stores to a newer shape; that is worth a look and no fault.
    more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
    return f"stored, with differences: {lines[0]}{more}"


def _clean_up(
    grafana: Grafana, folder: Folder, boards: dict[str, dict[str, Any]], wanted: Wanted
) -> str:
    problems = []
    things: list[Item] = [Dashboard(board, FOLDER) for board in boards.values()]
    if wanted.rules:
        things.append(Rules([], FOLDER))
    for item in (*things, folder):
        try:
            change = item.look_to_remove(grafana, force=True)
            if change.act is Act.REMOVE:
                item.remove(grafana)
            elif change.act is Act.REFUSED:
                problems.append(f"{change.kind} {change.name}: {change.reason}")
        except GrafanaError as error:
            problems.append(str(error))
    if problems:
        raise GrafanaError("; ".join(problems))
    return "nothing is left behind"
