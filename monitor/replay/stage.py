"""Sets a replay up: the targets of each service, their looks, and when somebody was told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from monitor.model import Increment
from monitor.replay.looks import Looks, PastLook
from monitor.replay.run import Player
from monitor.settings import Role, TargetSettings
from monitor.store.course import Course
from monitor.store.rollup import STEPS, bucket_end

LEARNT = 8 * 86_400.0
"""Seconds before the start from which it is learnt what is normal."""
AT_ONCE = 6 * 3_600.0
"""Seconds of samples that are held in memory of each target."""


class Past(Protocol):
    """The part of the repository that a replay reads; all of it raises ``StoreError``."""

    def course(self, target: str, start: float, end: float) -> Course:
        """What was said of a target."""
        ...

    def seconds_kept(self, at: float) -> int:
        """What is kept of a time: sums of so many seconds; 0 where the samples are there."""
        ...

    def samples(self, target: str, start: float, end: float) -> Sequence[Increment]:
        """What a target did, ascending in time."""
        ...


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the past comes from."""

    past: Past
    start: float
    end: float
    gpus: float | None = None
    """GPUs of each target; None: as many as its tensor parallelism, or one."""

    def players(
        self, names: Sequence[str], configured: Mapping[str, TargetSettings]
    ) -> dict[str, list[Player]]:
        """The targets by service, with the settings that are configured or stored."""
        services: dict[str, list[Player]] = {}
        for name in names:
            course = self.past.course(name, self.start - LEARNT, self.end)
            settings = self._at_pace(configured.get(name) or _stored(course))
            player = Player(settings, self._looks(course), self._gpus(course))
            services.setdefault(settings.service, []).append(player)
        return services

    def _at_pace(self, settings: TargetSettings) -> TargetSettings:
        """Looks are as rare as the sums that are left of them; that is no gap."""
        kept = float(self.past.seconds_kept(self.start))
        return (
            replace(settings, interval=max(settings.interval, kept), gap=None)
            if kept
            else settings
        )

    def _looks(self, course: Course) -> Callable[[], Iterator[PastLook]]:
        first = self.end if course.first is None else course.first
        start = max(self.start - LEARNT, bucket_end(first, STEPS[-1]) - 2 * STEPS[-1])
        looks = Looks(course)
        return lambda: looks.of(self._samples(course.facts.target, start), start)

    def _samples(self, target: str, start: float) -> Iterator[Increment]:
        while start < self.end:
            # Cut where sums are cut, so that none is left out.
            until = min(bucket_end(start + AT_ONCE, STEPS[-1]), self.end)
            yield from self.past.samples(target, start, until)
            start = until

    def _gpus(self, course: Course) -> float:
        if self.gpus is not None:
            return self.gpus
        return float(course.facts.identity.tensor_parallel or 1)


def _stored(course: Course) -> TargetSettings:
    facts = course.facts
    return TargetSettings(
        name=facts.target,
        service=facts.service,
        url="",
        role=Role(facts.role),
        interval=facts.interval,
        gap=course.gap,
        judge=course.judge,
    )
