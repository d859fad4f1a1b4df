"""What the lines of a log tell: windows of figures, and starts of a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from monitor.model import Identity, Speculation


class LogWindow(NamedTuple):
    """What one engine did from ``start`` to ``end``."""

    label: str
    """As on the page: ``engine`` or ``dp_rank``; empty where there is only one."""
    start: float
    end: float
    counters: Mapping[str, float]
    """By how much each counter of a ``Reading`` grew."""
    positions: tuple[float, ...] = ()
    """Accepted tokens at draft position 0, 1, …"""
    running: float | None = None
    waiting: float | None = None
    accept_length: float | None = None
    draft_size: float | None = None
    speculation: Speculation = Speculation.ABSENT


@dataclass(frozen=True, slots=True)
class LogStart:
    """A server began anew, and said what it is."""

    at: float
    identity: Identity


Event = LogWindow | LogStart


class LogLine(NamedTuple):
    """One line without what containers, collectors and terminals put around it."""

    text: str
    at: float | None = None
    """When a collector noted it; surer than the stamp inside, which has no zone."""
    source: str = ""
    """The container, pod or unit that it came from, where several are mixed."""


class LogParser(Protocol):
    """Understands the lines of one kind of server."""

    def take(self, text: str, at: float, source: str) -> Iterator[Event]:
        """What this line, and lines before it that are complete now, tell."""
        ...

    def finish(self) -> Iterator[Event]:
        """What the last lines told, when no more come."""
        ...
