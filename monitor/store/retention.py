"""Drops what is older than it is kept: samples and their roll-ups, and nothing else.

First it is written down until when a level is dropped, which readers heed from then on; then
its rows are deleted a few thousand at a time. Samples that are not rolled up yet stay.
"""

from __future__ import annotations

from math import floor

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Table,
    and_,
    delete,
    func,
    select,
    true,
    update,
)

from monitor.settings import Retention
from monitor.store.connect import lock_for_upkeep, reading, writing
from monitor.store.rollup import RAW, STEPS, count_rows
from monitor.store.tables import levels, rollups, samples, series

DELETED_AT_ONCE = 5_000
"""Rows deleted in one transaction, which takes well under a second."""


def limits(retention: Retention, now: float) -> dict[int, float]:
    """Until when each level is to be dropped, by step; the end of some ten minutes."""
    kept = zip(
        (RAW, *STEPS),
        (retention.samples, retention.one_minute, retention.ten_minutes),
        strict=True,
    )
    return {step: floor((now - seconds) / STEPS[-1]) * float(STEPS[-1]) for step, seconds in kept}


def prune(
    engine: Engine, step: int, until: float, now: float, limit: int = DELETED_AT_ONCE
) -> int:
    """Drops the rows of a level up to a time, of which it deletes ``limit`` at most.

    Returns:
        How many were deleted: fewer than ``limit`` when nothing is left to delete.
    """
    with writing(engine) as connection:
        if not lock_for_upkeep(connection):
            return 0
        _announce(connection, step, until)
        connection.execute(update(levels).where(levels.c.step == step).values(pruned_at=now))
        deleted = 0
        for key in connection.scalars(select(series.c.id)).all():
            deleted += _delete_oldest(connection, step, key, until, limit - deleted)
            if deleted >= limit:
                break
        count_rows(connection, {step: -deleted})
    return deleted


def announce(engine: Engine, step: int, until: float) -> None:
    """Drops the rows of a level up to a time for all readers; ``prune`` is to delete them."""
    with writing(engine) as connection:
        _announce(connection, step, until)


def dropped_until(engine: Engine) -> dict[int, float]:
    """Until when each level is dropped, by step."""
    with reading(engine) as connection:
        return read_dropped(connection)


def read_dropped(connection: Connection) -> dict[int, float]:
    """The same in a transaction that is open."""
    query = select(levels.c.step, levels.c.dropped_until)
    return dict(connection.execute(query).all())


def extent(engine: Engine, step: int) -> tuple[float | None, int]:
    """When the first row of a level ends, and how many there are."""
    number = select(levels.c.row_count).where(levels.c.step == step)
    with reading(engine) as connection:
        return oldest(connection, step), connection.execute(number).scalar_one()


def seen_between(engine: Engine, after: float, before: float) -> bool:
    """Whether any sum of ten minutes ends between two times."""
    end = rollups.c.at
    # Series by series, as in ``oldest``.
    own = (
        select(func.min(end))
        .where(rollups.c.series_id == series.c.id, _of(STEPS[-1]), end > after, end <= before)
        .scalar_subquery()
    )
    with reading(engine) as connection:
        return connection.execute(select(func.min(own)).select_from(series)).scalar() is not None


def count_older(engine: Engine, step: int, until: float) -> int:
    """How many rows of a level ``prune`` would delete."""
    table = _table(step)
    time = _time(table)
    own = (
        select(func.count())
        .where(table.c.series_id == series.c.id, time <= until, _of(step))
        .scalar_subquery()
    )
    with reading(engine) as connection:
        return int(connection.execute(select(func.coalesce(func.sum(own), 0))).scalar_one())


def oldest(connection: Connection, step: int) -> float | None:
    """When the first row of a level ends; None where there is none."""
    table = _table(step)
    # Series by series, the key leads straight to the first.
    own = (
        select(func.min(_time(table)))
        .where(table.c.series_id == series.c.id, true() if step == RAW else _of(step))
        .scalar_subquery()
    )
    firsts = select(own.label("first")).select_from(series).subquery()
    found: float | None = connection.execute(select(func.min(firsts.c.first))).scalar()
    return found


def _announce(connection: Connection, step: int, until: float) -> None:
    level = levels.c
    earlier = level.step == step, level.dropped_until < until
    connection.execute(update(levels).where(*earlier).values(dropped_until=until))


def _delete_oldest(connection: Connection, step: int, key: int, until: float, limit: int) -> int:
    table = _table(step)
    time = _time(table)
    old = and_(table.c.series_id == key, time <= until, _of(step))
    last = select(time).where(old).order_by(time).limit(1).offset(limit - 1).scalar_subquery()
    # Two rows of a roll-up may end at the same time: one of a start and one of what follows.
    query = delete(table).where(old, time <= func.coalesce(last, until))
    return connection.execute(query).rowcount


def _table(step: int) -> Table:
    return samples if step == RAW else rollups


def _time(table: Table) -> ColumnElement[float]:
    return samples.c.end if table is samples else rollups.c.at


def _of(step: int) -> ColumnElement[bool]:
    return samples.c.rolled if step == RAW else rollups.c.step == step
