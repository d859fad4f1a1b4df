"""The looks of the past at one target: from its samples, and from what was said in between."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from monitor.explain.rebuild import recorded_baseline
from monitor.health.baseline import Baseline
from monitor.health.verdict import Said as Answer
from monitor.model import Action, Identity, Increment, Verdict
from monitor.pipeline import Counted, NoPage
from monitor.store.course import Course, Said

SILENT = frozenset({Verdict.DOWN, Verdict.UNRECOGNISED})
"""Verdicts of looks that gave no figures, again and again, as long as they hold."""
MISSED = 2
"""Looks without a page before a target counts as down."""


class PastLook(NamedTuple):
    """One look, as far as it is known."""

    at: float
    seen: Counted | NoPage
    baseline: Baseline | None
    """What was compared with at the time."""
    before: Answer | None
    """What had been said until then."""


@dataclass(slots=True)
class Looks:
    """Makes the looks at one target from what is stored.

    Samples tell of looks that gave figures. Of those that gave none only changes of verdict are
    stored: a server that was down was looked at each interval until it came back.
    """

    course: Course
    _times: list[float] = field(init=False)
    _since: list[float] = field(init=False)
    _baselines: list[Baseline | None] = field(init=False)

    def __post_init__(self) -> None:
        self._times = [said.at for said in self.course.said]
        self._since = [at for at, _ in self.course.identities]
        self._baselines = [recorded_baseline(said.baseline) for said in self.course.said]

    def of(self, increments: Iterable[Increment], start: float) -> Iterator[PastLook]:
        """All looks after ``start``; ``increments`` are those after it, ascending."""
        last = start
        for end, group in groupby(increments, key=lambda increment: increment.end):
            yield from self._between(last, end)
            yield self._look(end, tuple(group))
            last = end
        yield from self._between(last, self.course.until + self.course.facts.interval)

    def _between(self, start: float, end: float) -> Iterator[PastLook]:
        """The looks without figures after ``start`` and before ``end``."""
        first, stop = bisect_right(self._times, start), bisect_left(self._times, end)
        held = self.course.said[first - 1] if first else None
        if held is not None and held.verdict in SILENT and held.at != start:
            # It was down at the beginning already.
            yield from self._silence(held, start, self._until(first, end))
        for number in range(first, stop):
            said = self.course.said[number]
            if said.verdict in SILENT:
                yield from self._missed(said, start)
                yield from self._silence(said, said.at, self._until(number + 1, end))
            else:
                yield self._look(said.at, ())

    def _until(self, number: int, end: float) -> float:
        """Until when a change holds: to the next, or to the next sample."""
        following = self._times[number] if number < len(self._times) else end
        # The look that ended it is the next one.
        return min(following, end) - 0.5 * self.course.facts.interval

    def _missed(self, said: Said, start: float) -> Iterator[PastLook]:
        """The looks before a target was called down, which repeated what was said before."""
        interval = self.course.facts.interval
        if said.verdict is not Verdict.DOWN:
            return
        for number in range(MISSED, 0, -1):
            at = said.at - number * interval
            if at > start + 0.5 * interval:
                yield self._no_page(at, said)

    def _silence(self, said: Said, start: float, end: float) -> Iterator[PastLook]:
        at = start
        while at < end:
            if said.verdict is Verdict.DOWN:
                yield self._no_page(at, said)
            else:
                yield self._look(at, ())
            at += self.course.facts.interval

    def _no_page(self, at: float, said: Said) -> PastLook:
        return self._past(at, NoPage(said.sentence))

    def _look(self, at: float, increments: tuple[Increment, ...]) -> PastLook:
        index = bisect_right(self._since, at)
        known = self.course.identities
        identity = known[max(index - 1, 0)][1] if known else Identity()
        said = bisect_right(self._times, at)
        verdict = self.course.said[said - 1].verdict if said else None
        return self._past(at, Counted(increments, identity, verdict))

    def _past(self, at: float, seen: Counted | NoPage) -> PastLook:
        number, earlier = bisect_right(self._times, at), bisect_left(self._times, at)
        return PastLook(
            at,
            seen,
            self._baselines[number - 1] if number else None,
            _answer(self.course.said[earlier - 1]) if earlier else None,
        )


def _answer(said: Said) -> Answer:
    return said.verdict, said.cause, Action(said.action)
