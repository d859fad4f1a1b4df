"""CPU time of the parts of one scrape, each by itself, beside the least that it could be.

    python -m benchmarks.parts

The parts are those that ``benchmarks.scrape`` measures together. Beside three of them stands the
bare operation without anything of the monitor around it: bytes through a socket, a search of the
page, rows into SQLite. Each figure is the median of many looks in a tight loop, with all code in
the caches; a daemon that wakes up once a second for a slot of targets pays about a third more.
"""

from __future__ import annotations

import gzip
import socket
import sqlite3
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from benchmarks.pages import PAGES, growing, serving
from benchmarks.watched import CURVE
from monitor.alerting.ruleset import load_rules
from monitor.engines.exposition import find, normalise
from monitor.engines.reader import DIALECTS, PageReader
from monitor.health.target import TargetState
from monitor.model import Engine
from monitor.pipeline import Tick, state_text
from monitor.settings import JudgeSettings, TargetSettings
from monitor.sources.scrape import Scraper
from monitor.store.connect import open_store
from monitor.store.repository import Repository
from monitor.store.rows import RoundRow
from monitor.store.schema import ensure_ready
from monitor.turn.alerts import Alerts

LOOKS = 500
ROWS = 30
"""Rows in a transaction: those of 450 targets each 15 s in a second."""
_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: bench\r\n\r\n"

P = ParamSpec("P")
T = TypeVar("T")


class Stopwatch:
    """CPU time of named parts, over many looks."""

    def __init__(self) -> None:
        self._spent: defaultdict[str, list[float]] = defaultdict(list)

    def time(self, part: str, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Does ``work`` and notes what it took."""
        began = time.thread_time()
        answer = work(*args, **named)
        self._spent[part].append(time.thread_time() - began)
        return answer

    def report(self, share: int = 1) -> None:
        """Prints the median of each part over ``share``, in microseconds."""
        for part, seconds in self._spent.items():
            # The first looks are the dear ones, on which every line is checked.
            usual = statistics.median(seconds[len(seconds) // 5 :])
            print(f"{part:28} {1e6 * usual / share:6.1f} us")


def exchange(watch: Stopwatch) -> None:
    """A fetch, and the bare exchange of the same bytes."""
    with serving() as url:
        host, _, port = url.removeprefix("http://").partition(":")
        page = memoryview(bytearray(1 << 18))
        sock = socket.create_connection((host, int(port)))

        def bare() -> None:
            sock.sendall(_REQUEST)
            got = sock.recv_into(page)
            head, _, body = bytes(page[:got]).partition(b"\r\n\r\n")
            left = int(head.rpartition(b" ")[2]) - len(body)
            while left > 0:
                left -= sock.recv_into(page)

        with sock, Scraper(TargetSettings("bench", "bench", url)) as scraper:
            for _ in range(LOOKS):
                watch.time("fetch", scraper.fetch)
                watch.time("  bare exchange", bare)


def judge(watch: Stopwatch) -> RoundRow:
    """Everything from the page to the row; returns the last row."""
    first, second = (gzip.decompress(path.read_bytes()) for path in PAGES)
    target = TargetSettings(
        "target-0", "bench", "http://bench", judge=JudgeSettings(baseline=CURVE)
    )
    reader, state = PageReader(), TargetState(target.name, target.interval, target.judge)
    rules = load_rules(()).rules
    alerts = Alerts(target, lambda: rules)
    row = RoundRow(target.name, 0.0, (), "")
    for number in range(LOOKS):
        now, page = 1e9 + target.interval * number, growing(first, second, 1.0 + number)
        sample = watch.time("read", reader.read, page, now)
        wanted = DIALECTS[Engine.VLLM].wanted
        watch.time("  bare search", find, normalise(page), wanted)
        increments = watch.time("count, detect, learn", state.observe, sample)
        said = watch.time("judge", state.assess, now)
        state.memory.verdict = (said.verdict, said.cause, said.action)
        tick = Tick(increments, said, changed=False)
        text = watch.time("remember", state_text, state)
        watch.time("alert rules", alerts.take, tick, (), now)
        row = RoundRow(target.name, now, increments, text, identity=sample.identity)
    return row


def store(watch: Stopwatch, row: RoundRow) -> None:
    """A row of a round into SQLite, and the bare row."""
    targets = [TargetSettings(f"target-{n}", "bench", "http://bench") for n in range(ROWS)]
    (increment,) = row.increments
    with tempfile.TemporaryDirectory() as folder:
        engine = open_store(f"sqlite:///{folder}/monitor.db")
        ensure_ready(engine)
        repository = Repository(engine)
        repository.register(targets, row.now)
        bare = sqlite3.connect(f"{folder}/bare.db", isolation_level=None)
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = NORMAL")
        columns = ", ".join(f"c{index}" for index in range(len(increment.counts)))
        bare.execute(f"CREATE TABLE rows (id, at, {columns})")
        bare.execute("CREATE TABLE states (id PRIMARY KEY, state)")
        for number in range(1, LOOKS // 5):
            at = row.now + 15.0 * number
            moved = increment._replace(start=increment.end + at, end=increment.end + at + 15.0)
            batch = [row._replace(target=t.name, now=at, increments=(moved,)) for t in targets]
            watch.time("store", repository.write_round, batch)
            flat: list[tuple[object, ...]] = [
                (n, at, *moved.counts[:-1], str(moved.counts.positions)) for n in range(ROWS)
            ]
            states: list[tuple[object, ...]] = [(n, f"{row.state}{at}") for n in range(ROWS)]
            watch.time("  bare rows", _write, bare, flat, states)
        engine.dispose()


def _write(
    database: sqlite3.Connection, rows: list[tuple[object, ...]], states: list[tuple[object, ...]]
) -> None:
    database.execute("BEGIN IMMEDIATE")
    database.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * len(rows[0]))})", rows)
    database.executemany("INSERT OR REPLACE INTO states VALUES (?, ?)", states)
    database.execute("COMMIT")


def main() -> None:
    """Prints all parts."""
    each, batches = Stopwatch(), Stopwatch()
    exchange(each)
    store(batches, judge(each))
    each.report()
    batches.report(ROWS)


if __name__ == "__main__":
    main()
