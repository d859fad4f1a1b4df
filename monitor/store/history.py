"""Sums the past in SQL: for windows after a restart, and for ``monitor history``."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import ceil
from operator import add
from typing import Any

from sqlalchemy import Connection, Integer, Label, Row, Select, cast, func, select

from monitor.model import Counts, Increment, StoreError, Verdict
from monitor.store.rows import HistoryRow
from monitor.store.tables import SCALARS, samples, series, target_states, verdicts

HISTORY_SECONDS = 86_400.0
"""How far back windows reach."""
COARSE_SECONDS = 600.0
"""Length of the steps that older samples are summed to when windows are rebuilt."""
MAX_STEPS = 100_000

_SUMS = tuple(func.sum(samples.c[name]).label(name) for name in SCALARS)


def load_increments(
    connection: Connection, target_id: int, since_fine: float, now: float
) -> list[Increment]:
    """Sums of ten minutes up to ``since_fine`` and single samples after it, by their end.

    The sums leave out warm-up, which does not vote, and the tokens per position, which cannot
    be summed in SQL; their ``position_drafts`` are 0, so that no quotient is formed of them.
    """
    coarse = _load_coarse(connection, target_id, now - HISTORY_SECONDS, since_fine)
    return coarse + _load_fine(connection, target_id, since_fine)


def load_samples(
    connection: Connection, target_id: int, start: float, end: float
) -> list[Increment]:
    """The samples as they were written, from ``start`` (not included) to ``end``."""
    query = _select_samples(target_id, start).where(samples.c.end <= end)
    return [_increment(row) for row in connection.execute(query)]


def load_history(
    connection: Connection, target_id: int, start: float, end: float, step: float
) -> list[HistoryRow]:
    """One row per step from ``start`` to ``end``; steps of which nothing is known are left out."""
    steps = _count_steps(start, end, step)
    last = start + steps * step
    sums = _sum_steps(connection, target_id, (start, end), step, steps)
    changes = _load_changes(connection, target_id, start, last)
    rows = _history_rows(sums, changes, [last - number * step for number in range(steps)])
    known_until = _known_until(connection, target_id)
    return [row for row in rows if row.drafts is not None or row.at - step < known_until]


def _load_coarse(
    connection: Connection, target_id: int, start: float, end: float
) -> list[Increment]:
    bucket = _bucket(connection, end, COARSE_SECONDS)
    first, last = func.min(samples.c.start), func.max(samples.c.end)
    query = (
        select(series.c.label, first, last, *_SUMS, bucket)
        .join_from(series, samples)
        .where(series.c.target_id == target_id, samples.c.end > start, samples.c.end <= end)
        .where(~samples.c.warmup)
        .group_by(series.c.id, "bucket")
        .order_by(last, series.c.label)
    )
    return [
        Increment(row[0], row[1], row[2], _without_positions(tuple(row[3:-1])), warmup=False)
        for row in connection.execute(query)
    ]


def _load_fine(connection: Connection, target_id: int, start: float) -> list[Increment]:
    return [_increment(row) for row in connection.execute(_select_samples(target_id, start))]


def _select_samples(target_id: int, start: float) -> Select[*tuple[Any, ...]]:
    return (
        select(series.c.label, *samples.c[1:-1])
        .join_from(series, samples)
        .where(series.c.target_id == target_id, samples.c.end > start)
        .order_by(samples.c.end, series.c.label)
    )


def _increment(row: Row[*tuple[Any, ...]]) -> Increment:
    label, start, end, warmup, *scalars, positions = row
    counts = Counts._make((*scalars, tuple(json.loads(positions))))
    return Increment(label, start, end, counts, warmup)


def _without_positions(sums: tuple[float, ...]) -> Counts:
    return Counts._make((*sums, ()))._replace(position_drafts=0.0)


def _count_steps(start: float, end: float, step: float) -> int:
    if step <= 0 or end <= start:
        raise StoreError("a history needs a start before its end and a step above zero")
    steps = ceil((end - start) / step)
    if steps > MAX_STEPS:
        raise StoreError(f"a history of {steps} steps is too long; choose a larger step")
    return steps


def _bucket(connection: Connection, end: float, step: float) -> Label[int]:
    """The number of the step a sample ends in, counted backwards from the one ending at ``end``.

    Backwards, because a sample that ends on the border of two steps belongs to the earlier
    one. SQLite's cast cuts the fraction off but PostgreSQL's rounds; SQLite may lack floor.
    """
    position = (end - samples.c.end) / step
    whole = func.floor(position) if connection.dialect.name == "postgresql" else position
    return cast(whole, Integer).label("bucket")


def _sum_steps(
    connection: Connection, target_id: int, span: tuple[float, float], step: float, steps: int
) -> dict[int, Counts]:
    start, end = span
    query = (
        select(_bucket(connection, start + steps * step, step), *_SUMS)
        .join_from(series, samples)
        .where(series.c.target_id == target_id, samples.c.end > start, samples.c.end <= end)
        .group_by("bucket")
    )
    sums: dict[int, Counts] = {}
    for bucket, *figures in connection.execute(query):
        # A sample a hair after the start can be rounded out of the first step.
        key = min(bucket, steps - 1)
        sums[key] = Counts(*map(add, sums[key], figures)) if key in sums else Counts(*figures)
    return sums


def _load_changes(
    connection: Connection, target_id: int, start: float, end: float
) -> list[tuple[float, str]]:
    """The verdict in force at ``start``, if any, and the changes up to ``end``."""
    own = verdicts.c.target_id == target_id
    in_force = select(func.max(verdicts.c.at)).where(own, verdicts.c.at <= start)
    query = (
        select(verdicts.c.at, verdicts.c.verdict)
        .where(own, verdicts.c.at <= end)
        .where(verdicts.c.at >= func.coalesce(in_force.scalar_subquery(), start))
        .order_by(verdicts.c.at)
    )
    return [(at, verdict) for at, verdict in connection.execute(query)]


def _known_until(connection: Connection, target_id: int) -> float:
    query = select(target_states.c.at).where(target_states.c.target_id == target_id)
    return connection.execute(query).scalar() or 0.0


def _history_rows(
    sums: dict[int, Counts], changes: list[tuple[float, str]], ends: Sequence[float]
) -> Iterator[HistoryRow]:
    """Rows for ``ends``, which descend as the numbers of the steps do, ascending in time."""
    for bucket in reversed(range(len(ends))):
        index = bisect_right(changes, ends[bucket], key=lambda change: change[0])
        verdict = Verdict(changes[index - 1][1]) if index else None
        if bucket in sums:
            yield _row(ends[bucket], verdict, sums[bucket])
        elif verdict is not None:
            yield HistoryRow(ends[bucket], verdict)


def _row(at: float, verdict: Verdict | None, counts: Counts) -> HistoryRow:
    return HistoryRow(
        at=at,
        verdict=verdict,
        drafts=counts.drafts,
        draft_tokens=counts.draft_tokens,
        accepted_tokens=counts.accepted_tokens,
        acceptance_rate=_acceptance_rate(counts),
        acceptance_length=_acceptance_length(counts),
        speedup=_quotient(counts.baseline_seconds, counts.compared_seconds),
        running=_quotient(counts.running_seconds, counts.seconds),
        tpot=_quotient(counts.decode_seconds, counts.decode_tokens),
    )


def _acceptance_rate(counts: Counts) -> float | None:
    if counts.unsized_drafts > 0:
        return None
    return _quotient(counts.accepted_tokens, counts.draft_tokens)


def _acceptance_length(counts: Counts) -> float | None:
    if counts.uncounted_draft_tokens > 0:
        return None
    accepted = _quotient(counts.accepted_tokens, counts.drafts)
    return None if accepted is None else 1.0 + accepted


def _quotient(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
