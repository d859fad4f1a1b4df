"""Starts the rounds: which target is scraped when, and what watches over that.

A job for each target would cost the scheduler more than the scrape costs. So targets are
dealt into slots about a second wide, by a hash of their name that no restart changes, and each
slot is one job that only hands its targets to a pool of threads.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, NamedTuple, Protocol, TypeVar
from zlib import crc32

import structlog
from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    JobEvent,
)
from apscheduler.executors.debug import DebugExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from monitor.clock import Clock

SLOT_SECONDS = 1.0
PATIENCE = 2.5
"""Intervals without any round after which the loop counts as stuck."""
STEP_SECONDS = 1.0
"""A difference between wall clock and steady clock that is a step and no drift."""

_log = structlog.get_logger(__name__)


class Member(Protocol):
    """What is scraped in rounds."""

    @property
    def name(self) -> str:
        """Decides the slot."""
        ...

    @property
    def interval(self) -> float:
        """Seconds between two rounds."""
        ...

    def claim(self) -> bool:
        """Begins a round; False, and counted as late, while the last one still runs."""
        ...


M = TypeVar("M", bound=Member)


class Slot(NamedTuple):
    """The times at which some targets are scraped: each interval, at an offset into it."""

    interval: float
    offset: float


@dataclass(slots=True)
class RoundCounts:
    """What the scheduler did not do as planned."""

    missed: int = 0
    """Rounds of a slot that came too late to be worth starting."""
    skipped: int = 0
    """Rounds of a slot that came while the one before was still being handed out."""
    failed: int = 0
    """Rounds that could not be handed out."""
    rebuilds: int = 0


def slot_of(name: str, interval: float) -> Slot:
    """The slot of a target, the same in each process and on each machine."""
    slots = max(1, int(interval / SLOT_SECONDS))
    return Slot(interval, crc32(name.encode()) % slots * (interval / slots))


class Rounds(Generic[M]):
    """Hands each member out once an interval, and notices when that stops.

    Args:
        clock: the clock of the machine, which the scheduler goes by whatever it is told.
        submit: takes a member that was claimed.
        pace: how many seconds of the members' intervals pass in one of the machine's.
    """

    def __init__(self, clock: Clock, submit: Callable[[M], object], pace: float = 1.0) -> None:
        self.counts = RoundCounts()
        self._clock = clock
        self._submit = submit
        self._pace = pace
        self._lock = threading.Lock()
        self._slots: dict[Slot, tuple[M, ...]] = {}
        self._scheduler: BackgroundScheduler | None = None
        self._last_round = self._rebuilt = clock.monotonic()
        self._skew = clock.utc() - clock.monotonic()

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots in use."""
        return tuple(self._slots)

    @property
    def limit(self) -> float:
        """The loop age, in seconds, from which the loop counts as stuck."""
        return PATIENCE * min((slot.interval for slot in self._slots), default=math.inf)

    def age(self) -> float:
        """Seconds since any slot was handed out; 0 where there is nothing to do."""
        return self._clock.monotonic() - self._last_round if self._slots else 0.0

    def plan(self, members: Iterable[M]) -> None:
        """Replaces the members; keeps running if it was running."""
        slots = defaultdict(list)
        for member in members:
            slots[slot_of(member.name, member.interval / self._pace)].append(member)
        with self._lock:
            self._slots = {slot: tuple(found) for slot, found in slots.items()}
            if self._scheduler is not None:
                self._restart()

    def start(self) -> None:
        """Begins to hand out."""
        with self._lock:
            self._last_round = self._clock.monotonic()
            self._restart()

    def stop(self) -> None:
        """Hands nothing out any more, from the moment it returns."""
        with self._lock:
            self._halt()

    def fire(self, slot: Slot) -> None:
        """Hands out the members of a slot."""
        self._last_round = self._clock.monotonic()
        for member in self._slots.get(slot, ()):
            if member.claim():
                self._hand_out(member)

    def watch(self) -> None:
        """Rebuilds the scheduler when it is stuck, or when the clock it goes by was set.

        The scheduler asks the wall clock what is due. Set back an hour, it would do nothing
        for an hour, without a word; set forward, it would drop the rounds in between.
        """
        skew = self._clock.utc() - self._clock.monotonic()
        step, self._skew = skew - self._skew, skew
        stuck_for = self._clock.monotonic() - max(self._last_round, self._rebuilt)
        if abs(step) > STEP_SECONDS:
            _log.warning("the wall clock was set", by_seconds=round(step, 3))
        elif self._slots and stuck_for > self.limit:
            _log.error("no round was started for too long", seconds=round(stuck_for, 1))
        else:
            return
        with self._lock:
            if self._scheduler is not None:
                self.counts.rebuilds += 1
                self._restart()

    def _hand_out(self, member: M) -> None:
        try:
            self._submit(member)
        except RuntimeError as error:
            # The system gave no thread. The work is queued all the same and is done by the
            # next thread that is free, so that the claim stays.
            self.counts.failed += 1
            _log.error("no thread for a round", target=member.name, error=str(error))

    def _halt(self) -> None:
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=False)
            self._scheduler = None

    def _restart(self) -> None:
        self._halt()
        scheduler = BackgroundScheduler(
            jobstores={"default": MemoryJobStore()},
            # Handing out takes microseconds, so that it is done in the scheduler's own thread.
            executors={"default": DebugExecutor()},
            job_defaults={"coalesce": True, "max_instances": 1},
            timezone=UTC,
        )
        events = EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES | EVENT_JOB_ERROR
        scheduler.add_listener(self._count, events)
        now = self._clock.utc()
        for slot in self._slots:
            scheduler.add_job(
                self.fire,
                IntervalTrigger(seconds=slot.interval, start_date=_next(slot, now), timezone=UTC),
                args=[slot],
                # A round later than this is overtaken by the next one.
                misfire_grace_time=max(1, math.ceil(slot.interval)),
            )
        scheduler.start()
        self._scheduler = scheduler
        self._rebuilt = self._clock.monotonic()

    def _count(self, event: JobEvent) -> None:
        if event.code == EVENT_JOB_MISSED:
            self.counts.missed += 1
        elif event.code == EVENT_JOB_MAX_INSTANCES:
            self.counts.skipped += 1
        else:
            self.counts.failed += 1
            _log.error("a round could not be started", error=repr(event.exception))


def _next(slot: Slot, now: float) -> datetime:
    """The next time of a slot; the same grid on the wall clock after each restart."""
    periods = math.floor((now - slot.offset) / slot.interval) + 1
    return datetime.fromtimestamp(periods * slot.interval + slot.offset, UTC)
