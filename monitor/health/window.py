"""From cumulative readings to additive counts: deltas, restarts, gaps and workers by turns.

The rules, in the order in which they are tried:

1. The first reading of an engine is an origin only; what came before it is unknown.
2. Another birth time (``_created``, ``process_start_time_seconds``) than before is a restart
   if it lies after the look before, else another worker that answers in turns.
3. Without birth times a falling counter is a restart. Counters begin at zero then, so the new
   value is what was counted since; but without a birth time or a page that showed the engine
   gone it might be another worker's, and the reading is only a new origin.
4. Fields of one group only move together. While one of them is missing (a damaged line), the
   group waits and catches up with the next page.
5. After a gap of more than 2.5 intervals a difference is only trusted when an unchanged birth
   time rules out a restart in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from monitor.model import Counts, Reading, Speculation

GROUPS: tuple[tuple[str, ...], ...] = (
    ("output_tokens",),
    ("requests",),
    ("prompt_tokens",),
    ("drafts", "draft_tokens", "accepted_tokens"),
    ("gauge_tokens",),
    ("decode_seconds", "decode_tokens", "decode_steps"),
    ("engine_steps", "batched_steps"),
    ("prefix_queries", "prefix_hits"),
    ("first_token_seconds", "first_tokens"),
)
"""Counters that are only believed together; a group may lack fields an engine never shows."""

_MONOTONE = (
    "output_tokens",
    "requests",
    "prompt_tokens",
    "drafts",
    "draft_tokens",
    "decode_seconds",
    "decode_steps",
    "engine_steps",
)
"""Counters that fall only at a restart; differences of two counters may wobble."""

GAP_INTERVALS = 2.5
_SAME_BIRTH = 1.0
"""Seconds; birth times of one process differ by microseconds between series."""
_OTHER_WORKER = 60.0
"""A process born this long before our last look was there all along."""
_REMEMBERED_BIRTHS = 8
_LOOKS_TO_CLIMB = 3
"""A restarted server does not reach its old totals within so few looks, unless it was young."""


@dataclass(slots=True)
class Step:
    """What one engine did between two looks, and how that was found out."""

    counts: Counts
    restarted: bool = False
    other_worker: bool = False
    active: bool = False
    """Whether anything at all was counted."""


@dataclass(slots=True)
class Group:
    """The last reading of a group of counters."""

    at: float
    values: tuple[float | None, ...]


@dataclass(slots=True)
class Track:
    """The memory of one engine between two pages."""

    groups: list[Group | None] = field(default_factory=lambda: [None] * len(GROUPS))
    positions: tuple[float, ...] = ()
    positions_drafts: float = 0.0
    births: list[float] = field(default_factory=list)
    """Birth times seen, the current one last."""
    peak: dict[str, float] = field(default_factory=dict)
    """Counters before the last fall: if they are soon met again, two workers take turns."""
    looks_since_fall: int = 0
    vanished: bool = False
    """True while the last page of the target did not show this engine."""
    last_at: float | None = None

    def advance(self, reading: Reading, at: float, interval: float) -> Step | None:
        """The counts since the look before, or None where this is the first one.

        ``interval`` is the nominal time between looks in seconds. ``at`` must not run
        backwards.
        """
        before, self.last_at = self.last_at, at
        vanished, self.vanished = self.vanished, False
        if before is None:
            self._originate(reading, at)
            return None
        other_worker = self._is_other_worker(reading, before)
        restarted = not other_worker and self._is_restart(reading)
        if other_worker or (restarted and reading.birth is None and not vanished):
            self._originate(reading, at)
            counts = Counts(seconds=at - before, resets=float(restarted))
            return Step(counts, restarted=restarted, other_worker=other_worker)
        if restarted:
            self.groups = [None] * len(GROUPS)
        gap = at - before > GAP_INTERVALS * interval
        step = self._difference(reading, at, before, restarted=restarted, gap=gap)
        self._note_birth(reading)
        return step

    def lifetime(self, reading: Reading, at: float) -> Counts:
        """Everything since the engine started, from one reading alone."""
        deltas: dict[str, float] = {}
        for names in GROUPS:
            deltas |= {n: reading.counters[n] for n in names if n in reading.counters}
        seconds = max(at - reading.birth, 0.0) if reading.birth is not None else 0.0
        positions = self._position_deltas(reading, restarted=True)
        return _counts(reading, deltas, positions, seconds, gap=False)

    def _originate(self, reading: Reading, at: float) -> None:
        for index, names in enumerate(GROUPS):
            self.groups[index] = Group(at, tuple(map(reading.counters.get, names)))
        self._keep_positions(reading)
        self._note_birth(reading)

    def _note_birth(self, reading: Reading) -> None:
        if reading.birth is None:
            return
        known = [b for b in self.births if abs(b - reading.birth) > _SAME_BIRTH]
        self.births = [*known[1 - _REMEMBERED_BIRTHS :], reading.birth]

    def _is_other_worker(self, reading: Reading, before: float) -> bool:
        if reading.birth is not None and self.births:
            if abs(reading.birth - self.births[-1]) <= _SAME_BIRTH:
                return False
            seen = any(abs(reading.birth - b) <= _SAME_BIRTH for b in self.births)
            return seen or reading.birth < before - _OTHER_WORKER
        return self._climbed_back(reading)

    def _climbed_back(self, reading: Reading) -> bool:
        """Whether the counters soon stand again at or above where they were before they fell."""
        self.looks_since_fall += 1
        if not self.peak or self.looks_since_fall > _LOOKS_TO_CLIMB:
            return False
        shared = [name for name in self.peak if name in reading.counters]
        climbed = bool(shared) and all(reading.counters[n] >= self.peak[n] for n in shared)
        if climbed:
            self.peak = {}
        return climbed

    def _last_values(self) -> dict[str, float]:
        values: dict[str, float] = {}
        for names, group in zip(GROUPS, self.groups, strict=True):
            if group is not None:
                pairs = zip(names, group.values, strict=True)
                values |= {name: value for name, value in pairs if value is not None}
        return values

    def _is_restart(self, reading: Reading) -> bool:
        if reading.birth is not None and self.births:
            return abs(reading.birth - self.births[-1]) > _SAME_BIRTH
        last = self._last_values()
        fell = any(
            name in reading.counters and reading.counters[name] < last[name]
            for name in _MONOTONE
            if name in last
        )
        if fell:
            self.peak = {name: last[name] for name in _MONOTONE if name in last}
            self.looks_since_fall = 0
        return fell

    def _difference(
        self, reading: Reading, at: float, before: float, *, restarted: bool, gap: bool
    ) -> Step:
        trusted = not gap or (reading.birth is not None and bool(self.births))
        deltas: dict[str, float] = {}
        for index, names in enumerate(GROUPS):
            now = tuple(map(reading.counters.get, names))
            last = self.groups[index]
            if last is None:
                if restarted:
                    deltas |= {n: v for n, v in zip(names, now, strict=True) if v is not None}
                self.groups[index] = Group(at, now)
            elif _same_shape(now, last.values):
                if trusted and not _fell(names, now, last.values):
                    deltas |= {
                        name: new - old
                        for name, new, old in zip(names, now, last.values, strict=True)
                        if new is not None and old is not None
                    }
                self.groups[index] = Group(at, now)
            elif _has_all(now, last.values) or last.at < before:
                # New fields have appeared, or what is missing stayed away: begin anew.
                self.groups[index] = Group(at, now)
        positions = self._position_deltas(reading, restarted=restarted) if trusted else ()
        self._keep_positions(reading)
        counts = _counts(reading, deltas, positions, at - before, gap=gap)
        if restarted:
            counts = counts._replace(resets=1.0)
        return Step(counts, restarted=restarted, active=any(v > 0.0 for v in deltas.values()))

    def _position_deltas(self, reading: Reading, *, restarted: bool) -> tuple[float, ...]:
        """Accepted per position, only where drafts and all positions are on both pages."""
        if "drafts" not in reading.counters or not reading.positions:
            return ()
        if restarted:
            return (reading.counters["drafts"], *reading.positions)
        if len(reading.positions) != len(self.positions):
            return ()
        drafts = reading.counters["drafts"] - self.positions_drafts
        return (
            drafts,
            *(n - o for n, o in zip(reading.positions, self.positions, strict=True)),
        )

    def _keep_positions(self, reading: Reading) -> None:
        if "drafts" in reading.counters and reading.positions:
            self.positions = reading.positions
            self.positions_drafts = reading.counters["drafts"]


def _same_shape(now: tuple[float | None, ...], last: tuple[float | None, ...]) -> bool:
    return all((n is None) == (o is None) for n, o in zip(now, last, strict=True))


def _has_all(now: tuple[float | None, ...], last: tuple[float | None, ...]) -> bool:
    return all(n is not None for n, o in zip(now, last, strict=True) if o is not None)


def _fell(
    names: tuple[str, ...], now: tuple[float | None, ...], last: tuple[float | None, ...]
) -> bool:
    """A counter fell although its process lives on: the page is wrong, nothing is counted."""
    return any(
        n is not None and o is not None and n < o and name in _MONOTONE
        for name, n, o in zip(names, now, last, strict=True)
    )


def _counts(
    reading: Reading,
    deltas: dict[str, float],
    positions: tuple[float, ...],
    seconds: float,
    *,
    gap: bool,
) -> Counts:
    """Additive counts of one interval from the differences of its counters."""
    tokens = deltas.pop("gauge_tokens", 0.0)
    if "drafts" in deltas or "draft_tokens" in deltas:
        speculative = _from_counters(reading, deltas)
    elif tokens > 0.0 and not gap:
        speculative = _from_gauge(reading, tokens)
    else:
        speculative = {}
    if positions:
        speculative["position_drafts"] = positions[0]
    waiting = reading.waiting or 0.0
    return Counts(
        **{**deltas, **speculative},
        seconds=seconds,
        running_seconds=(reading.running or 0.0) * seconds,
        waiting_seconds=waiting * seconds,
        saturated_seconds=seconds if waiting > 0.0 else 0.0,
        positions=positions[1:],
    )


def _from_counters(reading: Reading, deltas: dict[str, float]) -> dict[str, float]:
    """Fills in drafts from draft tokens or the other way round, where k is known."""
    size = reading.draft_size
    drafts, tokens = deltas.get("drafts"), deltas.get("draft_tokens")
    if drafts is None and tokens is not None:
        return {"drafts": tokens / size} if size else {"uncounted_draft_tokens": tokens}
    if tokens is None and drafts is not None:
        return {"draft_tokens": drafts * size} if size else {"unsized_drafts": drafts}
    return {}


def _from_gauge(reading: Reading, tokens: float) -> dict[str, float]:
    """Drafts and accepted tokens behind a gauge of the acceptance length.

    The gauge is weighted by the tokens that flowed since the look before: drafts =
    tokens / length. It is not used where the engine has switched drafting off.
    """
    if reading.accept_length is None or reading.speculation is Speculation.DISABLED:
        return {}
    drafts = tokens / reading.accept_length
    size = reading.draft_size
    counted = {"drafts": drafts, "accepted_tokens": tokens - drafts, "gauge_drafts": drafts}
    return counted | ({"draft_tokens": drafts * size} if size else {"unsized_drafts": drafts})
