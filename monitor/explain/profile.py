"""What is normal for a target, as plain data."""

from __future__ import annotations

from typing import Any

from monitor.health.reference import (
    DEFAULT_CORRELATION,
    DEFAULT_SPREAD,
    HOURS,
    LEAST_EVER,
    Reference,
    hour_of,
)
from monitor.report import iso


def profile(reference: Reference, at: float) -> dict[str, Any]:
    """The learnt normal by hour of day, and what else was learnt beside it."""
    normal = reference.normal(at)
    return {
        "normal": (
            {"rate": normal.rate, "hours": normal.hours, "requests": normal.requests}
            if normal is not None
            else None
        ),
        "hour": hour_of(at),
        "pinned": reference.pinned,
        "requests": reference.requests,
        "requests_needed": LEAST_EVER,
        "learnt_until": iso(reference.learnt_until) if reference.learnt_until else None,
        "design_effect": reference.design_effect,
        "spread": _learnt(reference.spread, DEFAULT_SPREAD),
        "correlation": _learnt(reference.correlation, DEFAULT_CORRELATION),
        "positions": list(reference.rates),
        "hours": [_hour(reference, hour) for hour in range(HOURS)],
    }


def _learnt(value: float, default: float) -> dict[str, Any]:
    """A figure that is assumed until it is learnt."""
    return {"value": value, "learnt": value != default}


def _hour(reference: Reference, hour: int) -> dict[str, Any]:
    sums = reference.hours[hour]
    return {
        "hour": hour,
        "rate": sums.accepted / sums.draft_tokens if sums.draft_tokens > 0.0 else None,
        "requests": sums.requests,
    }
