"""From the counts of several engines to those of their target."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.health.ledger import add
from monitor.model import SHARED, Counts

_LONGEST = ("seconds", "saturated_seconds", "resets")
"""Figures of which a target has the largest among its engines, not the sum."""
_SPECULATIVE = (
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "unsized_drafts",
    "uncounted_draft_tokens",
    "gauge_drafts",
)


def combine(parts: Mapping[str, Counts]) -> Counts:
    """Sums over engines before any quotient is formed.

    Counters that the server keeps for all ranks together win over the gauges of the ranks,
    which would count the same drafts a second time.
    """
    if len(parts) == 1:
        return next(iter(parts.values()))
    shared = parts.get(SHARED)
    counted = shared is not None and shared.drafts > 0.0
    total = Counts()
    longest = dict.fromkeys(_LONGEST, 0.0)
    for label, counts in parts.items():
        if counted and label != SHARED:
            counts = counts._replace(**dict.fromkeys(_SPECULATIVE, 0.0))  # noqa: PLW2901
        total = add(total, counts)
        longest = {name: max(best, getattr(counts, name)) for name, best in longest.items()}
    return total._replace(**longest)
