"""One tick of one target: page text in, increments and an assessment out.

Live scraping, ``monitor check``, backfill, replay and the demo all run this same code; they
differ in where pages come from and which clock they pass in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from monitor.model import Assessment, Increment
from monitor.settings import TargetSettings


@dataclass(frozen=True, slots=True)
class Page:
    """The bodies that one look at a target gave."""

    metrics: bytes
    loads: bytes | None = None
    """Body of SGLang's ``/v1/loads`` where the server offers it."""


@dataclass(frozen=True, slots=True)
class Tick:
    """What one look at a target led to."""

    increments: tuple[Increment, ...]
    """One row per engine, ready for the store; empty for a first look or a bad page."""
    assessment: Assessment
    changed: bool
    """True when verdict, cause or action differ from the tick before."""
    problem: str | None = None
    """One line when the page could not be used."""


class TargetPipeline:
    """Keeps what must be remembered of one target between two pages."""

    def __init__(self, settings: TargetSettings) -> None:
        raise NotImplementedError

    def tick(self, page: Page, now: float) -> Tick:
        """Takes in one page. Never raises for the page's content: a bad page is a ``problem``."""
        raise NotImplementedError

    def tick_failed(self, error: str, now: float) -> Tick:
        """Takes in that no page could be had (``error`` is one line)."""
        raise NotImplementedError

    def windows(self, now: float) -> dict[float, Assessment]:
        """The assessment of every configured window, by its length in seconds."""
        raise NotImplementedError

    def state(self) -> str:
        """What the next process needs to go on with the next page, as JSON text (about 1 KB)."""
        raise NotImplementedError

    def restore(self, state: str, history: Iterable[Increment]) -> None:
        """Goes on from ``state`` of an earlier process; ``history`` is ascending in time."""
        raise NotImplementedError
