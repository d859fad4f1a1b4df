"""One tick of one target: page text in, increments and an assessment out.

Live scraping, ``monitor check``, backfill, replay and the demo all run this same code; they
differ in where pages come from and which clock they pass in.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from monitor.engines.reader import PageReader
from monitor.health import memory
from monitor.health.baseline import Baseline
from monitor.health.orders import Order, apply_order
from monitor.health.peers import Peers
from monitor.health.stored import stored_sample
from monitor.health.target import TargetState
from monitor.health.verdict import Said
from monitor.model import (
    Alarm,
    Assessment,
    Figures,
    Identity,
    Increment,
    PageError,
    Sample,
    Verdict,
)
from monitor.settings import TargetSettings


class Page(NamedTuple):
    """The bodies that one look at a target gave."""

    metrics: bytes
    loads: bytes | None = None
    """Body of SGLang's ``/v1/loads`` where the server offers it."""
    about: bytes | None = None
    """What the server told about itself, on the pages with which it was asked."""


class NoPage(NamedTuple):
    """A look that gave no page, and why, in one line."""

    error: str


class Counted(NamedTuple):
    """What was stored of a look, where its page is gone."""

    increments: tuple[Increment, ...]
    """Of all engines; empty where the page told no figures."""
    identity: Identity
    verdict: Verdict | None
    """What was said of it at the time."""


Seen = Page | Sample | NoPage | Counted
"""All that a look can have given."""


class Tick(NamedTuple):
    """What one look at a target led to."""

    increments: tuple[Increment, ...]
    """One row per engine, ready for the store; empty for a first look or a bad page."""
    assessment: Assessment
    changed: bool
    """True when verdict, cause or action differ from the tick before."""
    fresh: bool = True
    """False where the assessment repeats an earlier one because a page is missing."""
    problem: str | None = None
    """One line when the page could not be used."""


class TargetPipeline:
    """Keeps what must be remembered of one target between two pages."""

    def __init__(self, settings: TargetSettings) -> None:
        self.settings = settings
        self._reader = PageReader(settings.engine, settings.draft_size)
        self._state = TargetState(settings.name, settings.interval, settings.judge, settings.gap)
        self._assessment: Assessment | None = None

    def tick(self, seen: Seen, now: float) -> Tick:
        """Takes in one page, or what there is in its place, or that there is none.

        Never raises for the content of a page: a bad one is a ``problem``.
        """
        if isinstance(seen, NoPage):
            return self.tick_failed(seen.error, now)
        last = self._state.memory.last_at
        if last is not None and now <= last:
            return self.tick_failed("the time of this page is not after the one before", last)
        if isinstance(seen, Counted):
            self._retrace(seen, now)
            return self._tick(seen.increments, self._state.assess(now), None)
        try:
            sample = self._read(seen, now)
        except PageError as error:
            return self.tick_failed(str(error), now)
        increments = self._state.observe(sample)
        return self._tick(increments, self._state.assess(now), None)

    def recall(self, seen: Counted, now: float, said: Said | None) -> None:
        """Takes in what was stored without judging it; ``said`` was the answer before it.

        What is learnt to be normal is learnt again; it takes a tenth of the time of ``tick``.
        """
        self._state.memory.verdict = said
        self._retrace(seen, now)
        if self._state.memory.watch.may_clear:
            self._state.assess(now)

    def prime(self, seen: Seen, now: float) -> None:
        """Shows the reader a page that was taken in by an earlier process.

        What some pages mean follows from the one before; nothing else is made of it.
        """
        if not isinstance(seen, NoPage | Counted):
            with suppress(PageError):
                self._read(seen, now)

    def tick_failed(self, error: str, now: float) -> Tick:
        """Takes in that no page could be had (``error`` is one line).

        One missing page is no outage: the last verdict stands until pages have been missing
        for two and a half intervals.
        """
        if not self._state.misses_pages(now):
            standing = self._assessment or self._state.standing(now)
            if standing is not None:
                return self._tick((), standing, error, fresh=False)
        return self._tick((), self._state.down(error, now), error)

    def _retrace(self, seen: Counted, now: float) -> None:
        sample = stored_sample(now, seen.identity, seen.increments, seen.verdict)
        if seen.increments:
            self._state.retrace(sample, seen.increments, learn=True)
        else:
            self._state.observe(sample)

    def _read(self, seen: Page | Sample, now: float) -> Sample:
        if isinstance(seen, Sample):
            return seen
        return self._reader.read(seen.metrics, now, seen.loads, seen.about)

    def _tick(
        self,
        increments: tuple[Increment, ...],
        assessment: Assessment,
        problem: str | None,
        *,
        fresh: bool = True,
    ) -> Tick:
        self._assessment = assessment
        key = (assessment.verdict, assessment.cause, assessment.action)
        changed = key != self._state.memory.verdict
        self._state.memory.verdict = key
        return Tick(increments, assessment, changed, fresh, problem)

    def use_baseline(self, baseline: Baseline | None, why_not: str | None = None) -> None:
        """Compares with this curve from now on; ``why_not`` is a note on why there is none."""
        self._state.use_baseline(baseline, why_not)

    def use_peers(self, peers: Peers) -> None:
        """Tells how the other replicas of the service do; diagnoses weigh it from now on."""
        self._state.peers = peers

    def note_alert(self, *, open_: bool) -> None:
        """Tells whether an alert about the target is open: then nothing is learnt from it."""
        self._state.alerted = open_

    def alarms(self) -> tuple[Alarm, ...]:
        """What the detector of changes stands by now."""
        return self._state.memory.watch.alarms

    def windows(self) -> dict[float, Figures]:
        """The figures of every configured window, by its length in seconds."""
        return {seconds: self._state.figures(seconds) for seconds in self.settings.judge.windows}

    def lifetime(self, now: float) -> Assessment:
        """The assessment of all since the server started, from the last page alone."""
        return self._state.assess_lifetime(now)

    def state(self) -> str:
        """What the next process needs to go on with the next page, as JSON text (2–4 KB)."""
        return state_text(self._state)

    def waiting(self) -> dict[str, Any]:
        """What is still to be learnt of the last hour, which ``state`` leaves out, for JSON."""
        return memory.waiting(self._state)

    def obey(self, order: Order) -> bool:
        """Carries out an order about the learnt normal; False while no page told the server."""
        return apply_order(self._state, order)

    def restore(
        self, state: str, history: Iterable[Increment], waiting: dict[str, Any] | None = None
    ) -> None:
        """Goes on from ``state`` and ``waiting`` of an earlier process; ``history`` ascends.

        Raises ``StoreError`` when the text is not what ``state`` wrote.
        """
        memory.restore(self._state, state, history)
        if waiting is not None:
            memory.restore_waiting(self._state, waiting)
        tracks = self._state.memory.tracks.values()
        counters = {name for track in tracks for name in track.values}
        self._reader.recall(self._state.identity, counters)


def state_text(state: TargetState) -> str:
    """What is remembered of a target, as JSON text.

    It is written with each page, and most of it are floats, which the standard library takes
    ten times as long to print.
    """
    document = memory.to_document(state, orjson.dumps, orjson.Fragment)
    return orjson.dumps(document).decode()
