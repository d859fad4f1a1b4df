"""Sums of counts over any recent span of time, exactly and in little memory.

A ledger keeps running totals at boundaries between intervals: each boundary of the last
quarter of an hour, one a minute for an hour, one each ten minutes for a day. The sum over a
window is the difference of two totals, so it costs the same for a minute and for a day.
"""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_left
from collections import deque
from itertools import pairwise
from typing import NamedTuple

from monitor.model import Counts

_SCALARS = len(Counts._fields) - 1
_BASELINE = Counts._fields.index("baseline_seconds")
_COMPARED = Counts._fields.index("compared_seconds")
_COMPARISON = (_BASELINE, _COMPARED, Counts._fields.index("uncompared_seconds"))
_TIERS = ((0.0, 900.0), (60.0, 3_600.0), (600.0, 86_400.0))
"""Least distance between boundaries, and how long they are kept, in seconds."""
_SLACK = 0.5
"""Share of an interval by which the first interval of a window may begin too early."""


def add(a: Counts, b: Counts) -> Counts:
    """Field by field; positions of unequal number are filled up with zero."""
    positions = add_positions(a.positions, b.positions)
    return Counts._make((*map(operator.add, a[:-1], b[:-1]), positions))


def add_positions(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
    """Position by position; where one side has fewer, its missing ones are zero."""
    if not a or not b:
        return a or b
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    return (*map(operator.add, longer, shorter), *longer[len(shorter) :])


class Block(NamedTuple):
    """The comparison with the baseline over a part of a window, in seconds of decoding."""

    baseline_seconds: float
    compared_seconds: float


class _Tier:
    """Boundaries of one resolution: their times and the totals at them."""

    __slots__ = ("_dropped", "_span", "step", "times", "totals")

    def __init__(self, step: float, span: float) -> None:
        self.step = step
        self._span = span
        self._dropped = False
        self.times: deque[float] = deque()
        self.totals: deque[array[float]] = deque()

    def add(self, at: float, total: array[float], slack: float) -> None:
        # By the clock and not by the boundary before: so it does not matter where a ledger
        # began, and one that was built again has the same boundaries.
        if self.times and self.step and at // self.step == self.times[-1] // self.step:
            return
        self.times.append(at)
        self.totals.append(total)
        # One boundary beyond the span stays: the longest window begins at it.
        while self.times[0] < at and self.times[1] < at - self._span - slack:
            self.times.popleft()
            self.totals.popleft()
            self._dropped = True

    def first_since(self, start: float) -> int | None:
        """Index of the first boundary at or after ``start``; None if one there was dropped."""
        if not self.times or (self._dropped and self.times[0] > start):
            return None
        return bisect_left(self.times, start)


class Ledger:
    """Running totals of one target or engine."""

    __slots__ = ("_interval", "_now", "_tiers", "_total")

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._tiers = tuple(_Tier(step, span) for step, span in _TIERS)
        self._total = array("d", bytes(8 * _SCALARS))
        self._now: float | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing was taken in yet."""
        return self._now is None

    def append(self, start: float, end: float, counts: Counts) -> None:
        """Takes in one interval; intervals come in order and do not overlap.

        Time between the end of the one before and ``start`` was not observed; it separates
        windows as a gap.
        """
        if self._now is None or start > self._now:
            self._mark(start)
        self._total = _plus(self._total, counts)
        self._mark(end)

    def forget_comparison(self) -> None:
        """Begins the comparison with the baseline anew, as if nothing had been compared yet.

        The totals at all boundaries become those of now, so that every difference is zero.
        """
        for tier in self._tiers:
            for total in tier.totals:
                for index in _COMPARISON:
                    total[index] = self._total[index]

    def _mark(self, at: float) -> None:
        self._now = at
        for tier in self._tiers:
            tier.add(at, self._total, _SLACK * self._interval)

    def window(self, seconds: float) -> tuple[float, float, Counts] | None:
        """Start, end and sums of the last ``seconds``; None before the first interval.

        An interval that begins before the window is left out whole: it may hold anything, so
        after a gap a window is shorter than asked, never filled with older figures.
        """
        if self._now is None:
            return None
        start = self._now - seconds - _SLACK * self._interval
        times, totals, index = self._boundary(start)
        return times[index], self._now, _difference(self._total, totals[index])

    def compared_blocks(self, seconds: float, number: int) -> list[Block]:
        """The comparison with the baseline in at most ``number`` parts of the window.

        The parts are of about equal length, cut at boundaries.
        """
        if self._now is None:
            return []
        times, totals, first = self._boundary(self._now - seconds - _SLACK * self._interval)
        least = (self._now - times[first]) / number - _SLACK * self._interval
        blocks, begin = [], first
        while (end := bisect_left(times, times[begin] + least, begin + 1)) < len(times):
            blocks.append(_block(totals[begin], totals[end]))
            begin = end
        return blocks

    def parts(self, seconds: float, number: int) -> list[tuple[float, float, Counts]]:
        """The last ``seconds`` in at most about ``number`` parts: start, end and sums of each.

        The coarsest boundaries that are fine enough are used.
        """
        if self._now is None:
            return []
        least = seconds / number
        tier = max((t for t in self._tiers if t.step <= least), key=lambda t: t.step)
        first = tier.first_since(self._now - seconds)
        if first is None:
            tier, first = self._tiers[-1], 0
        marks = [first]
        for index in range(first + 1, len(tier.times)):
            if tier.times[index] - tier.times[marks[-1]] >= least - _SLACK * self._interval:
                marks.append(index)
        return [
            (tier.times[a], tier.times[b], _difference(tier.totals[b], tier.totals[a]))
            for a, b in pairwise(marks)
        ]

    def _boundary(self, start: float) -> tuple[deque[float], deque[array[float]], int]:
        """The finest boundary at or after ``start`` that is kept, else the oldest of all."""
        for tier in self._tiers:
            index = tier.first_since(start)
            if index is not None:
                return tier.times, tier.totals, index
        oldest = self._tiers[-1]
        return oldest.times, oldest.totals, 0


def _block(earlier: array[float], later: array[float]) -> Block:
    return Block(later[_BASELINE] - earlier[_BASELINE], later[_COMPARED] - earlier[_COMPARED])


def _plus(total: array[float], counts: Counts) -> array[float]:
    figures = (*counts[:-1], *counts.positions)
    sums = array("d", map(operator.add, total, figures))
    # Where one of the two has fewer positions, its missing ones are zero.
    sums.extend(total[len(figures) :])
    sums.extend(figures[len(total) :])
    return sums


def _difference(later: array[float], earlier: array[float]) -> Counts:
    figures = (*map(operator.sub, later, earlier), *later[len(earlier) :])
    return Counts._make((*figures[:_SCALARS], figures[_SCALARS:]))
