"""Two stored curves side by side, at the loads where both are known."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.health.baseline import BaselinePoint
from monitor.store.baseline_rows import StoredBaseline

_OTHER_CONTEXT = 2.0
"""Prompts that differ by more than this factor make a difference of their own."""


@dataclass(frozen=True, slots=True)
class CurveLoad:
    """Both curves at one load; TPOT in seconds."""

    running: float
    first_tpot: float
    second_tpot: float
    difference: float
    """The second over the first, less 1."""


@dataclass(frozen=True, slots=True)
class CurveComparison:
    """The answer about two curves."""

    first: StoredBaseline
    second: StoredBaseline
    loads: tuple[CurveLoad, ...]
    notes: tuple[str, ...]


def compare_curves(first: StoredBaseline, second: StoredBaseline) -> CurveComparison:
    """Compares at each load that either was measured at and both cover."""
    one, other = first.baseline, second.baseline
    loads = []
    for running in sorted({point.running for point in (*first.points, *second.points)}):
        a, b = one.tpot(running), other.tpot(running)
        if a is not None and b is not None:
            loads.append(CurveLoad(running, a, b, b / a - 1.0))
    return CurveComparison(first, second, tuple(loads), tuple(_notes(first, second, loads)))


def _notes(first: StoredBaseline, second: StoredBaseline, loads: list[CurveLoad]) -> list[str]:
    notes = []
    if not loads:
        low, high = first.baseline.running_range
        notes.append(
            f"the curves share no load: {first.label} covers {low:g} to {high:g},"
            f" {second.label} {second.points[0].running:g} to {second.points[-1].running:g}"
        )
    if not first.baseline.matches(second.identity):
        notes.append("they were measured on different kinds of server")
    contexts = _context(first.points), _context(second.points)
    if contexts[0] is not None and contexts[1] is not None:
        small, large = sorted((contexts[0], contexts[1]))
        if large > _OTHER_CONTEXT * small:
            notes.append(
                f"their prompts differ in length ({contexts[0]:.0f} and {contexts[1]:.0f} tokens):"
                " a part of the difference may come from that"
            )
    return notes


def _context(points: tuple[BaselinePoint, ...]) -> float | None:
    """Mean prompt tokens over the points that know it, by requests."""
    known = [(point.context, point.requests or 1.0) for point in points if point.context]
    total = sum(weight for _, weight in known)
    return sum((context or 0.0) * weight for context, weight in known) / total if known else None
