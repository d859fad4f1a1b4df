"""A day watched live and the same day filled in afterwards leave the same rows behind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select
from store_rows import opened
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
from monitor.store.alerts import IncidentFilter
from monitor.store.backfill import PastStore
from monitor.store.connect import reading
from monitor.store.repository import Repository
from monitor.store.tables import backfills, metadata, samples
from monitor.turn.curves import Curves
from monitor.turn.neighbours import Neighbours

START = 1_790_000_000.0
INTERVAL = 60.0
DAY = 86_400.0
RULES = load_rules((), defaults=True).rules
TARGETS = (
    TargetSettings("a", "chat", "http://a:8000", interval=INTERVAL),
    TargetSettings("b", "chat", "http://b:8000", interval=INTERVAL),
    TargetSettings("plain", "chat", "http://p:8000", Role.BASELINE, interval=INTERVAL),
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
        workers[look.target].run()
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
        found = {}
        for table in metadata.sorted_tables:
            if table.name in without:
                continue
            columns = [column for column in table.c if column.name not in ("id",)]
            if table.name == "samples":
                columns.remove(table.c.rolled)
            found[table.name] = sorted(map(tuple, connection.execute(select(*columns))), key=repr)
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


def test_a_day_filled_in_is_the_day_watched_live(
    database_url: str, engine: Engine, tmp_path: Path
) -> None:
    backfill(engine, Tape(day()))
    with opened(fresh(database_url, "live", tmp_path)) as live:
        watch_live(live, day())
        expected = rows(live)
    found = rows(engine)
    assert len(expected["verdicts"]) > 10
    assert len(expected["incidents"]) > 3
    assert found.pop("alert_states") == []
    states = expected.pop("alert_states")
    assert_equal(found, expected)
    assert len(states) == sum(map(len, memories(engine).values()))


def quarter() -> list[Look]:
    """The first eight hours: idle time, a drafter that dies and recovers."""
    return [look for look in day() if look.at < START + 8 * 3600.0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What one run over the eight hours leaves."""
    url = fresh("", "whole", tmp_path_factory.mktemp("whole"))
    with opened(url) as engine:
        backfill(engine, Tape(quarter()))
        return rows(engine, without=())


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Engine]:
    with opened(fresh("", "pieces", tmp_path)) as engine:
        yield engine


def test_the_same_run_again_changes_nothing(sqlite: Engine, whole: dict[str, Any]) -> None:
    first = backfill(sqlite, Tape(quarter()))
    again = backfill(sqlite, Tape(quarter()))
    assert first.samples == len(quarter())
    assert (again.samples, again.windows, again.alerts) == (0, 0, [])
    assert_equal(rows(sqlite, without=()), whole)


@pytest.mark.parametrize("overlap", [0.0, 1800.0])
def test_pieces_come_to_the_same_as_one_run(
    sqlite: Engine, whole: dict[str, Any], overlap: float
) -> None:
    for first, last in ((0.0, 3.3), (3.3, 6.2), (6.2, 8.0)):
        start, end = START + first * 3600.0 - overlap, START + last * 3600.0
        backfill(sqlite, Tape([look for look in quarter() if start <= look.at < end]))
    assert_alike(rows(sqlite, without=()), whole)


def test_a_run_that_breaks_off_goes_on_where_it_stopped(
    sqlite: Engine, whole: dict[str, Any]
) -> None:
    for looks in (317, 555, 902):
        with pytest.raises(ConfigError, match="ends here"):
            backfill(sqlite, Tape(quarter(), breaks_after=looks))
    backfill(sqlite, Tape(quarter()))
    assert_alike(rows(sqlite, without=()), whole)


def test_a_dry_run_finds_the_same_and_writes_nothing(
    sqlite: Engine, whole: dict[str, Any]
) -> None:
    before = rows(sqlite, without=())
    found = backfill(sqlite, Tape(quarter()), dry=True)
    assert rows(sqlite, without=()) == before
    assert found.changes == len(whole["verdicts"])
    assert {one.rule for one in found.alerts} == {row[0] for row in whole["incidents"]}


def test_only_the_span_that_was_asked_for_is_taken_in(sqlite: Engine) -> None:
    found = backfill(sqlite, Tape(quarter()), START + 3600.0, START + 7200.0)
    assert (found.start, found.end) == (START + 3600.0, START + 7200.0)
    with reading(sqlite) as connection:
        ends = [*connection.scalars(select(samples.c.end))]
    assert (min(ends), max(ends)) == (START + 3660.0, START + 7200.0)


def test_what_was_watched_live_stays_as_it_is(sqlite: Engine) -> None:
    """A daemon that lost its memory in a hole of half an hour, and was idle before and after."""
    for first, last in ((2.0, 4.0), (4.5, 6.5)):
        start, end = START + first * 3600.0, START + last * 3600.0
        watch_live(sqlite, [look for look in quarter() if start <= look.at < end], start)
    live = rows(sqlite)
    found = backfill(sqlite, Tape(quarter()))
    after = rows(sqlite)
    for table in ("samples", "verdicts", "fingerprints", "notifications"):
        assert set(live[table]) <= set(after[table])
    assert found.skipped == {"the monitor watched at that time": 3 * (120 + 120 - 2)}
    assert found.samples + sum(found.skipped.values()) == len(quarter())
    # Each moment is counted once, but for the first look of all and the first in the hole,
    # where nobody knows any more what the counters were.
    assert len(after["samples"]) == len(quarter()) - 2 * len(TARGETS)
    spans = sorted((row[:3] for row in after["samples"]), key=lambda row: (row[0], row[2]))
    assert all(one[0] != two[0] or one[2] <= two[1] for one, two in pairwise(spans))


def test_the_daemon_goes_on_from_what_was_filled_in_and_tells_of_what_still_holds(
    sqlite: Engine,
) -> None:
    until = START + 6.5 * 3600.0
    backfill(sqlite, Tape([look for look in quarter() if look.at < until]))
    repository = Repository(sqlite)
    state = repository.load_states()["a"]
    assert until - 60.0 <= state.at < until
    assert json.loads(state.state)["references"]
    assert repository.alerts.states() == {}
    assert repository.alerts.incidents() == []
    assert len(repository.alerts.incidents(IncidentFilter.ALL)) > 0


def test_what_is_older_than_live_data_leaves_the_daemon_alone(sqlite: Engine) -> None:
    start = START + 4.0 * 3600.0
    watch_live(sqlite, [look for look in quarter() if start <= look.at < start + 3600.0], start)
    before = rows(sqlite)
    backfill(sqlite, Tape([look for look in quarter() if look.at < start]))
    after = rows(sqlite)
    for table in ("target_states", "alert_states"):
        assert after[table] == before[table]


def test_what_follows_live_data_goes_on_from_the_memory_of_the_daemon(sqlite: Engine) -> None:
    middle = START + 3.0 * 3600.0
    watch_live(sqlite, [look for look in quarter() if look.at < middle])
    backfill(sqlite, Tape(quarter()))
    spans = sorted((row[:3] for row in rows(sqlite)["samples"]), key=lambda row: (row[0], row[2]))
    assert len(spans) == len(quarter()) - len(TARGETS)
    assert all(one[0] != two[0] or one[2] == two[1] for one, two in pairwise(spans))
    first_after = [row for row in rows(sqlite)["verdicts"] if row[1] >= middle]
    assert all(row[1] > middle + 60.0 for row in first_after)
