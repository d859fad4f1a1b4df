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


def balanced(parts: Mapping[str, Counts], readings: Iterable[Reading]) -> dict[str, Counts]:
    """The parts with drafts that were counted twice taken out of the shared one.

    Where a server counts the drafts of all its ranks together, those that follow from the
    gauges of the ranks are the same ones. The ranks keep theirs, for the verdict on each; the
    shared part becomes what is missing to the server's own count, so that the sum over all
    parts is that count, wherever it is formed. It may be negative for a while.
    """
    if SHARED not in parts:
        return dict(parts)
    if not any(r.label == SHARED and "drafts" in r.counters for r in readings):
        return dict(parts)
    shared = parts[SHARED]
    for label, counts in parts.items():
        if label != SHARED:
            shared = _less_drafts(shared, counts)
    return {**parts, SHARED: shared}


def _less_drafts(shared: Counts, rank: Counts) -> Counts:
    return shared._replace(
        drafts=shared.drafts - rank.drafts,
        draft_tokens=shared.draft_tokens - rank.draft_tokens,
        accepted_tokens=shared.accepted_tokens - rank.accepted_tokens,
        unsized_drafts=shared.unsized_drafts - rank.unsized_drafts,
        uncounted_draft_tokens=shared.uncounted_draft_tokens - rank.uncounted_draft_tokens,
        gauge_drafts=shared.gauge_drafts - rank.gauge_drafts,
    )
