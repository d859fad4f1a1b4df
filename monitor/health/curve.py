"""Fits a baseline curve to what a server without speculation was seen doing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

from monitor.health.baseline import BaselinePoint
from monitor.health.speedup import running
from monitor.model import Counts

BINS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 48.0, 64.0, 96.0, 128.0, 160.0, 192.0, 224.0, 256.0)
"""Running requests at the middle of each bin; powers of two alone miss the knee.

Beyond the last one a bin comes each 64 requests.
"""
_STEP_BEYOND = 64.0
LEAST_SECONDS = 30.0
"""Decode time behind a bin before it is worth a point of the curve."""
LEAST_TOKENS = 200.0


@dataclass(slots=True)
class BinSums:
    """Additive figures of one load bin."""

    weighted_running: float = 0.0
    """Running requests times decode time."""
    decode_seconds: float = 0.0
    decode_tokens: float = 0.0
    weighted_squares: float = 0.0
    """Squared TPOT times tokens, for the spread between intervals."""
    seconds: float = 0.0
    requests: float = 0.0
    prompt_tokens: float = 0.0
    prefix_queries: float = 0.0
    prefix_hits: float = 0.0

    def take(self, load: float, counts: Counts) -> None:
        """Adds one interval."""
        self.weighted_running += load * counts.decode_seconds
        self.decode_seconds += counts.decode_seconds
        self.decode_tokens += counts.decode_tokens
        self.weighted_squares += counts.decode_seconds**2 / counts.decode_tokens
        self.seconds += counts.seconds
        self.requests += counts.requests
        self.prompt_tokens += counts.prompt_tokens
        self.prefix_queries += counts.prefix_queries
        self.prefix_hits += counts.prefix_hits

    def add(self, other: BinSums) -> None:
        """Adds what another server was seen doing at this load."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def fade(self, factor: float) -> None:
        """Lets all of it count for less."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) * factor)

    @property
    def point(self) -> BaselinePoint:
        """The bin as a point of the curve."""
        tpot = self.decode_seconds / self.decode_tokens
        variance = self.weighted_squares / self.decode_tokens - tpot**2
        return BaselinePoint(
            running=self.weighted_running / self.decode_seconds,
            tpot=tpot,
            seconds=self.seconds,
            requests=self.requests,
            spread=sqrt(max(variance, 0.0)) / tpot,
            context=self.prompt_tokens / self.requests if self.requests > 0.0 else None,
            prefix_hit_share=(
                self.prefix_hits / self.prefix_queries if self.prefix_queries > 0.0 else None
            ),
        )


def bin_of(load: float) -> float:
    """The middle of the bin a load belongs to."""
    if load >= BINS[-1]:
        return BINS[-1] + _STEP_BEYOND * round((load - BINS[-1]) / _STEP_BEYOND)
    right = max(bisect_right(BINS, load), 1)
    low, high = BINS[right - 1], BINS[right]
    # The border lies at the geometric mean: bins grow by factors, not by steps.
    return low if load < sqrt(low * high) else high


class CurveSums:
    """Observed decoding by load, as it comes in."""

    def __init__(self) -> None:
        self.bins: dict[float, BinSums] = {}

    def take(self, counts: Counts) -> None:
        """Adds one interval of a server; what holds no decoding is passed over."""
        load = running(counts)
        if load is None or counts.decode_tokens <= 0.0 or counts.decode_seconds <= 0.0:
            return
        load = max(load, 1.0)
        self.bins.setdefault(bin_of(load), BinSums()).take(load, counts)

    def add(self, other: CurveSums) -> None:
        """Adds what another server was seen doing."""
        for middle, sums in other.bins.items():
            self.bins.setdefault(middle, BinSums()).add(sums)

    def fade(self, factor: float) -> None:
        """Lets all that was seen so far count for less beside what comes."""
        for sums in self.bins.values():
            sums.fade(factor)

    @property
    def covered(self) -> tuple[float, ...]:
        """The bins with enough behind them, ascending."""
        return tuple(
            middle
            for middle, sums in sorted(self.bins.items())
            if sums.decode_seconds >= LEAST_SECONDS and sums.decode_tokens >= LEAST_TOKENS
        )

    def points(self) -> tuple[BaselinePoint, ...]:
        """The curve: one point a covered bin, made monotone."""
        return monotone([self.bins[middle].point for middle in self.covered])


def fit(intervals: Iterable[Counts]) -> tuple[BaselinePoint, ...]:
    """The curve of stored intervals."""
    sums = CurveSums()
    for counts in intervals:
        sums.take(counts)
    return sums.points()


def monotone(points: Sequence[BaselinePoint]) -> tuple[BaselinePoint, ...]:
    """Pools neighbours whose TPOT falls with load (pool-adjacent-violators).

    A token cannot get cheaper because more requests run; where it looks so it is noise, and
    the pooled value is the weighted mean of the points that disagree.
    """
    pooled: list[tuple[float, float, int]] = []
    ordered = sorted(points, key=lambda point: point.running)
    for point in ordered:
        value, weight, number = point.tpot, max(point.seconds, 1e-9), 1
        while pooled and pooled[-1][0] > value:
            before, before_weight, before_number = pooled.pop()
            value = (before * before_weight + value * weight) / (before_weight + weight)
            weight += before_weight
            number += before_number
        pooled.append((value, weight, number))
    values = [value for value, _, number in pooled for _ in range(number)]
    return tuple(
        BaselinePoint(
            point.running,
            value,
            point.seconds,
            point.requests,
            point.spread,
            point.context,
            point.prefix_hit_share,
        )
        for point, value in zip(ordered, values, strict=True)
    )
