"""From cumulative readings to additive counts: deltas, restarts, gaps and workers by turns.

The rules, in the order in which they are tried:

1. The first reading of an engine is an origin only; what came before it is unknown.
2. Another birth time (``_created``, ``process_start_time_seconds``) than before is a restart
   if it lies after the look before, else another worker that answers in turns.
3. Where births do not tell workers apart, because there are none or they are equal, a worker is
   known by where its counters stood: a reading that goes on from there, and not from the look
   before, is another worker's (``turns.py``). So is one of an unchanged birth that is lower all
   over.
4. Without birth times any other falling counter is a restart. Counters begin at zero then, so the
   new value is what was counted since; but without a birth time or a page that showed the engine
   gone it might be a worker's that is seen for the first time, and the reading is only a new
   origin.
5. Fields of one group only move together. While one of them is missing (a damaged line) or has
   fallen without a restart, the group waits and catches up with the next page.
6. After a gap (usually more than 2.5 intervals) a difference is only trusted when an unchanged
   birth time rules out a restart in between.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

from monitor.health.counters import GROUPS, fell, is_lower
from monitor.health.turns import Turns
from monitor.model import Counts, Reading, Speculation

_DRAFT_GROUP = next(i for i, names in enumerate(GROUPS) if "drafts" in names)
GAP_INTERVALS = 2.5
_SAME_BIRTH = 0.05
"""Seconds; birth times of one process differ by microseconds between series."""
_OTHER_WORKER = 60.0
"""A process born this long before our last look was there all along."""
_REMEMBERED_BIRTHS = 8
_EXACT = 1024.0
_NOTHING = 1e-9


@dataclass(slots=True)
class Step:
    """What one engine did between two looks, and how that was found out."""

    counts: Counts
    restarted: bool = False
    other_worker: bool = False
    """Whether another worker answered than before, for certain."""
    active: bool = False
    """Whether anything at all was counted."""


@dataclass(slots=True)
class Track:
    """The memory of one engine between two pages."""

    values: dict[str, float] = field(default_factory=dict)
    """The last believed counters."""
    waiting: set[int] = field(default_factory=set)
    """Groups that were damaged on the last page and wait for the next one."""
    positions: tuple[float, ...] = ()
    positions_drafts: float = 0.0
    births: list[float] = field(default_factory=list)
    """Birth times seen, the current one last."""
    turns: Turns = field(default_factory=Turns)
    vanished: bool = False
    """True while the last page of the target did not show this engine."""
    last_at: float | None = None

    @property
    def drafts_pending(self) -> bool:
        """Whether the drafts of the last page are only known with the next one."""
        return _DRAFT_GROUP in self.waiting

    def advance(self, reading: Reading, at: float, longest: float) -> Step | None:
        """The counts since the look before, or None where this is the first one.

        A gap is a time of more than ``longest`` seconds between looks. ``at`` must not run
        backwards.
        """
        before, self.last_at = self.last_at, at
        vanished, self.vanished = self.vanished, False
        if before is None:
            self._originate(reading)
            return None
        gap = at - before > longest
        lives = self._lives(reading)
        other_worker = self._is_other_worker(
            reading, before, at, lives=lives, is_apart=vanished or gap
        )
        restarted = not other_worker and self._is_restart(reading)
        untold = reading.birth is None and not vanished
        if other_worker or (restarted and untold):
            certain = other_worker
            if lives or untold:
                self.turns.leave(self.values, reading.counters, at - before, lives=lives)
                certain = other_worker and self.turns.is_certain
            self._originate(reading)
            counts = Counts(seconds=at - before, resets=float(restarted))
            return Step(counts, restarted=restarted, other_worker=certain)
        if restarted:
            self._begin_at_zero(reading)
        if gap and (reading.birth is None or not self.births):
            self._originate(reading)
            return Step(_counts(reading, {}, (), at - before, gap=True))
        last = self.values
        deltas = self._deltas(reading.counters)
        positions = self._position_deltas(reading)
        self._keep_positions(reading)
        self._note_birth(reading)
        active = max(deltas.values(), default=0.0) > 0.0
        if active and not restarted and not gap:
            self.turns.note(last, deltas, at - before)
        counts = _counts(reading, deltas, positions, at - before, gap=gap)
        if restarted:
            counts = counts._replace(resets=1.0)
        return Step(counts, restarted=restarted, active=active)

    def lifetime(self, reading: Reading, at: float) -> Counts:
        """Everything since the engine started, from one reading alone."""
        seconds = max(at - reading.birth, 0.0) if reading.birth is not None else 0.0
        drafts = reading.counters.get("drafts", 0.0)
        positions = (drafts, *reading.positions) if reading.positions else ()
        return _counts(reading, dict(reading.counters), positions, seconds, gap=False)

    def _originate(self, reading: Reading) -> None:
        """Takes a reading as the point from which on is counted."""
        self.values = reading.counters
        self.waiting.clear()
        self.positions, self.positions_drafts = (), 0.0
        self._keep_positions(reading)
        self._note_birth(reading)

    def _begin_at_zero(self, reading: Reading) -> None:
        """After a restart whatever the page shows was counted since."""
        self.turns = Turns()
        self.values = dict.fromkeys(reading.counters, 0.0)
        self.waiting.clear()
        self.positions = (0.0,) * len(reading.positions)
        self.positions_drafts = 0.0

    def _note_birth(self, reading: Reading) -> None:
        if reading.birth is None:
            return
        known = [b for b in self.births if abs(b - reading.birth) > _SAME_BIRTH]
        self.births = [*known[1 - _REMEMBERED_BIRTHS :], reading.birth]

    def _lives(self, reading: Reading) -> bool:
        """Whether its birth tells that it is the process of the look before, or one of its age."""
        birth = reading.birth
        return (
            birth is not None and bool(self.births) and abs(birth - self.births[-1]) <= _SAME_BIRTH
        )

    def _is_other_worker(
        self, reading: Reading, before: float, at: float, *, lives: bool, is_apart: bool
    ) -> bool:
        now, birth = reading.counters, reading.birth
        if lives:
            if fell(now, self.values):
                return is_lower(now, self.values)
            return self.turns.is_other(now, self.values, at - before)
        if birth is None or not self.births:
            # After a time unseen a fall is a restart.
            return not is_apart and self.turns.is_other(now, self.values, at - before)
        seen = any(abs(birth - b) <= _SAME_BIRTH for b in self.births)
        # Of a server whose clock is behind ours a restart looks older than our last look.
        restarted = birth > self.births[-1] and fell(now, self.values)
        return seen or (birth < before - _OTHER_WORKER and not restarted)

    def _is_restart(self, reading: Reading) -> bool:
        if reading.birth is not None and self.births:
            return abs(reading.birth - self.births[-1]) > _SAME_BIRTH
        return fell(reading.counters, self.values)

    def _deltas(self, now: dict[str, float]) -> dict[str, float]:
        """Differences of the counters, group by group where fields are missing."""
        last = self.values
        if now.keys() == last.keys():
            deltas = {name: value - last[name] for name, value in now.items()}
            # Where no difference is negative nothing fell, which is nearly always.
            if min(deltas.values(), default=0.0) >= 0.0 or not fell(now, last):
                self.waiting.clear()
                self.values = now
                return deltas
        return self._deltas_by_group(now)

    def _deltas_by_group(self, now: dict[str, float]) -> dict[str, float]:
        deltas: dict[str, float] = {}
        values: dict[str, float] = {}
        for index, names in enumerate(GROUPS):
            new = {name: now[name] for name in names if name in now}
            old = {name: self.values[name] for name in names if name in self.values}
            if new.keys() == old.keys() and not fell(new, old):
                deltas |= {name: value - old[name] for name, value in new.items()}
                self.waiting.discard(index)
            elif old.keys() < new.keys() or index in self.waiting:
                # New fields have appeared, or what is wrong stayed so: begin anew.
                self.waiting.discard(index)
            else:
                # A field is missing, or fell although its process lives on: the page is wrong.
                self.waiting.add(index)
                new = old
            values |= new
        self.values = values
        return deltas

    def _position_deltas(self, reading: Reading) -> tuple[float, ...]:
        """Drafts and accepted per position, only where all of them are on both pages."""
        drafts = reading.counters.get("drafts")
        if drafts is None or not reading.positions:
            return ()
        if len(reading.positions) != len(self.positions):
            return ()
        since = map(operator.sub, reading.positions, self.positions)
        deltas = (drafts - self.positions_drafts, *since)
        return deltas if min(deltas) >= 0.0 else ()

    def _keep_positions(self, reading: Reading) -> None:
        """Remembers what positions are counted from, but not a page on which they fell."""
        fell = len(self.positions) == len(reading.positions) and any(
            map(operator.lt, reading.positions, self.positions)
        )
        fell = fell or reading.counters.get("drafts", 0.0) < self.positions_drafts
        if "drafts" in reading.counters and reading.positions and not fell:
            self.positions = reading.positions
            self.positions_drafts = reading.counters["drafts"]


def _counts(
    reading: Reading,
    deltas: dict[str, float],
    positions: tuple[float, ...],
    seconds: float,
    *,
    gap: bool,
) -> Counts:
    """Additive counts of one interval from the differences of its counters."""
    # What is left of zero after a rounding is zero; quotients of it would be no figures.
    deltas = {name: delta for name, delta in deltas.items() if abs(delta) > _NOTHING}
    tokens = deltas.pop("gauge_tokens", 0.0)
    verified = deltas.pop("verified_tokens", None)
    if verified is not None:
        deltas["accepted_tokens"] = verified - deltas.get("drafts", 0.0)
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
    # A binary fraction adds and subtracts exactly, so that sums over ranks leave no crumbs.
    drafts = round(tokens / reading.accept_length * _EXACT) / _EXACT
    size = reading.draft_size
    counted = {"drafts": drafts, "accepted_tokens": tokens - drafts, "gauge_drafts": drafts}
    return counted | ({"draft_tokens": drafts * size} if size else {"unsized_drafts": drafts})
