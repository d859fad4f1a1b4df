"""Moments of the past that can be right; whatever cannot is refused, and nothing is guessed."""

from __future__ import annotations

from collections.abc import Mapping

EARLIEST = 1_500_000_000.0
"""No page of a server that speculates is older (July 2017)."""
LATEST = 4_000_000_000.0
"""Nor is any as late (October 2096); above are times in milliseconds, or none."""

MOST_REGULAR = 0.9


def is_moment(at: float) -> bool:
    """Whether something of a server can have been seen then, in seconds since the epoch."""
    return EARLIEST <= at <= LATEST


def usual_interval(gaps: Mapping[float, int]) -> float | None:
    """The time between two looks, from how often each was seen; None where there are none.

    Nine of ten are no longer. Where a server was looked at less often for a while, that is its
    interval: by a shorter one all that time would be gaps, of which hardly anything is known.
    """
    rank = MOST_REGULAR * sum(gaps.values())
    for gap in sorted(gaps):
        rank -= gaps[gap]
        if rank <= 0.0:
            return gap
    return None
