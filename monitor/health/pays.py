"""Where speculation pays: by load, and the load from which on it stops paying."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from monitor.health.curve import bin_of
from monitor.health.ledger import add
from monitor.health.speedup import BASELINE_ERROR, running
from monitor.model import Counts, Estimate


@dataclass(frozen=True, slots=True)
class LoadBin:
    """What happened at one load."""

    running: float
    """Mean running requests in the bin."""
    speedup: Estimate
    acceptance_rate: float | None
    decode_seconds: float
    share: float
    """Share of all compared decode time."""


def by_load(intervals: Iterable[Counts]) -> list[LoadBin]:
    """Speedup in each load bin, ascending; intervals without comparison are passed over."""
    bins: dict[float, list[Counts]] = {}
    for counts in intervals:
        load = running(counts)
        if load is not None and counts.compared_seconds > 0.0:
            bins.setdefault(bin_of(max(load, 1.0)), []).append(counts)
    total = sum(c.compared_seconds for group in bins.values() for c in group)
    return [_bin(group, total) for _, group in sorted(bins.items())]


def _bin(group: list[Counts], total: float) -> LoadBin:
    sums = Counts()
    for counts in group:
        sums = add(sums, counts)
    weighted = sum((running(c) or 0.0) * c.compared_seconds for c in group)
    value = sums.baseline_seconds / sums.compared_seconds
    residuals = ((c.baseline_seconds - value * c.compared_seconds) ** 2 for c in group)
    spread = sum(residuals) ** 0.5 / sums.compared_seconds
    half = 2.0 * (spread**2 + (BASELINE_ERROR * value) ** 2) ** 0.5
    sized = sums.draft_tokens > 0.0 and sums.unsized_drafts <= 0.0
    return LoadBin(
        running=max(weighted / sums.compared_seconds, 1.0),
        speedup=Estimate(value, max(value - half, 0.0), value + half),
        acceptance_rate=sums.accepted_tokens / sums.draft_tokens if sized else None,
        decode_seconds=sums.compared_seconds,
        share=sums.compared_seconds / total,
    )


def crossover(bins: list[LoadBin]) -> float | None:
    """Running requests at which the speedup falls through 1; None where it never does.

    Read linearly between the last bin that pays and the first after it that does not.
    """
    for low, high in pairwise(bins):
        if low.speedup.value > 1.0 >= high.speedup.value:
            share = (low.speedup.value - 1.0) / (low.speedup.value - high.speedup.value)
            return low.running + share * (high.running - low.running)
    return None
