"""Shares of traffic: those that can be set, and how they are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from monitor.rollback.actuators.failing import PeerError

CLOSE = 0.005
"""Shares nearer to each other than this are the same: weights are whole numbers."""


def is_close(share: float | None, wanted: float) -> bool:
    """Whether a share that was observed is the one wanted."""
    return share is not None and abs(share - wanted) <= CLOSE


def any_of(shares: Sequence[float]) -> tuple[float, ...]:
    """All of them, ascending, each once: for peers that can set any share."""
    return tuple(sorted(set(shares)))


def nearest(wanted: Sequence[float], possible: Iterable[float]) -> tuple[float, ...]:
    """Of the shares that can be set, those nearest to the ones wanted; ascending, each once.

    None and all are only taken for none and all: a share between them becomes another one
    between them, and all where there is nothing between.
    """
    steps = sorted(set(possible))
    inner = [step for step in steps if 0 < step < 1] or [1.0]
    chosen = {
        min(steps if share in (0, 1) else inner, key=lambda step: (abs(step - share), step))
        for share in wanted
    }
    return tuple(sorted(chosen))


def even_weights(
    share: float, baseline: Sequence[str], speculative: Sequence[str], whole: int = 1000
) -> dict[str, int]:
    """Whole weights that split traffic as wanted, and evenly among the servers of each side."""
    sides = ((share, baseline), (1 - share, speculative))
    return {
        # A server that is to get something must not be rounded out of it.
        name: max(1, round(whole * part / len(names))) if part else 0
        for part, names in sides
        for name in names
    }


def read_share(value: object) -> float | None:
    """A share as a peer tells it; None where it says that it cannot tell."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PeerError("the share it gives is not a number")
    if not math.isfinite(value) or not 0 <= value <= 1:
        raise PeerError("the share it gives is not between 0 and 1")
    return float(value)


def percent(share: float) -> str:
    """``12.5 %``."""
    return f"{share * 100:.3g} %"
