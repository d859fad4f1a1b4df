"""Rolls samples up: sums of a minute and of ten minutes, each sample in each exactly once.

A sample that is not rolled up yet is added to its two sums and marked in one transaction. So
it does not matter when that happens, how often it is tried, or how late a sample comes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import ceil, floor
from operator import add
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Row, bindparam, func, select, update

from monitor.health import ledger
from monitor.store.connect import insert_into, lock_for_upkeep, reading, writing
from monitor.store.tables import SCALARS, TARGET_FIGURES, levels, rollups, samples, series

STEPS = (60, 600)
"""Seconds that one row of each level sums, ascending."""
RAW = 0
"""The step of the samples themselves, which are no sums."""
BATCH = 5_000
"""Samples in one transaction, which takes about a quarter of a second."""
LAG_SECONDS = 60.0
"""How old a minute is when it is rolled up: by then its last samples are stored."""

_COLUMNS = tuple(column.name for column in rollups.c)
_SCALARS = slice(_COLUMNS.index("end") + 1, _COLUMNS.index("positions"))
_KEPT = tuple(SCALARS.index(name) for name in TARGET_FIGURES)


class Key(NamedTuple):
    """Which sum a sample belongs to."""

    series: int
    step: int
    at: float
    warmup: bool


class Sums(NamedTuple):
    """The sum of some samples of one series."""

    start: float
    end: float
    scalars: Sequence[float]
    positions: tuple[float, ...]
    target: Sequence[float]
    """The share in ``TARGET_FIGURES`` of the target."""

    def plus(self, other: Sums) -> Sums:
        """Both together."""
        return Sums(
            min(self.start, other.start),
            max(self.end, other.end),
            [*map(add, self.scalars, other.scalars)],
            ledger.add_positions(self.positions, other.positions),
            [*map(add, self.target, other.target)],
        )


def bucket_end(end: float, step: int) -> float:
    """The end of the bucket that a sample belongs to; one that ends on a border ends it."""
    return float(ceil(end / step) * step)


def roll_up(engine: Engine, now: float, limit: int = BATCH) -> int:
    """Rolls up the oldest samples that are not yet, about ``limit`` of them.

    Returns:
        How many there were: 0 when nothing is left to do.
    """
    until = _settled(now)
    with writing(engine) as connection:
        if not lock_for_upkeep(connection):
            return 0
        fresh = _whole_minutes(connection, until, limit)
        if fresh:
            added = _add(connection, _minutes(fresh))
            _mark(connection, fresh)
            count_rows(connection, {RAW: len(fresh), **added})
    return len(fresh)


def count_fresh(engine: Engine, now: float) -> int:
    """How many samples ``roll_up`` would find."""
    query = select(func.count()).select_from(samples)
    with reading(engine) as connection:
        found = query.where(~samples.c.rolled, samples.c.end <= _settled(now))
        return connection.execute(found).scalar_one()


def count_rows(connection: Connection, added: Mapping[int, int]) -> None:
    """Keeps the number of rows of each level: to count millions takes too long."""
    for step, number in added.items():
        connection.execute(
            update(levels)
            .where(levels.c.step == step)
            .values(row_count=levels.c.row_count + number)
        )


def _settled(now: float) -> float:
    """The end of the last minute of which all samples are stored."""
    return floor((now - LAG_SECONDS) / STEPS[0]) * float(STEPS[0])


def _whole_minutes(
    connection: Connection, until: float, limit: int
) -> Sequence[Row[*tuple[Any, ...]]]:
    """The oldest fresh samples; a minute is never cut in two.

    So the sums of a minute are added up in the same order, and come to the same, whether it is
    rolled up as soon as it is over or years later with many others.
    """
    query = (
        select(series.c.target_id, *samples.c[:-1])
        .join_from(samples, series)
        .where(~samples.c.rolled, samples.c.end <= until)
        .order_by(samples.c.end, samples.c.series_id)
    )
    found = connection.execute(query.limit(limit)).all()
    if len(found) < limit:
        return found
    last = bucket_end(found[-1].end, STEPS[0])
    whole = [row for row in found if row.end <= last - STEPS[0]]
    return whole or connection.execute(query.where(samples.c.end <= last)).all()


def _minutes(fresh: Iterable[Row[*tuple[Any, ...]]]) -> dict[Key, Sums]:
    """The sums of minutes, ascending in time for each series."""
    minutes: dict[Key, Sums] = {}
    ordered = sorted(fresh, key=lambda row: (row.end, row.target_id, row.series_id))
    for _, interval in groupby(ordered, key=lambda row: (row.end, row.target_id)):
        carried = [0.0] * len(_KEPT)
        for _, series_id, start, end, warmup, *scalars, positions in interval:
            # Each engine carries by how much it has more than those before it.
            largest = [max(a, scalars[i]) for a, i in zip(carried, _KEPT, strict=True)]
            share = [a - b for a, b in zip(largest, carried, strict=True)]
            carried = largest
            sums = Sums(start, end, scalars, tuple(json.loads(positions)), share)
            _put(minutes, Key(series_id, STEPS[0], bucket_end(end, STEPS[0]), warmup), sums)
    return minutes


def _put(into: dict[Key, Sums], key: Key, sums: Sums) -> None:
    before = into.get(key)
    into[key] = sums if before is None else before.plus(sums)


def _add(connection: Connection, minutes: Mapping[Key, Sums]) -> dict[int, int]:
    """Adds to what is stored; how many rows are new, by step."""
    goals = {
        key: [key._replace(step=step, at=bucket_end(key.at, step)) for step in STEPS]
        for key in minutes
    }
    wanted = {goal for found in goals.values() for goal in found}
    stored = _stored(connection, wanted)
    sums = dict(stored)
    for key, minute in minutes.items():
        for goal in goals[key]:
            _put(sums, goal, minute)
    statement = insert_into(connection.engine, rollups)
    changed = [column.name for column in rollups.c if not column.primary_key]
    statement = statement.on_conflict_do_update(
        index_elements=[column.name for column in rollups.primary_key],
        set_={name: statement.excluded[name] for name in changed},
    )
    connection.execute(statement, [_values(key, sums[key]) for key in wanted])
    return Counter(key.step for key in wanted - stored.keys())


def _values(key: Key, sums: Sums) -> dict[str, Any]:
    positions = json.dumps(sums.positions)
    row = (*key, sums.start, sums.end, *sums.scalars, positions, *sums.target)
    return dict(zip(_COLUMNS, row, strict=True))


def _stored(connection: Connection, keys: Iterable[Key]) -> dict[Key, Sums]:
    """The sums that there are for these keys, and others between them in time."""
    column = rollups.c
    found: dict[Key, Sums] = {}
    for step in STEPS:
        members = [key for key in keys if key.step == step]
        for first, last in _runs({key.at for key in members}, STEPS[-1]):
            query = select(rollups).where(
                column.series_id.in_({key.series for key in members}),
                column.step == step,
                column.at.between(first, last),
            )
            found |= dict(map(_read, connection.execute(query)))
    return found


def _runs(times: Iterable[float], longest: float) -> list[tuple[float, float]]:
    """First and last of the times, split where one lies more than ``longest`` after another."""
    runs: list[tuple[float, float]] = []
    for at in sorted(times):
        if runs and at - runs[-1][1] <= longest:
            runs[-1] = runs[-1][0], at
        else:
            runs.append((at, at))
    return runs


def _read(row: Row[*tuple[Any, ...]]) -> tuple[Key, Sums]:
    *key, start, end = row[: _SCALARS.start]
    positions, *target = row[_SCALARS.stop :]
    sums = Sums(start, end, row[_SCALARS], tuple(json.loads(positions)), target)
    return Key(*key), sums


def _mark(connection: Connection, rows: Iterable[Row[*tuple[Any, ...]]]) -> None:
    # By key and not by time: a sample that another process stores meanwhile is not in the sums.
    statement = (
        update(samples)
        .where(samples.c.series_id == bindparam("key"), samples.c.end == bindparam("ended"))
        .values(rolled=True)
    )
    connection.execute(statement, [{"key": row.series_id, "ended": row.end} for row in rows])
