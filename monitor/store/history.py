"""Sums the past in SQL for ``monitor history``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

from sqlalchemy import ColumnElement, Connection, Label, Select, func, select

from monitor.health.ledger import add
from monitor.health.speedup import running
from monitor.model import Counts, StoreError, Verdict
from monitor.store.pieces import STEP_NUMBER, Piece, pieces, step_number
from monitor.store.retention import read_dropped
from monitor.store.rollup import RAW
from monitor.store.rows import HistoryRow
from monitor.store.tables import series, target_states, verdicts

MAX_STEPS = 100_000

_ADDED = (
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "unsized_drafts",
    "uncounted_draft_tokens",
    "decode_seconds",
    "decode_tokens",
    "engine_steps",
    "batched_steps",
    "running_seconds",
    "baseline_seconds",
    "compared_seconds",
)
"""What the rows of a history need, and no more: there may be a hundred thousand samples."""
_FIGURES = ("seconds", *_ADDED)


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


def _count_steps(start: float, end: float, step: float) -> int:
    if step <= 0 or end <= start:
        raise StoreError("a history needs a start before its end and a step above zero")
    steps = ceil((end - start) / step)
    if steps > MAX_STEPS:
        raise StoreError(f"a history of {steps} steps is too long; choose a larger step")
    return steps


def _sum_steps(
    connection: Connection, target_id: int, span: tuple[float, float], step: float, steps: int
) -> dict[int, Counts]:
    """The figures of a target by number of the step, counted backwards."""
    start, end = span
    last = start + steps * step
    sums: dict[int, Counts] = {}
    several = _has_engines(connection, target_id)
    for piece in pieces(read_dropped(connection), start, end, step):
        query = _select_sums(connection, target_id, piece, last, step, several=several)
        for number, *figures in connection.execute(query):
            # A row a hair after the start can be rounded out of the first step.
            key = min(number, steps - 1)
            found = Counts(**dict(zip(_FIGURES, figures, strict=True)))
            sums[key] = add(sums[key], found) if key in sums else found
    return sums


def _select_sums(
    connection: Connection,
    target_id: int,
    piece: Piece,
    last: float,
    step: float,
    *,
    several: bool,
) -> Select[*tuple[Any, ...]]:
    number = step_number(connection, piece.time, last, step)
    own = series.c.target_id == target_id
    column = piece.table.c
    if piece.step != RAW:
        seconds = column.target_seconds
    elif not several:
        seconds = column.seconds
    else:
        return _select_looks(piece, number, own)
    figures = (func.sum(column[name]) for name in _ADDED)
    return (
        select(number, func.sum(seconds), *figures)
        .join_from(series, piece.table)
        .where(own, piece.condition)
        .group_by(STEP_NUMBER)
    )


def _select_looks(
    piece: Piece, number: Label[int], own: ColumnElement[bool]
) -> Select[*tuple[Any, ...]]:
    """The same of single looks at several engines: their target has the time of one of them."""
    column = piece.table.c
    looks = (
        select(number, func.max(column.seconds).label("seconds"))
        .add_columns(*(func.sum(column[name]).label(name) for name in _ADDED))
        .join_from(series, piece.table)
        .where(own, piece.condition)
        .group_by(piece.time, STEP_NUMBER)
        .subquery()
    )
    figures = (func.sum(looks.c[name]) for name in _FIGURES)
    return select(looks.c[STEP_NUMBER], *figures).group_by(looks.c[STEP_NUMBER])


def _has_engines(connection: Connection, target_id: int) -> bool:
    query = select(func.count()).select_from(series).where(series.c.target_id == target_id)
    return connection.execute(query).scalar_one() > 1


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
        running=running(counts),
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
