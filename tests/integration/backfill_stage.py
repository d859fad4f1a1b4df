"""A day of three servers, watched live or filled in afterwards, and what it leaves behind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select
from traffic import Server
from vllm_page import vllm_page

from monitor.alerting.ruleset import load_rules
from monitor.backfill.ingest import Ingest, Summary
from monitor.backfill.looks import Findings, Look
from monitor.clock import FakeClock
from monitor.daemon.timeline import Timeline
from monitor.daemon.worker import Worker
from monitor.daemon.writer import Writer
from monitor.model import ConfigError, ScrapeError
from monitor.pipeline import NoPage, Page
from monitor.settings import Role, TargetSettings
from monitor.store import schema
from monitor.store.backfill import PastStore
from monitor.store.connect import reading
from monitor.store.repository import Repository
from monitor.store.tables import backfills, metadata, series
from monitor.turn.curves import Curves
from monitor.turn.neighbours import Neighbours

START = 1_790_000_000.0
INTERVAL = 60.0
DAY = 86_400.0
RULES = load_rules((), defaults=True).rules
TARGETS = (
    TargetSettings("a", "chat", "http://a:8000", interval=INTERVAL),
    TargetSettings("b", "chat", "http://b:8000", interval=INTERVAL),
    TargetSettings("plain", "chat", "http://plain:8000", Role.BASELINE, interval=INTERVAL),
)
BY_NAME = {target.name: target for target in TARGETS}


@dataclass
class Tape:
    """Looks in memory, as a source."""

    all: Sequence[Look]
    names: Sequence[str] = tuple(BY_NAME)
    breaks_after: int | None = None
    findings: Findings = field(default_factory=Findings)

    @property
    def targets(self) -> Sequence[str]:
        return self.names

    def interval(self, _target: str) -> float | None:
        return INTERVAL

    def looks(self, after: float) -> Iterator[Look]:
        for number, look in enumerate(look for look in self.all if look.at > after):
            if number == self.breaks_after:
                raise ConfigError("the source ends here")
            yield look


@cache
def day() -> tuple[Look, ...]:
    """A day of three servers: a drafter dies, a server restarts, another one is away."""
    return tuple(_day(DAY))


def _day(seconds: float) -> Iterable[Look]:
    servers = {"a": Server(seed=1, now=START), "b": Server(seed=2, now=START)}
    servers["plain"] = Server(seed=3, now=START, q=0.0, step=0.02)
    for number in range(int(seconds / INTERVAL)):
        for offset, (name, server) in enumerate(servers.items()):
            hour = number * INTERVAL / 3600.0
            _change_fortune(name, server, hour)
            server._count(INTERVAL)
            server.now = START + number * INTERVAL + offset
            away = name == "b" and 15.0 <= hour < 15.5
            seen = NoPage("connection refused") if away else Page(_page(name, server))
            yield Look(name, server.now, seen)


def _page(name: str, server: Server) -> bytes:
    page = vllm_page(server)
    if name == "plain":
        page = b"\n".join(line for line in page.split(b"\n") if b"spec_decode" not in line)
    return page


def _change_fortune(name: str, server: Server, hour: float) -> None:
    if name == "a":
        server.q = 0.1 if 6.0 <= hour < 7.0 or hour >= 22.0 else 0.8
        server.running = 0.0 if 3.0 <= hour < 4.0 else 4.0
        if hour == 10.0:
            server.restart(server.now)
            server.version = "2"
    if name == "b":
        server.running = 2.0 + hour % 5.0


class Player:
    """Gives the worker the look of the moment."""

    def __init__(self) -> None:
        self.seen: Any = None

    def fetch(self) -> Page:
        if isinstance(self.seen, NoPage):
            raise ScrapeError(self.seen.error)
        page: Page = self.seen
        return page

    def ask_again(self) -> None:
        pass

    abort = close = ask_again


def watch_live(engine: Engine, looks: Iterable[Look], start: float = START) -> None:
    """What the daemon does, on a clock that stands still while it works."""
    clock = FakeClock(start)
    repository = Repository(engine)
    repository.register(TARGETS, start)
    writer = Writer(repository, clock)
    writer.accept(frozenset(BY_NAME))
    timeline, curves, neighbours = Timeline(clock), Curves(repository), Neighbours()
    curves.configure(TARGETS, start)
    players = {target.name: Player() for target in TARGETS}
    workers = {
        target.name: Worker(
            target,
            clock=clock,
            timeline=timeline,
            sink=writer.put,
            fetcher=players[target.name],
            curves=curves,
            neighbours=neighbours,
            rules=lambda: RULES,
        )
        for target in TARGETS
    }
    for number, look in enumerate(looks):
        clock.advance(look.at - clock.utc())
        players[look.target].seen = look.seen
        assert workers[look.target].claim()
        workers[look.target].fetch()()
        if number % 1000 == 0:
            assert writer.flush()
    assert writer.flush()
    assert (writer.dropped, writer.errors) == (0, 0)


def backfill(
    engine: Engine, source: Tape, start: float = 0.0, end: float = inf, *, dry: bool = False
) -> Summary:
    targets = {name: BY_NAME[name] for name in source.names}
    store = PastStore(engine, targets, START, dry)
    curves = Curves(Repository(engine))
    return Ingest(store, curves, RULES, source, name="tape", start=start, end=end).run()


def rows(engine: Engine, *, without: Sequence[str] = ("backfills",)) -> dict[str, list[Any]]:
    """All rows of all tables by what they say, whatever numbers they were given."""
    with reading(engine) as connection:
        query = select(series.c.id, series.c.target_id, series.c.label)
        names = {key: f"{target}/{label}" for key, target, label in connection.execute(query)}
        found = {}
        for table in metadata.sorted_tables:
            if table.name in without:
                continue
            columns = [column for column in table.c if column.name not in ("id", "rolled")]
            told = [tuple(row) for row in connection.execute(select(*columns))]
            if "series_id" in table.c:
                told = [(names[key], *rest) for key, *rest in told]
            found[table.name] = sorted(told, key=repr)
    return found


def memories(engine: Engine) -> dict[str, Any]:
    """What was remembered of the alerts where the filled time ends."""
    with reading(engine) as connection:
        texts = connection.scalars(select(backfills.c.memory))
        return {str(number): json.loads(text)["alerts"] for number, text in enumerate(texts)}


def fresh(url: str, name: str, tmp_path: Path) -> str:
    """A second database beside the first."""
    del url
    other = f"sqlite:///{tmp_path / name}.db"
    schema.upgrade(other)
    return other


def assert_equal(found: Mapping[str, list[Any]], wanted: Mapping[str, list[Any]]) -> None:
    assert found.keys() == wanted.keys()
    for table, expected in wanted.items():
        assert len(found[table]) == len(expected), table
        for mine, theirs in zip(found[table], expected, strict=True):
            assert mine == theirs, table


def assert_alike(found: Mapping[str, list[Any]], wanted: Mapping[str, list[Any]]) -> None:
    """Equal but for the last digits of sums that were begun anew."""
    assert found.keys() == wanted.keys()
    for table, expected in wanted.items():
        assert [*map(plain, found[table])] == [*map(plain, expected)], table


def plain(value: Any) -> Any:
    """A value with its documents opened and its figures rounded."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, str) and value[:1] in ("{", "["):
        return plain(json.loads(value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [*map(plain, value)] if isinstance(value, list | tuple) else value


def quarter() -> list[Look]:
    """The first eight hours: idle time, a drafter that dies and recovers."""
    return [look for look in day() if look.at < START + 8 * 3600.0]
