"""What the kinds of things have in common that a Grafana keeps for us.

Each kind only ever touches what it made itself, and says what it would do before it does it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Protocol

from monitor.grafana.client import Grafana
from monitor.model import GrafanaError


class Act(StrEnum):
    """What is to be done about something."""

    CREATE = "create"
    UPDATE = "update"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    """It belongs to somebody else, or was edited: ``--force`` is needed, or other means."""
    REMOVE = "remove"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done about one thing, and why."""

    kind: str
    name: str
    act: Act
    reason: str = ""
    lines: tuple[str, ...] = ()
    """What is different, one line each."""
    found: Any = None
    """What Grafana has, as it was read."""


class Item(Protocol):
    """One thing that Grafana should have."""

    @property
    def kind(self) -> str:
        """What it is, for people."""
        ...

    @property
    def name(self) -> str:
        """Its uid, or the name it has instead."""
        ...

    def look(self, grafana: Grafana, *, force: bool) -> Change:
        """What would be done about it."""
        ...

    def put(self, grafana: Grafana, change: Change) -> None:
        """Does it."""
        ...

    def look_to_remove(self, grafana: Grafana, *, force: bool) -> Change:
        """What would be done to be rid of it."""
        ...

    def remove(self, grafana: Grafana) -> None:
        """Does that."""
        ...

    @property
    def _what(self) -> str:
        return f"{self.kind} {self.name}"

    def _change(
        self, act: Act, reason: str = "", lines: tuple[str, ...] = (), found: Any = None
    ) -> Change:
        return Change(self.kind, self.name, act, reason, lines, found)


def entry(found: Any, what: str) -> dict[str, Any] | None:
    """A JSON object, or None; raises ``GrafanaError`` for anything else."""
    if found is not None and not isinstance(found, dict):
        raise odd(what)
    return found


def entries(found: Any, what: str) -> list[dict[str, Any]]:
    """A list of JSON objects; raises ``GrafanaError`` for anything else."""
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise odd(what)
    return found


def odd(what: str) -> GrafanaError:
    """An answer that makes no sense."""
    text = f"{what}: the answer is none that Grafana 11.6 to 13 gives"
    return GrafanaError(text, status=HTTPStatus.OK)
