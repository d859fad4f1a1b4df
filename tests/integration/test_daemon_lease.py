"""Two daemons on one database: one leads, the other stands by, and they change places."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from daemon_process import Process, process
from daemon_stage import (
    TOKENS,
    Growing,
    Running,
    eventually,
    running,
    settings,
    stored_tokens,
    target,
)
from scrape_peers import Peer
from sqlalchemy import make_url, update

from monitor.model import StoreError
from monitor.settings import DaemonSettings
from monitor.store.connect import open_store, writing
from monitor.store.lease import Lease, Leases
from monitor.store.tables import leases

SHORT = 1.0


@contextmanager
def standing_by(first: DaemonSettings) -> Iterator[Running]:
    stage = Running(first)
    stage.begin()
    eventually(stage.daemon.opened.is_set)
    assert not stage.daemon.started.is_set()
    try:
        yield stage
    finally:
        stage.stop()


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'monitor.db'}"


def test_a_second_daemon_says_who_leads_and_does_nothing(file: str) -> None:
    with (
        Peer(Growing()) as peer,
        Peer(Growing()) as other,
        running(settings(file, target("a", peer))) as leader,
    ):
        eventually(lambda: leader.daemon.health().rows_written > 0)
        with standing_by(settings(file, target("a", other))) as second:
            url = f"http://127.0.0.1:{second.daemon.port}"
            ready = requests.get(f"{url}/readyz", timeout=10)
            assert ready.status_code == 503
            assert "leads on this database" in ready.json()["waiting_for"]
            assert requests.get(f"{url}/livez", timeout=10).status_code == 200
            shown = requests.get(f"{url}/api/v1/status", timeout=10).json()
            assert [s["service"] for s in shown["services"]] == ["chat"]
            assert "monitor_leading 0.0" in requests.get(f"{url}/metrics", timeout=10).text
            assert not second.daemon.targets()
        assert other.connections == 0
        assert leader.daemon.health().fence == 1


def test_the_second_goes_on_where_the_first_one_stopped(file: str) -> None:
    growing = Growing()
    with Peer(growing) as peer:
        first = settings(file, target("a", peer))
        with running(first) as leader, standing_by(first) as second:
            eventually(lambda: leader.rounds("a") >= 3)
            leader.stop()
            eventually(second.daemon.started.is_set)
            eventually(lambda: second.rounds("a") >= 3)
            assert second.daemon.health().fence == 2
            second.stop()
    assert stored_tokens(file, "a") == (TOKENS * (growing.looks - 1), True)


def freeze(daemon: Process, database_url: str) -> None:
    """Stops a daemon where it is, but not while it holds the lock of a SQLite file.

    Nobody can write to a file whose writer is frozen in mid-transaction, and nobody tries to.
    """

    path = str(make_url(database_url).database)

    def is_frozen_outside_of_a_transaction() -> bool:
        daemon.freeze()
        try:
            with closing(sqlite3.connect(path, timeout=0.0)) as connection:
                connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            daemon.signal(signal.SIGCONT)
            return False
        return True

    if database_url.startswith("sqlite"):
        eventually(is_frozen_outside_of_a_transaction)
    else:
        daemon.freeze()


def test_a_daemon_that_was_stopped_for_too_long_wakes_up_harmless(database_url: str) -> None:
    growing = Growing()
    with Peer(growing) as peer:
        first = replace(settings(database_url, target("a", peer)), lease_seconds=SHORT)
        with process(database_url, peer, lease=SHORT) as stopped:
            with standing_by(first) as second:
                eventually(lambda: stored_tokens(database_url, "a")[0] > 0.0)
                freeze(stopped, database_url)
                eventually(second.daemon.started.is_set)
                eventually(lambda: second.rounds("a") >= 3)
                stopped.signal(signal.SIGCONT)
                stopped.wait_for("another daemon has taken the lease")
                stopped.wait_for("standing by")
                assert second.daemon.started.is_set()
                second.stop()
            stopped.wait_for('"event": "started"')
            looks = growing.looks
            eventually(lambda: growing.looks >= looks + 2)
            stopped.signal(signal.SIGTERM)
            assert stopped.end() == 0
    assert stored_tokens(database_url, "a") == (TOKENS * (growing.looks - 1), True)


def test_a_lease_that_is_away_with_its_database_is_not_held(file: str) -> None:
    with Peer(Growing()) as peer:
        first = replace(settings(file, target("a", peer)), lease_seconds=SHORT)
        with running(first) as stage:
            rename(file, "leases", "away")
            eventually(lambda: stage.daemon.health().fence is None)
            rounds = stage.rounds("a")
            eventually(lambda: stage.rounds("a") >= rounds + 2)
            rename(file, "away", "leases")
            eventually(lambda: stage.daemon.health().fence == 1)
            assert stage.stop() == 0


def rename(database: str, old: str, new: str) -> None:
    engine = open_store(database)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")
    engine.dispose()


def test_rows_of_a_former_leader_are_refused_before_it_knows(file: str) -> None:
    with Peer(Growing()) as peer, running(settings(file, target("a", peer))) as stage:
        eventually(lambda: stage.daemon.health().rows_written > 0)
        engine = open_store(file)
        with writing(engine) as connection:
            connection.execute(update(leases).values(fence=7))
        engine.dispose()
        written = stage.daemon.health().rows_written
        eventually(lambda: stage.daemon.health().write_errors > 0)
        assert stage.daemon.health().rows_written <= written + 1


def test_a_lease_whose_row_is_locked_at_the_start_is_tried_again(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, tries = Leases.take, iter([StoreError("the row of the lease is locked")])

    def locked(*given: Any, **named: Any) -> Lease:
        for error in tries:
            raise error
        return take(*given, **named)

    monkeypatch.setattr(Leases, "take", locked)
    with Peer(Growing()) as peer, running(settings(file, target("a", peer))) as only:
        eventually(lambda: only.daemon.health().rows_written > 0)
