"""How much room the database takes up, and how what was deleted is given back."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, func, select

from monitor.store.connect import reading, sqlite_driver, sqlite_path
from monitor.store.retention import oldest
from monitor.store.rollup import RAW
from monitor.store.tables import levels, metadata, rollups, samples

PAGES_AT_ONCE = 2_000
"""Free pages that SQLite gives back in one go: 8 MB."""


@dataclass(frozen=True, slots=True)
class Space:
    """The size of the database, in bytes and in rows."""

    total: int
    """What the system sees, a log that SQLite keeps beside its file included."""
    used: int
    """What would be left without the room that deleted rows have left; with PostgreSQL it is
    estimated from the planner's statistics."""
    rows: Mapping[str, int]
    """By table."""
    oldest_sample: float | None
    pruned_at: float | None


def measure(engine: Engine) -> Space:
    """The size as of now."""
    with reading(engine) as connection:
        rows = _rows(connection)
        first = oldest(connection, RAW)
        pruned_at = connection.execute(select(func.max(levels.c.pruned_at))).scalar()
    if engine.dialect.name == "postgresql":
        total, used = _postgresql_bytes(engine, rows)
    else:
        total, used = _sqlite_bytes(engine)
    return Space(total, used, rows, first, pruned_at)


def give_back(engine: Engine) -> bool:
    """Gives some of the free room back to the system; False when that was all there was.

    PostgreSQL looks after that itself.
    """
    if engine.dialect.name == "postgresql":
        return False
    with sqlite_driver(engine) as driver:
        # As a script, because it has to be stepped through page by page.
        driver.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")
        free, vacuums = _pragma(driver, "freelist_count"), _pragma(driver, "auto_vacuum")
        _checkpoint(driver)
    return bool(free and vacuums)


def _checkpoint(driver: sqlite3.Connection) -> None:
    """Copies the log into the file and cuts it off, unless a reader still needs it."""
    busy, in_log, copied = driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    if not busy and in_log == copied:
        # Cutting off waits for readers, and all that is to be written would wait with it.
        waits = _pragma(driver, "busy_timeout")
        driver.execute("PRAGMA busy_timeout = 0")
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        driver.execute(f"PRAGMA busy_timeout = {waits}")


def _rows(connection: Connection) -> dict[str, int]:
    kept = dict(connection.execute(select(levels.c.step, levels.c.row_count)).all())
    fresh = select(func.count()).select_from(samples).where(~samples.c.rolled)
    raw = kept.pop(RAW) + connection.execute(fresh).scalar_one()
    found = {samples.name: raw, rollups.name: sum(kept.values())}
    for table in metadata.sorted_tables:
        if table.name not in found:
            query = select(func.count()).select_from(table)
            found[table.name] = connection.execute(query).scalar_one()
    return found


def _sqlite_bytes(engine: Engine) -> tuple[int, int]:
    with sqlite_driver(engine) as driver:
        page, pages = _pragma(driver, "page_size"), _pragma(driver, "page_count")
        free = _pragma(driver, "freelist_count")
    log = Path(f"{sqlite_path(engine.url)}-wal")
    return page * pages + (log.stat().st_size if log.exists() else 0), page * (pages - free)


def _pragma(driver: sqlite3.Connection, name: str) -> int:
    return int(driver.execute(f"PRAGMA {name}").fetchone()[0])


def _postgresql_bytes(engine: Engine, rows: Mapping[str, int]) -> tuple[int, int]:
    """The room that deleted rows leave in a file is used again and hardly ever given back.

    So of the two tables that rows are deleted from, what is in use is the number of rows times
    what the statistics say of their width.
    """
    widths = (
        "SELECT tablename, sum(avg_width) FROM pg_stats"
        " WHERE schemaname = current_schema() GROUP BY tablename"
    )
    with reading(engine) as connection:
        sizes = {
            table.name: int(
                connection.execute(select(func.pg_total_relation_size(table.name))).scalar_one()
            )
            for table in metadata.sorted_tables
        }
        known = {name: int(width) for name, width in connection.exec_driver_sql(widths)}
    estimates = {
        name: min(size, rows[name] * (known[name] + _ROW_OVERHEAD))
        for name, size in sizes.items()
        if name in known and name in _SHRINKING
    }
    return sum(sizes.values()), sum((sizes | estimates).values())


_SHRINKING = (samples.name, rollups.name)
_ROW_OVERHEAD = 70
"""Bytes of a row that are none of its figures: its header, and its entries in the indexes."""
