"""Reloads: what stays, what goes, and that a failure changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
from scrape_peers import PATIENCE, Peer

from monitor.model import ConfigError, StoreError
from monitor.settings import DaemonSettings
from monitor.store.connect import open_store


class Configuration:
    """What a reload finds."""

    def __init__(self, first: DaemonSettings) -> None:
        self.now: DaemonSettings | Exception = first

    def __call__(self) -> DaemonSettings:
        if isinstance(self.now, Exception):
            raise self.now
        return self.now


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'monitor.db'}"


def test_unchanged_targets_are_kept_and_others_come_and_go(database: str) -> None:
    with Peer(Growing()) as kept, Peer(Growing()) as gone, Peer(Growing()) as new:
        first = settings(database, target("kept", kept), target("gone", gone))
        configuration = Configuration(first)
        with running(first, configuration) as stage:
            eventually(lambda: stage.rounds("kept") >= 2 and stage.rounds("gone") >= 2)
            configuration.now = replace(
                settings(database, target("new", new), target("kept", kept)), config_hash="two"
            )
            rounds = stage.rounds("kept")
            stage.daemon.reload()
            assert [view.target for view in stage.daemon.targets()] == ["new", "kept"]
            assert stage.rounds("kept") >= rounds
            assert gone.ended.acquire(timeout=PATIENCE)
            eventually(lambda: stage.rounds("new") >= 2)
            health = stage.daemon.health()
            assert (health.reload_ok, health.config_hash) == (True, "two")
            assert kept.connections == 1
            eventually(lambda: stage.daemon.health().rows_queued == 0)
            assert stage.stop() == 0


def test_a_changed_target_goes_on_with_its_past(database: str) -> None:
    growing = Growing()
    with Peer(growing) as peer:
        first = settings(database, target("a", peer))
        configuration = Configuration(first)
        with running(first, configuration) as stage:
            eventually(lambda: stage.rounds("a") >= 3)
            configuration.now = settings(database, target("a", peer, timeout=7.0))
            stage.daemon.reload()
            assert stage.daemon.targets()[0].assessment is not None
            eventually(lambda: stage.rounds("a") >= 3)
            stage.stop()
    # A scrape may be cut off by the reload; then the next one brings its tokens.
    assert stored_tokens(database, "a") == (TOKENS * (growing.looks - 1), True)


def test_a_target_that_hangs_does_not_hold_up_the_reload(database: str) -> None:
    with Peer(hanging) as peer:
        first = settings(database, target("a", peer))
        configuration = Configuration(first)
        with running(first, configuration) as stage:
            eventually(lambda: bool(peer.requests))
            configuration.now = settings(database)
            stage.daemon.reload()
            assert stage.daemon.targets() == []
            assert peer.ended.acquire(timeout=PATIENCE)


@pytest.mark.parametrize(
    "problem", [ConfigError("monitor.yaml:3: no such key"), RuntimeError("a mistake")]
)
def test_a_configuration_that_cannot_be_loaded_changes_nothing(
    database: str, problem: Exception
) -> None:
    with Peer(Growing()) as peer:
        first = settings(database, target("a", peer))
        configuration = Configuration(first)
        with running(first, configuration) as stage:
            configuration.now = problem
            with pytest.raises(ConfigError):
                stage.daemon.reload()
            rounds = stage.rounds("a")
            eventually(lambda: stage.rounds("a") >= rounds + 2)
            assert not stage.daemon.health().reload_ok
            configuration.now = first
            stage.daemon.reload()
            assert stage.daemon.health().reload_ok


def test_a_wrong_target_changes_nothing(database: str) -> None:
    with Peer(Growing()) as peer:
        first = settings(database, target("a", peer))
        wrong = replace(target("b", peer), url="ftp://host/")
        with running(first, lambda: settings(database, wrong)) as stage:
            with pytest.raises(ConfigError, match="scheme"):
                stage.daemon.reload()
            assert [view.target for view in stage.daemon.targets()] == ["a"]


def test_a_reload_without_a_database_changes_nothing(database: str) -> None:
    with Peer(Growing()) as peer:
        first = settings(database, target("a", peer))
        with running(first, lambda: settings(database, target("b", peer))) as stage:
            eventually(lambda: stage.daemon.health().rows_written > 0)
            engine = open_store(database)
            with engine.begin() as connection:
                connection.exec_driver_sql("ALTER TABLE targets RENAME TO away")
            with pytest.raises(StoreError):
                stage.daemon.reload()
            assert [view.target for view in stage.daemon.targets()] == ["a"]
            with engine.begin() as connection:
                connection.exec_driver_sql("ALTER TABLE away RENAME TO targets")
            engine.dispose()
            stage.daemon.reload()
            assert [view.target for view in stage.daemon.targets()] == ["b"]


@pytest.mark.parametrize("table", ["targets", "outbox", "events", "rollbacks"])
def test_a_reload_that_fails_half_way_leaves_nothing_behind(database: str, table: str) -> None:
    growing = Growing()
    with Peer(growing) as peer:
        first = settings(database, target("a", peer))
        with running(first, lambda: settings(database, target("b", peer))) as stage:
            eventually(lambda: stage.daemon.health().rows_written > 0)
            rename(database, table, "away")
            with pytest.raises(StoreError):
                stage.daemon.reload()
            rename(database, "away", table)
            written = stage.daemon.health().rows_written
            eventually(lambda: stage.daemon.health().rows_written >= written + 2)
            assert stage.stop() == 0
    # The rows of the target that is still watched were taken all the time.
    assert stored_tokens(database, "a") == (TOKENS * (growing.looks - 1), True)


def rename(database: str, old: str, new: str) -> None:
    engine = open_store(database)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")
    engine.dispose()
