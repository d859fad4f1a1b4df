"""Reads the past of one target as increments: what a pipeline once gave, or sums of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from monitor.health.ledger import add
from monitor.model import Counts, Increment
from monitor.store.pieces import STEP_NUMBER, Piece, pieces, step_number
from monitor.store.retention import read_dropped
from monitor.store.rollup import RAW
from monitor.store.tables import SCALARS, TARGET_FIGURES, series

HISTORY_SECONDS = 86_400.0
"""How far back windows reach."""
COARSE_SECONDS = 600.0
"""Length of the steps that older samples are summed to when windows are rebuilt."""


def load_increments(
    connection: Connection, target_id: int, since_fine: float, now: float
) -> list[Increment]:
    """Sums of ten minutes up to ``since_fine`` and single samples after it, by their end.

    The sums leave out warm-up, which does not vote, and the tokens per position, which cannot
    be summed in SQL; their ``position_drafts`` are 0, so that no quotient is formed of them.
    """
    coarse = _load_coarse(connection, target_id, now - HISTORY_SECONDS, since_fine)
    # There is nothing after now but what came in while the rest was read.
    return coarse + load_samples(connection, target_id, since_fine, now + HISTORY_SECONDS)


def load_samples(
    connection: Connection, target_id: int, start: float, end: float
) -> list[Increment]:
    """The samples that end after ``start`` and up to ``end``, as they were written.

    Where they were dropped, the sums of a minute or of ten that are left of them.
    """
    found = [
        increment
        for piece in pieces(read_dropped(connection), start, end)
        for increment in _load_piece(connection, target_id, piece)
    ]
    found.sort(key=lambda increment: (increment.end, increment.label))
    return found


def first_end(connection: Connection, target_id: int) -> float | None:
    """End of the first sample there ever was, as far as can be known."""
    ends = []
    for piece in pieces(read_dropped(connection), 0.0, _FOR_EVER):
        query = (
            select(func.min(piece.table.c.end))
            .join_from(series, piece.table)
            .where(series.c.target_id == target_id, piece.condition)
        )
        ends.append(connection.execute(query).scalar())
    return min((end for end in ends if end is not None), default=None)


_FOR_EVER = 1e12


def _load_piece(connection: Connection, target_id: int, piece: Piece) -> Iterable[Increment]:
    column = piece.table.c
    names = ("start", "end", "warmup", *SCALARS, "positions")
    targets = () if piece.step == RAW else tuple(f"target_{name}" for name in TARGET_FIGURES)
    query = (
        select(series.c.label, *(column[name] for name in (*names, *targets)), piece.time)
        .join_from(series, piece.table)
        .where(series.c.target_id == target_id, piece.condition)
        .order_by(piece.time, column.warmup, series.c.label)
    )
    rows = connection.execute(query)
    return map(_increment, rows) if piece.step == RAW else _rolled_up(rows)


def _increment(row: Row[*tuple[Any, ...]]) -> Increment:
    label, start, end, warmup, *rest = row
    scalars, positions = rest[: len(SCALARS)], rest[len(SCALARS)]
    return Increment(
        label, start, end, Counts._make((*scalars, tuple(json.loads(positions)))), warmup
    )


def _rolled_up(rows: Iterable[Row[*tuple[Any, ...]]]) -> Iterator[Increment]:
    """The sums of one bucket, told as one interval of all engines, which single looks are.

    Of some figures a target has the largest among its engines. In a sum that is not the largest
    sum, so that each engine is given what their target has.
    """
    for _, group in groupby(rows, key=lambda row: (row[-1], row.warmup)):
        members = list(group)
        start = min(row.start for row in members)
        end = max(row.end for row in members)
        whole = {
            name: sum(row._mapping[f"target_{name}"] for row in members) for name in TARGET_FIGURES
        }
        for row in members:
            increment = _increment(row)
            yield increment._replace(
                start=start, end=end, counts=increment.counts._replace(**whole)
            )


def _load_coarse(
    connection: Connection, target_id: int, start: float, end: float
) -> list[Increment]:
    """Sums of steps that end at ``end``, without warm-up and positions."""
    steps: dict[tuple[int, str], Increment] = {}
    for piece in pieces(read_dropped(connection), start, end):
        for step, label, *row in connection.execute(_summed(connection, target_id, piece, end)):
            new = _without_positions(label, row)
            before = steps.get((step, label))
            steps[step, label] = new if before is None else _joined(before, new)
    return sorted(steps.values(), key=lambda increment: (increment.end, increment.label))


def _summed(
    connection: Connection, target_id: int, piece: Piece, end: float
) -> Select[*tuple[Any, ...]]:
    column = piece.table.c
    sums = (func.sum(column[name]) for name in SCALARS)
    return (
        select(step_number(connection, piece.time, end, COARSE_SECONDS), series.c.label)
        .add_columns(func.min(column.start), func.max(column.end), *sums)
        .join_from(series, piece.table)
        .where(series.c.target_id == target_id, piece.condition, ~column.warmup)
        .group_by(series.c.id, STEP_NUMBER)
    )


def _without_positions(label: str, row: Sequence[Any]) -> Increment:
    start, end, *sums = row
    counts = Counts._make((*sums, ()))._replace(position_drafts=0.0)
    return Increment(label, start, end, counts, warmup=False)


def _joined(a: Increment, b: Increment) -> Increment:
    start, end = min(a.start, b.start), max(a.end, b.end)
    return a._replace(start=start, end=end, counts=add(a.counts, b.counts))
