"""From the counts of several engines to those of their target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from monitor.health.ledger import add
from monitor.model import SHARED, Counts, Reading


def combine(parts: Mapping[str, Counts]) -> Counts:
    """Sums over engines before any quotient is formed.

    Observed time and restarts are those of the target: the largest among its engines, not
    the sum.
    """
    if len(parts) == 1:
        return next(iter(parts.values()))
    total = Counts()
    for counts in parts.values():
        total = add(total, counts)
    return total._replace(
        seconds=max(counts.seconds for counts in parts.values()),
        saturated_seconds=max(counts.saturated_seconds for counts in parts.values()),
        resets=max(counts.resets for counts in parts.values()),
    )


def without_doubles(parts: Mapping[str, Counts], readings: Iterable[Reading]) -> dict[str, Counts]:
    """The parts without drafts that were counted twice.

    Where a server counts the drafts of all its ranks together, those that follow from the
    gauges of the ranks are the same ones: they tell about the ranks, not about the target.
    """
    counted = any(r.label == SHARED and "drafts" in r.counters for r in readings)
    return {
        label: _without_drafts(counts) if counted and label != SHARED else counts
        for label, counts in parts.items()
    }


def _without_drafts(counts: Counts) -> Counts:
    return counts._replace(
        drafts=0.0,
        draft_tokens=0.0,
        accepted_tokens=0.0,
        unsized_drafts=0.0,
        uncounted_draft_tokens=0.0,
        gauge_drafts=0.0,
    )
