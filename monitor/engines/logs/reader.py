"""From the lines of a log to the samples that the pages of the same server would have given."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import zip_longest
from math import inf

from monitor.engines.logs import sglang, vllm
from monitor.engines.logs.stamps import Stamps
from monitor.engines.logs.window import Event, LogParser, LogStart, LogWindow
from monitor.engines.logs.wrapping import unwrap
from monitor.model import Engine, Identity, Reading, Sample

PARSERS: dict[Engine, Callable[[float | None], LogParser]] = {
    Engine.VLLM: vllm.VllmLog,
    Engine.SGLANG: sglang.SglangLog,
}
MARKS = {Engine.VLLM: vllm.MARKS, Engine.SGLANG: sglang.MARKS}
WANTED = re.compile(
    "|".join(re.escape(mark) for marks in MARKS.values() for mark in marks).encode()
)
"""What stands in each line that tells something; all others need not be looked at."""

_MIXED = 30.0
"""Seconds by which lines of several processes may stand in another order than they were made."""
_TOGETHER = 2.0
"""Seconds within which the windows of several engines end that make one sample."""
_APART = 2.5
"""Seconds between two windows from which on nothing is known of the time between."""
_LATE = 60.0
"""A window that ends this long before the last one is not of this place in the log."""
_MOMENT = 1e-3
_MOST_KNOWN = 2000


class LogReader:
    """Reads the log of one server, line by line.

    Args:
        engine: the kind of server; None: told by the first line of a known form.
        draft_size: draft tokens per draft, where the user knows.
        skipped: counts what is left out, by reason.
    """

    def __init__(
        self,
        engine: Engine | None,
        stamps: Stamps,
        draft_size: float | None,
        skipped: Counter[str],
    ) -> None:
        self._engine = engine
        self._draft_size = draft_size
        self._stamps = stamps
        self._skipped = skipped
        self._parser: LogParser | None = PARSERS[engine](draft_size) if engine else None
        self._source: str | None = None

    def samples(self, lines: Iterable[bytes]) -> Iterator[Sample]:
        """Cumulative samples, ascending in time; ``lines`` are those with a wanted mark.

        Raises ``ConfigError`` for stamps that cannot be read as they are.
        """
        totals = _Totals(self._skipped)
        for event in _in_order(self._events(lines)):
            totals.engine = self._engine
            yield from totals.take(event)
        yield from totals.finish()

    def _events(self, lines: Iterable[bytes]) -> Iterator[Event]:
        for line in lines:
            yield from self._read(line)
        if self._parser is not None:
            yield from self._parser.finish()

    def _read(self, raw: bytes) -> Iterator[Event]:
        line = unwrap(raw.decode("utf-8", "replace"))
        stamp = self._stamps.read(line.text) if line.at is None else None
        at = stamp if line.at is None else self._stamps.check(line.at, line.text[:40])
        if at is None:
            self._skipped["line without a time"] += 1
            return
        if self._source is None and line.source:
            self._source = line.source
        if line.source != (self._source or ""):
            self._skipped[f"line of another source than {self._source}"] += 1
            return
        parser = self._parser or self._recognise(line.text)
        if parser is not None:
            yield from parser.take(line.text, at, line.source)

    def _recognise(self, text: str) -> LogParser | None:
        for engine, marks in MARKS.items():
            if any(mark in text for mark in marks):
                self._engine, self._parser = engine, PARSERS[engine](self._draft_size)
        return self._parser


def _in_order(events: Iterable[Event]) -> Iterator[Event]:
    """Events by time, as far as the lines of several processes mix within half a minute."""
    held: list[tuple[float, int, Event]] = []
    latest = -inf
    for number, event in enumerate(events):
        at = event.at if isinstance(event, LogStart) else event.end
        heappush(held, (at, number, event))
        latest = max(latest, at)
        while held[0][0] < latest - _MIXED:
            yield heappop(held)[2]
    while held:
        yield heappop(held)[2]


@dataclass(slots=True)
class _Totals:
    """Adds windows up to the counters that a page would show."""

    skipped: Counter[str]
    engine: Engine | None = None
    _identity: Identity = field(default_factory=Identity)
    _birth: float | None = None
    _readings: dict[str, Reading] = field(default_factory=dict)
    _batch: list[LogWindow] = field(default_factory=list)
    _last: float | None = None
    """The time of the last sample."""
    _served: bool = False
    """Whether anything was counted since the last start."""
    _known: deque[tuple[float, str, float | None, tuple[float, ...]]] = field(
        default_factory=lambda: deque(maxlen=_MOST_KNOWN)
    )
    """The last windows: where files overlap, some of them come again."""

    def take(self, event: Event) -> Iterator[Sample]:
        """Samples that are complete now that this event came."""
        if isinstance(event, LogStart):
            if self._birth is not None and event.at <= self._birth:
                # Several engines tell of one start, and files that overlap tell of it again.
                return
            yield from self.finish()
            yield from self._start(event)
            return
        last = -inf if self._last is None else self._last
        if event.end < last - _LATE:
            self.skipped["window out of order"] += 1
            return
        if self._knows(event):
            self.skipped["window that is there twice"] += 1
            return
        # A window that came too late for its own sample is part of the next one.
        first = min((w.end for w in self._batch if w.end > last), default=inf)
        if event.end > first + _TOGETHER:
            yield from self.finish()
        self._batch.append(event)

    def _knows(self, window: LogWindow) -> bool:
        # Where a window begins may follow from the line before, which is another one now.
        drafts = window.counters.get("drafts")
        key = window.end, window.label, drafts, window.positions
        while self._known and self._known[0][0] < window.end - 2.0 * _LATE:
            self._known.popleft()
        if key in self._known:
            return True
        self._known.append(key)
        return False

    def finish(self) -> Iterator[Sample]:
        """The sample of the windows that wait."""
        batch, self._batch = self._batch, []
        if not batch:
            return
        last = self._last
        at = max(window.end for window in batch)
        at = at if last is None else max(at, last + 2.0 * _MOMENT)
        start = min(window.start for window in batch)
        new = [window.label for window in batch if window.label not in self._readings]
        for label in new:
            self._readings[label] = Reading(label, birth=self._birth)
        windows = _by_label(batch)
        for window in windows:
            self._open(window)
        if last is None or new or start > last + _APART:
            # Nothing is known of the time before, and what is counted begins here.
            begin = start if last is None else max(start, last + _MOMENT)
            yield self._sample(min(begin, at - _MOMENT), busy=False)
        for window in windows:
            self._add(window)
        self._served = True
        yield self._sample(at, busy=True)

    def _start(self, start: LogStart) -> Iterator[Sample]:
        """Several engines of a server tell of its start; the first of them is the moment."""
        self._identity = start.identity
        if self._birth is not None and not self._served:
            return
        self._birth, self._served = start.at, False
        self._readings = {
            label: Reading(label, dict.fromkeys(reading.counters, 0.0), birth=start.at)
            for label, reading in self._readings.items()
        }
        if self._readings and (self._last is None or start.at > self._last):
            yield self._sample(start.at, busy=False)

    def _open(self, window: LogWindow) -> None:
        """Shows the counters of a window before it adds to them."""
        reading = self._readings[window.label]
        for name in window.counters:
            reading.counters.setdefault(name, 0.0)
        reading.speculation = window.speculation
        reading.draft_size = window.draft_size
        reading.accept_length = window.accept_length
        if len(reading.positions) != len(window.positions) and window.positions:
            reading.positions = (0.0,) * len(window.positions)

    def _add(self, window: LogWindow) -> None:
        reading = self._readings[window.label]
        for name, growth in window.counters.items():
            reading.counters[name] += growth
        if window.positions:
            reading.positions = tuple(
                total + growth
                for total, growth in zip(reading.positions, window.positions, strict=True)
            )
        reading.running, reading.waiting = window.running, window.waiting

    def _sample(self, at: float, *, busy: bool) -> Sample:
        self._last = at
        readings = [
            replace(
                reading,
                counters=dict(reading.counters),
                running=reading.running if busy else 0.0,
                waiting=reading.waiting if busy else 0.0,
            )
            for _, reading in sorted(self._readings.items())
        ]
        identity = self._identity
        return Sample(at, identity._replace(engine=self.engine), readings)


def _by_label(batch: list[LogWindow]) -> list[LogWindow]:
    """One window for each engine: what came too late is added to what came next."""
    merged: dict[str, LogWindow] = {}
    for window in batch:
        before = merged.get(window.label)
        merged[window.label] = window if before is None else _merge(before, window)
    return list(merged.values())


def _merge(one: LogWindow, other: LogWindow) -> LogWindow:
    names = {*one.counters, *other.counters}
    positions = zip_longest(one.positions, other.positions, fillvalue=0.0)
    drafts, more = _gauge_drafts(one), _gauge_drafts(other)
    tokens = _weight(one) + _weight(other)
    sizes = (one.draft_size, other.draft_size)
    known = None not in sizes and drafts + more
    return other._replace(
        start=min(one.start, other.start),
        end=max(one.end, other.end),
        counters={n: one.counters.get(n, 0.0) + other.counters.get(n, 0.0) for n in names},
        positions=tuple(a + b for a, b in positions),
        accept_length=tokens / (drafts + more) if drafts + more else other.accept_length,
        draft_size=(
            (drafts * (sizes[0] or 0.0) + more * (sizes[1] or 0.0)) / (drafts + more)
            if known
            else other.draft_size
        ),
    )


def _weight(window: LogWindow) -> float:
    return window.counters.get("gauge_tokens", 0.0)


def _gauge_drafts(window: LogWindow) -> float:
    """The drafts behind a gauge of the acceptance length."""
    return _weight(window) / window.accept_length if window.accept_length else 0.0
