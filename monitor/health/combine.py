"""From the counts of several engines to those of their target."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.health.ledger import add
from monitor.model import SHARED, Counts


def combine(parts: Mapping[str, Counts]) -> Counts:
    """Sums over engines before any quotient is formed.

    Counters that the server keeps for all ranks together win over the gauges of the ranks,
    which would count the same drafts a second time. Observed time and restarts are those of
    the target: the largest among its engines, not the sum.
    """
    if len(parts) == 1:
        return next(iter(parts.values()))
    shared = parts.get(SHARED)
    counted = shared is not None and shared.drafts > 0.0
    total = Counts()
    for label, counts in parts.items():
        part = _without_drafts(counts) if counted and label != SHARED else counts
        total = add(total, part)
    return total._replace(
        seconds=max(counts.seconds for counts in parts.values()),
        saturated_seconds=max(counts.saturated_seconds for counts in parts.values()),
        resets=max(counts.resets for counts in parts.values()),
    )


def _without_drafts(counts: Counts) -> Counts:
    return counts._replace(
        drafts=0.0,
        draft_tokens=0.0,
        accepted_tokens=0.0,
        unsized_drafts=0.0,
        uncounted_draft_tokens=0.0,
        gauge_drafts=0.0,
    )
