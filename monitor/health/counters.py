"""Which counters of an engine belong together, and how two readings of them compare."""

from __future__ import annotations

from collections.abc import Mapping

GROUPS: tuple[tuple[str, ...], ...] = (
    ("output_tokens",),
    ("requests",),
    ("prompt_tokens",),
    ("drafts", "draft_tokens", "accepted_tokens", "verified_tokens"),
    ("gauge_tokens",),
    ("decode_seconds", "decode_tokens", "decode_steps"),
    ("engine_steps", "batched_steps"),
    ("prefix_queries", "prefix_hits"),
    ("first_token_seconds", "first_tokens"),
)
"""Counters that are only believed together; a group may lack fields an engine never shows."""

_MONOTONE = (
    "output_tokens",
    "requests",
    "prompt_tokens",
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "decode_seconds",
    "decode_steps",
    "engine_steps",
)
"""Counters that fall only at a restart; differences of two counters may wobble."""


def monotone(counters: Mapping[str, float]) -> dict[str, float]:
    """Those that fall only at a restart."""
    return {name: counters[name] for name in _MONOTONE if name in counters}


def fell(now: Mapping[str, float], last: Mapping[str, float]) -> bool:
    """Whether a counter that only falls at a restart has fallen."""
    return any(now[name] < last[name] for name in _MONOTONE if name in now and name in last)


def is_lower(now: Mapping[str, float], last: Mapping[str, float]) -> bool:
    """Whether no counter stands higher, and those of several groups lower: no damage does that."""
    if fell(last, now):
        return False
    lower = {name for name in _MONOTONE if name in now and name in last and now[name] < last[name]}
    return sum(not lower.isdisjoint(names) for names in GROUPS) > 1


def progress(counters: Mapping[str, float]) -> float:
    """How far counters have come, in one number, to compare counters of one server by."""
    return sum(counters.get(name, 0.0) for name in _MONOTONE)
