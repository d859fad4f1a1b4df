"""Rounds of a running daemon: dead targets, clocks that are set, outages, the end."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Self

import pytest
from daemon_stage import (
    TOKENS,
    Growing,
    eventually,
    hanging,
    running,
    settings,
    stored_tokens,
    target,
)
from scrape_peers import PATIENCE, Peer, always, answer

from monitor.daemon.pool import Pool
from monitor.model import ConfigError, StoreError
from monitor.settings import DaemonSettings, Retention
from monitor.store.connect import open_store


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'monitor.db'}"


def test_a_dead_target_among_ten_holds_up_no_other(database: str) -> None:
    with ExitStack() as stack:
        dead = stack.enter_context(Peer(hanging))
        peers = [stack.enter_context(Peer(Growing())) for _ in range(9)]
        targets = [target("dead", dead), *(target(f"t{i}", p) for i, p in enumerate(peers))]
        stage = stack.enter_context(running(settings(database, *targets, shutdown=1.0)))
        eventually(lambda: min(stage.rounds(f"t{i}") for i in range(9)) >= 10)
        views = {view.target: view for view in stage.daemon.targets()}
        assert (views["dead"].rounds, dead.connections) == (0, 1)
        assert views["dead"].late >= 5


def test_each_look_is_stored_once_and_the_end_flushes(database: str) -> None:
    growing = Growing()
    with Peer(growing) as peer, running(settings(database, target("a", peer))) as stage:
        eventually(lambda: stage.rounds("a") >= 5)
        assert stage.stop() == 0
        assert stage.daemon.health().rows_queued == 0
    assert stored_tokens(database, "a") == (TOKENS * (growing.looks - 1), True)


def test_the_daemon_rolls_up_and_drops_between_its_rounds(database: str) -> None:
    with Peer(Growing()) as peer:
        given = settings(database, target("a", peer))
        with running(given) as stage:
            eventually(lambda: stage.rounds("a") >= 3)
            stage.stop()
        # A day and more passes; what is kept so long is only the sums.
        with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as connection:
            for name in ("start", "end"):
                connection.execute(f'UPDATE samples SET "{name}" = "{name}" - 100000')
            ((old,),) = connection.execute("SELECT count(*) FROM samples")
            connection.commit()
        kept = replace(given, retention=Retention(samples=86_400.0))
        with running(kept) as stage:
            eventually(lambda: stage.daemon.health().space is not None)
            space = stage.daemon.health().space
    assert space is not None
    assert old >= 2
    assert space.oldest_sample is None or space.oldest_sample > time.time() - 3_600.0
    assert space.rows["rollups"] >= 2
    assert space.pruned_at is not None


def test_a_new_process_goes_on_where_the_last_one_stopped(database: str) -> None:
    growing = Growing()
    with Peer(growing) as peer:
        first = settings(database, target("a", peer))
        for _ in range(2):
            with running(first) as stage:
                eventually(lambda stage=stage: stage.rounds("a") >= 3)  # type: ignore[misc]
                since = stage.daemon.status()["services"][0]["since"]
                stage.stop()
        assert since is not None
    assert stored_tokens(database, "a") == (TOKENS * (growing.looks - 1), True)


def test_a_scrape_that_hangs_at_the_end_is_cut_off_and_is_no_outage(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The scrape is soon cut off, but everything else has all the time that a busy machine needs.
    close = Pool.close
    monkeypatch.setattr(Pool, "close", lambda pool, patience: close(pool, min(patience, 0.2)))
    with Peer(hanging) as peer:
        first = settings(database, target("a", peer), shutdown=PATIENCE)
        with running(first) as stage:
            eventually(lambda: bool(peer.requests))
            assert stage.stop() == 0
        assert peer.ended.acquire(timeout=PATIENCE)
        assert stage.daemon.targets()[0].assessment is None


def test_the_daemon_outlives_an_outage_of_its_database(database: str) -> None:
    growing = Growing()

    def execute(statement: str) -> None:
        engine = open_store(database)
        with engine.begin() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()

    with Peer(growing) as peer, running(settings(database, target("a", peer))) as stage:
        eventually(lambda: stage.daemon.health().rows_written > 0)
        execute("ALTER TABLE samples RENAME TO away")
        eventually(lambda: stage.daemon.health().write_errors >= 2)
        rounds = stage.rounds("a")
        eventually(lambda: stage.rounds("a") >= rounds + 3)
        execute("ALTER TABLE away RENAME TO samples")
        assert stage.stop() == 0
        assert stage.daemon.health().rows_dropped == 0
    assert stored_tokens(database, "a") == (TOKENS * (growing.looks - 1), True)


def test_rows_that_cannot_be_written_at_the_end_are_admitted(database: str) -> None:
    def execute(statement: str) -> None:
        engine = open_store(database)
        with engine.begin() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()

    with Peer(Growing()) as peer, running(settings(database, target("a", peer))) as stage:
        eventually(lambda: stage.daemon.health().rows_written > 0)
        execute("DROP TABLE samples")
        eventually(lambda: stage.daemon.health().rows_queued > 0)
        assert stage.stop() == 1


class SteppedClock:
    """The machine's clock, as the scheduler and the monitor see it, set by a test."""

    def __init__(self) -> None:
        self.offset = 0.0

    def utc(self) -> float:
        return time.time() + self.offset

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing here may sleep, not even {seconds} s")


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> SteppedClock:
    clock = SteppedClock()

    class SteppedDatetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(clock.utc(), tz)

    for module in ("schedulers.base", "executors.base", "triggers.interval"):
        monkeypatch.setattr(f"apscheduler.{module}.datetime", SteppedDatetime)
    return clock


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_clock_set_by_an_hour_does_not_stall_the_rounds(
    database: str, stepped: SteppedClock, step: float
) -> None:
    growing = Growing()
    with Peer(growing) as peer, running(settings(database, target("a", peer)), clock=stepped) as s:
        eventually(lambda: s.rounds("a") >= 3)
        stepped.offset = step
        rounds = s.rounds("a")
        eventually(lambda: s.rounds("a") >= rounds + 8)
        assert s.daemon.health().scheduler_rebuilds >= 1
        assert s.daemon.health().alive
        s.stop()
    tokens, gapless = stored_tokens(database, "a")
    assert gapless
    # An hour ahead is a gap for the figures; an hour back is none.
    assert tokens == TOKENS * (growing.looks - 1) or step > 0


@pytest.fixture
def taken_port() -> Iterator[int]:
    with Peer(always(answer(b""))) as peer:
        yield peer.port


def test_a_port_that_is_taken_is_said_before_anything_starts(
    database: str, taken_port: int, tmp_path: Path
) -> None:
    first = DaemonSettings(database=database, targets=(), port=taken_port)
    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1 port {taken_port}"):  # noqa: SIM117
        with running(first):
            pass
    assert not list(tmp_path.glob("monitor.db*"))


def test_a_database_that_cannot_be_opened_ends_the_start(tmp_path: Path) -> None:
    first = settings(f"sqlite:///{tmp_path / 'missing' / 'monitor.db'}")
    with pytest.raises(StoreError, match="does not exist"):  # noqa: SIM117
        with running(first):
            pass


def test_without_targets_there_is_nothing_to_do_and_nothing_is_stuck(database: str) -> None:
    with running(settings(database)) as stage:
        health = stage.daemon.health()
        assert (health.alive, health.waiting_for) == (True, None)
