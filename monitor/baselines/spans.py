"""Sums over spans of a target's past: from the store, or from saved pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from monitor.check import Look, spacing, widest
from monitor.health import figures
from monitor.health.baseline import Baseline
from monitor.health.combine import combine
from monitor.health.figures import Acceptance
from monitor.health.ledger import Block, add
from monitor.health.speedup import BLOCKS, compare, speedup
from monitor.model import (
    Counts,
    Estimate,
    Identity,
    Increment,
    Load,
    PageError,
    Position,
    Window,
)
from monitor.pipeline import TargetPipeline
from monitor.settings import TargetSettings


class Interval(NamedTuple):
    """What a whole target did between two looks."""

    start: float
    end: float
    counts: Counts


@dataclass(frozen=True, slots=True)
class Span:
    """Figures of one target over a span of time."""

    name: str
    identity: Identity
    window: Window
    acceptance: Acceptance
    positions: tuple[Position, ...]
    load: Load
    speedup: Estimate | None
    baseline: str | None
    """The curve that the speedup is against; None where there is none, or an earlier one."""
    notes: tuple[str, ...] = ()


def totals(increments: Iterable[Increment]) -> list[Interval]:
    """The intervals of a target, its engines added up; warm-up does not count.

    ``increments`` ascend in time, as the store gives them.
    """
    found = []
    for end, group in groupby(increments, key=lambda increment: increment.end):
        rows = list(group)
        if not rows[0].warmup:
            counts = combine({row.label: row.counts for row in rows})
            found.append(Interval(rows[0].start, end, counts))
    return found


def compared(intervals: Iterable[Interval], baseline: Baseline | None) -> list[Interval]:
    """The intervals compared with this curve instead of the one of their time.

    Without a curve they keep the comparison that was stored with them.
    """
    if baseline is None:
        return list(intervals)
    return [
        interval._replace(counts=compare(_without_comparison(interval.counts), baseline))
        for interval in intervals
    ]


def fitting(baseline: Baseline | None, identity: Identity) -> tuple[Baseline | None, list[str]]:
    """The curve if it was measured on such a server; else None and a note."""
    if baseline is None or baseline.matches(identity):
        return baseline, []
    return None, [f"baseline mismatch: {baseline.name} was measured on another kind of server"]


def summarise(
    name: str,
    identity: Identity,
    intervals: Sequence[Interval],
    baseline: Baseline | None = None,
    notes: Sequence[str] = (),
) -> Span | None:
    """The figures of intervals; None where there are none."""
    if not intervals:
        return None
    curve, mismatch = fitting(baseline, identity)
    measured = compared(intervals, curve)
    counts = total(measured)
    window = Window(measured[0].start, measured[-1].end, counts)
    return Span(
        name=name,
        identity=identity,
        window=window,
        acceptance=figures.acceptance(window),
        positions=figures.positions(counts),
        load=figures.load(window),
        speedup=speedup(counts, blocks(measured)),
        baseline=curve.name if curve is not None else None,
        notes=(*notes, *mismatch),
    )


def total(intervals: Iterable[Interval]) -> Counts:
    """The sum of the intervals' counts."""
    sums = Counts()
    for interval in intervals:
        sums = add(sums, interval.counts)
    return sums


def blocks(intervals: Sequence[Interval], number: int = BLOCKS) -> list[Block]:
    """The comparison with the baseline in at most ``number`` parts of about equal count."""
    used = [interval.counts for interval in intervals if interval.counts.compared_seconds > 0.0]
    size = max(round(len(used) / number), 1)
    return [
        Block(
            sum(counts.baseline_seconds for counts in used[first : first + size]),
            sum(counts.compared_seconds for counts in used[first : first + size]),
        )
        for first in range(0, len(used), size)
    ]


def from_pages(looks: Sequence[Look], name: str) -> tuple[Identity, list[Interval], list[str]]:
    """The intervals between successive pages of one target.

    Raises:
        PageError: none of them is a metrics page, or they are not two.
    """
    times = [look.at for look in looks]
    settings = TargetSettings(
        name, service="compare", url="", interval=spacing(times), gap=widest(times)
    )
    pipeline = TargetPipeline(settings)
    identity, increments, notes = Identity(), list[Increment](), []
    for look in looks:
        if look.page is None:
            continue
        tick = pipeline.tick(look.page, look.at)
        if tick.problem is not None:
            notes.append(f"page {look.name} was skipped: {tick.problem}")
            continue
        identity = tick.assessment.identity
        increments += tick.increments
    if not increments:
        reason = f": {notes[0]}" if notes else ""
        raise PageError(f"{name}: at least two pages of one server are needed{reason}")
    return identity, totals(increments), notes


def _without_comparison(counts: Counts) -> Counts:
    return counts._replace(baseline_seconds=0.0, compared_seconds=0.0, uncompared_seconds=0.0)
