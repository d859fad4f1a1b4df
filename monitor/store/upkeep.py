"""Keeps the database in shape, a little at a time: rolls up, prunes, gives room back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import structlog
from sqlalchemy import Engine

from monitor.report import iso
from monitor.settings import Retention
from monitor.store.retention import (
    DELETED_AT_ONCE,
    announce,
    count_older,
    dropped_until,
    extent,
    limits,
    prune,
    seen_between,
)
from monitor.store.rollup import RAW, STEPS, bucket_end, count_fresh, roll_up
from monitor.store.space import Space, give_back, measure

LEAST_KEPT = {RAW: 3_600.0, 60: 86_400.0, 600: 86_400.0}
"""What is kept of each level however large the database is, in seconds."""
NAMES = {RAW: "samples", 60: "sums of a minute", 600: "sums of ten minutes"}
MEASURED_SECONDS = 600.0
TRUST_SECONDS = 86_400.0
"""How long figures must have come at a time before anything is dropped by it."""
ABSENT_SECONDS = 30 * 86_400.0
"""How long the monitor may have been away without being taken for a wrong clock."""
_HEADROOM = 0.9
"""The share of its limit that a database which was too large is brought down to."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Tally:
    """What upkeep has done, or would do."""

    rolled_up: int = 0
    """Samples that were added to the roll-ups."""
    deleted: Counter[int] = field(default_factory=Counter)
    """Rows that were older than they are kept, by step."""


@dataclass(slots=True)
class Upkeep:
    """What one process does for the database; safe beside others that do the same."""

    engine: Engine
    retention: Retention
    heeds_clock: bool = True
    """Whether nothing is dropped by a clock that is suddenly far ahead of what is stored."""
    space: Space | None = None
    """The size as it was last measured."""
    tally: Tally = field(default_factory=Tally)
    _measured_at: float | None = None
    _has_room: bool = False
    """Whether there may be room to give back to the system."""
    _dropped: dict[int, float] = field(default_factory=dict)
    _beyond: bool = False
    _doubts: bool = False

    def work(self, now: float) -> bool:
        """One short piece of what is due; True when there is more.

        Each transaction takes well under a second. Raises ``StoreError`` when the database does
        not take part.
        """
        rolled_up = roll_up(self.engine, now)
        self.tally.rolled_up += rolled_up
        if rolled_up:
            return True
        announced, doubts = dropped_until(self.engine), False
        for step, until in limits(self.retention, now).items():
            due = max(until, announced[step])
            if due <= self._dropped.get(step, 0.0):
                continue
            doubts = doubts or (due > announced[step] and self._doubts_clock(now))
            if not doubts and self._drop(step, due, now):
                return True
        if self._measured_at is None or abs(now - self._measured_at) >= MEASURED_SECONDS:
            self.space = measure(self.engine)
            if not doubts and self._shrink(self.space, now):
                return True
            self._measured_at, self._has_room = now, True
        if self._has_room:
            self._has_room = give_back(self.engine)
        return self._has_room

    def due(self, now: float) -> Tally:
        """What ``work`` would do, the limit of the size aside."""
        older = Counter(
            {
                step: count_older(self.engine, step, until)
                for step, until in limits(self.retention, now).items()
            }
        )
        return Tally(count_fresh(self.engine, now), older)

    def _drop(self, step: int, until: float, now: float) -> bool:
        """Deletes some rows; True when there are more."""
        deleted = prune(self.engine, step, until, now)
        self.tally.deleted[step] += deleted
        if deleted >= DELETED_AT_ONCE:
            return True
        self._dropped[step] = until
        return False

    def _doubts_clock(self, now: float) -> bool:
        """Whether it may be the clock that is wrong, and not the past that is old.

        A clock that jumped years ahead would have all of the past dropped within a minute. After
        a day of figures at the new time, in which somebody can put it right, it is believed.
        """
        if not self.heeds_clock:
            return False
        first, _ = extent(self.engine, STEPS[-1])
        is_old = first is not None and first < now - TRUST_SECONDS - ABSENT_SECONDS
        doubts = is_old and not seen_between(
            self.engine, now - TRUST_SECONDS - ABSENT_SECONDS, now - TRUST_SECONDS
        )
        if doubts and not self._doubts:
            _log.warning(
                "nothing is dropped until figures have come for a day: by the clock, none were"
                " stored for a month",
                now=iso(now),
            )
        self._doubts = doubts
        return doubts

    def _shrink(self, space: Space, now: float) -> bool:
        """Decides what goes before its time in a database that is too large."""
        most = self.retention.max_bytes
        if most is None or space.used <= most:
            self._beyond = False
            return False
        excess = (space.used - _HEADROOM * most) / space.used * sum(space.rows.values())
        for step, kept in LEAST_KEPT.items():
            first, number = extent(self.engine, step)
            if first is None or first >= now - kept:
                continue
            share = min(excess / max(number, 1), 1.0)
            until = bucket_end(min(first + share * (now - first), now - kept), STEPS[-1])
            announce(self.engine, step, until)
            _log.warning(
                "the database is larger than retention.max_size: the oldest figures go early",
                bytes=space.used,
                max_bytes=most,
                what=NAMES[step],
                until=iso(until),
            )
            return True
        if not self._beyond:
            _log.error(
                "the database is larger than retention.max_size, and nothing may be dropped",
                bytes=space.used,
                max_bytes=most,
            )
        self._beyond = True
        return False
