"""How a figure changed: in one step, or sliding for hours, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from math import inf
from typing import NamedTuple

EXPLAINED = 0.6
"""Share of the variation a shape must explain to be called one."""
LEAST_POINTS = 5
SLIDE_SECONDS = 3600.0
"""A slide over less time than this cannot be told from noise and a step."""


class Point(NamedTuple):
    """A figure over a part of the past."""

    start: float
    end: float
    value: float
    weight: float
    """What is behind it: draft tokens, decode tokens."""

    @property
    def middle(self) -> float:
        """The time it stands for."""
        return (self.start + self.end) / 2.0


class Kind(StrEnum):
    """The shape of a change."""

    STEP = "step"
    SLIDE = "slide"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a figure."""

    kind: Kind
    at: float
    """When the step came, or the slide began."""
    error: float
    """The change lies within ± this many seconds."""
    before: float
    after: float

    @property
    def relative(self) -> float:
        """The change as a share of the value before; negative for a fall."""
        return self.after / self.before - 1.0 if self.before else 0.0


class _Prefix:
    """Running sums, so that each possible cut costs the same however long the series is."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.weight = [0.0, *accumulate([p.weight for p in points])]
        self.sum = [0.0, *accumulate([p.weight * p.value for p in points])]
        self.squares = [0.0, *accumulate([p.weight * p.value * p.value for p in points])]

    def mean(self, first: int, last: int) -> float:
        """Weighted mean of the points from ``first`` up to ``last``."""
        return (self.sum[last] - self.sum[first]) / (self.weight[last] - self.weight[first])

    def residual(self, first: int, last: int) -> float:
        """Weighted squared deviation from that mean."""
        weight = self.weight[last] - self.weight[first]
        total = self.sum[last] - self.sum[first]
        return max(self.squares[last] - self.squares[first] - total * total / weight, 0.0)

    def best_cut(self) -> tuple[int, float]:
        """The cut that leaves the least residual in both parts together, and that residual."""
        weights, sums, squares = self.weight, self.sum, self.squares
        weight, total, square = weights[-1], sums[-1], squares[-1]
        best, least = 0, inf
        for cut in range(1, len(weights) - 1):
            after = total - sums[cut]
            # As ``residual``, without the calls: this is most of the work of a search.
            left = squares[cut] - sums[cut] * sums[cut] / weights[cut]
            right = square - squares[cut] - after * after / (weight - weights[cut])
            both = (left if left > 0.0 else 0.0) + (right if right > 0.0 else 0.0)
            if both < least:
                best, least = cut, both
        return best, least


def find_change(points: Sequence[Point]) -> Change | None:
    """The change that the points show, or None where they show none.

    A constant, one step and a straight line are fitted by weighted least squares; the better
    of the last two counts if it explains most of the variation. Whether the change is large
    enough to matter is for the caller to say.
    """
    points = [point for point in points if point.weight > 0.0]
    if len(points) < LEAST_POINTS:
        return None
    prefix, number = _Prefix(points), len(points)
    flat = prefix.residual(0, number)
    if flat <= 1e-12 * prefix.squares[number]:
        return None
    cut, stepped = prefix.best_cut()
    intercept, slope, sloped = _line(points)
    if 1.0 - min(stepped, sloped) / flat < EXPLAINED:
        return None
    if sloped < stepped:
        return _slide(points, intercept, slope)
    return _step(points, cut, prefix)


def _step(points: Sequence[Point], cut: int, prefix: _Prefix) -> Change:
    last, first = points[cut - 1], points[cut]
    return Change(
        Kind.STEP,
        (last.end + first.start) / 2.0,
        max(first.end - last.start, 0.0) / 2.0,
        prefix.mean(0, cut),
        prefix.mean(cut, len(points)),
    )


def _slide(points: Sequence[Point], intercept: float, slope: float) -> Change | None:
    first, last = points[0].middle, points[-1].middle
    if last - first < SLIDE_SECONDS:
        return None
    return Change(
        Kind.SLIDE,
        points[0].start,
        points[0].end - points[0].start,
        intercept + slope * first,
        intercept + slope * last,
    )


def _line(points: Sequence[Point]) -> tuple[float, float, float]:
    """Intercept, slope and weighted residual of the straight line through the points."""
    seen = [(point.middle, point.value, point.weight) for point in points]
    weight = sum([w for _, _, w in seen])
    centre = sum([x * w for x, _, w in seen]) / weight
    mean = sum([y * w for _, y, w in seen]) / weight
    moment = sum([w * (x - centre) * (y - mean) for x, y, w in seen])
    inertia = sum([w * (x - centre) ** 2 for x, _, w in seen])
    slope = moment / inertia if inertia > 0.0 else 0.0
    intercept = mean - slope * centre
    residual = sum([w * (y - intercept - slope * x) ** 2 for x, y, w in seen])
    return intercept, slope, residual
