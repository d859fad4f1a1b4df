"""How large a year of a hundred targets is on SQLite, and how soon its history is told.

    python -m benchmarks.storage [--targets 100] [--days 365] [--keep FILE]

Rows are made as they are after a year of looks every 15 seconds under the default retention:
samples of two days, sums of a minute of thirty days, sums of ten minutes of the year. Figures
are those of a server with three draft tokens: counts are whole, times are not. Each history is
asked for three times, of another target each time, with a start that lies anywhere and with one
at a full hour; the median counts.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, Engine, update

from monitor.settings import TargetSettings
from monitor.store import schema
from monitor.store.connect import open_store, writing
from monitor.store.repository import Repository
from monitor.store.rows import RoundRow
from monitor.store.space import give_back
from monitor.store.tables import SCALARS, TARGET_FIGURES, levels

HOUR, DAY = 3_600.0, 86_400.0
END = 1_790_000_400.0 - 1_790_000_400.0 % HOUR
INTERVAL = 15
LEVELS = ((0, INTERVAL, 2.0), (60, 60, 30.0), (600, 600, 1e9))
"""Step, seconds of a row, and days that are kept."""
QUESTIONS = (
    ("the last hour by minutes", HOUR, 60.0),
    ("the last day by 5 minutes", DAY, 300.0),
    ("the last week by hours", 7 * DAY, HOUR),
    ("the last month by hours", 30 * DAY, HOUR),
    ("the last month by 10 minutes", 30 * DAY, 600.0),
    ("the last quarter by 6 hours", 90 * DAY, 6 * HOUR),
    ("the year by days", 365 * DAY, DAY),
)
TIMES = 3

# What a row of so many seconds holds; ``n`` counts rows, ``series`` tells servers apart. The load
# has a rhythm of its own at each server, so that no two rows are alike.
_BUSY = "(4 + (n * 7919 + series * 104729) % 60)"
_DRAFTS = f"(seconds * {_BUSY} * 40)"
_FIGURES = {
    "seconds": "seconds * 1.0000123",
    "output_tokens": f"{_DRAFTS} * 3",
    "requests": f"{_DRAFTS} / 60",
    "prompt_tokens": f"{_DRAFTS} * 8",
    "drafts": _DRAFTS,
    "draft_tokens": f"{_DRAFTS} * 3",
    "accepted_tokens": f"{_DRAFTS} * 2 - (n % 1000)",
    "position_drafts": _DRAFTS,
    "decode_seconds": f"seconds * {_BUSY} * 0.9871234",
    "decode_tokens": f"{_DRAFTS} * 3",
    "decode_steps": _DRAFTS,
    "engine_steps": "seconds * 40",
    "batched_steps": _DRAFTS,
    "prefix_queries": f"{_DRAFTS} * 8",
    "prefix_hits": f"{_DRAFTS} * 3",
    "first_token_seconds": f"{_DRAFTS} / 60 * 0.1234567",
    "first_tokens": f"{_DRAFTS} / 60",
    "running_seconds": f"seconds * {_BUSY} * 1.0000123",
    "baseline_seconds": f"seconds * {_BUSY} * 1.3331234",
    "compared_seconds": f"seconds * {_BUSY} * 0.9871234",
}
_POSITIONS = (
    f"'[' || {_DRAFTS} || '.0, ' || {_DRAFTS} * 7 / 10 || '.0, ' || {_DRAFTS} / 2 || '.0]'"
)


def fill(engine: Engine, targets: int, days: float) -> dict[int, int]:
    """Makes the rows; how many there are, by level."""
    repository = Repository(engine)
    names = [f"gpu{number}" for number in range(targets)]
    settings = [
        TargetSettings(name, f"model{number % 10}", "") for number, name in enumerate(names)
    ]
    repository.register(settings, END)
    repository.write_round([RoundRow(name, END, (), "{}") for name in names])
    made: dict[int, int] = {}
    for series in range(1, targets + 1):
        with writing(engine) as connection:
            connection.exec_driver_sql(
                f"INSERT INTO series (id, target_id, label) VALUES ({series}, {series}, '0')"
            )
            for step, seconds, kept in LEVELS:
                count = int(min(kept, days) * DAY / seconds)
                _insert(connection, series, step, seconds, count)
                made[step] = made.get(step, 0) + count
    with writing(engine) as connection:
        for step, _, kept in LEVELS:
            dropped = END - min(kept, days) * DAY
            connection.execute(
                update(levels)
                .where(levels.c.step == step)
                .values(row_count=made[step], dropped_until=dropped)
            )
    # As the daemon does each ten minutes.
    give_back(engine)
    return made


def _insert(connection: Connection, series: int, step: int, seconds: int, count: int) -> None:
    figures = ", ".join(_FIGURES.get(name, "0") for name in SCALARS)
    if step == 0:
        into = "samples"
        head, tail = "series, until - seconds, until, 0", "1"
    else:
        into = "rollups"
        head = f"series, {step}, until, 0, until - seconds, until"
        tail = ", ".join(_FIGURES.get(name, "0") for name in TARGET_FIGURES)
    connection.exec_driver_sql(
        f"WITH RECURSIVE rows(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM rows WHERE n < {count})"
        f" INSERT INTO {into} SELECT {head}, {figures}, {_POSITIONS}, {tail} FROM"
        f" (SELECT n, {series} AS series, {seconds} AS seconds,"
        f" {END} - ({count} - n) * {seconds}.0 AS until FROM rows)"
    )


def ask(repository: Repository, targets: int) -> Iterator[tuple[str, str, float, float, int]]:
    """Each question, where it begins, milliseconds on the clock and of CPU, rows of the answer."""
    for text, span, step in QUESTIONS:
        for begins, end in (("anywhere", END - 7.3), ("full", END)):
            took, cpu = [], []
            for number in range(TIMES):
                target = f"gpu{(number * 37) % targets}"
                began, busy = time.perf_counter(), time.process_time()
                rows = repository.history(target, end - span, end, step)
                took.append((time.perf_counter() - began) * 1e3)
                cpu.append((time.process_time() - busy) * 1e3)
            yield text, begins, statistics.median(took), statistics.median(cpu), len(rows)


def main() -> None:
    """Makes the file, measures, and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--targets", type=int, default=100)
    parser.add_argument("--days", type=float, default=365.0)
    parser.add_argument("--keep", type=Path, help="File to make, or to measure again.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="storage") as folder:
        path = given.keep or Path(folder) / "monitor.db"
        fresh = not path.exists()
        url = f"sqlite:///{path}"
        schema.upgrade(url)
        engine = open_store(url)
        if fresh:
            began = time.perf_counter()
            made = fill(engine, given.targets, given.days)
            print(f"made {made} in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        repository = Repository(engine)
        space = repository.space()
        rows = space.rows["samples"] + space.rows["rollups"]
        print(f"{rows:,} rows, {space.total / 1e9:.2f} GB, {space.used / rows:.0f} bytes a row")
        print(f"{'':32}{'begins':>10}{'ms':>8}{'CPU ms':>8}{'rows':>8}")
        for text, begins, took, cpu, number in ask(repository, given.targets):
            print(f"{text:32}{begins:>10}{took:8.0f}{cpu:8.0f}{number:8}")
        engine.dispose()


if __name__ == "__main__":
    main()
