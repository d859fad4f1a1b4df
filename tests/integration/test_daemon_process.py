"""The daemon as a process of its own: signals, and kill -9."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from daemon_process import process
from daemon_stage import TOKENS, Growing, eventually, hanging, stored_tokens
from scrape_peers import Peer


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'monitor.db'}"


def test_a_killed_daemon_goes_on_where_it_stopped(database: str) -> None:
    growing = Growing()
    with Peer(growing) as peer:
        for _ in range(2):
            looks = growing.looks
            with process(database, peer) as daemon:
                # Enough looks for some of them to be stored, and some not yet.
                eventually(lambda looks=looks: growing.looks >= looks + 9)  # type: ignore[misc]
                daemon.signal(signal.SIGKILL)
                assert daemon.end() == -signal.SIGKILL
        with process(database, peer) as daemon:
            looks = growing.looks
            eventually(lambda: growing.looks >= looks + 2)
            daemon.signal(signal.SIGTERM)
            assert daemon.end() == 0
    assert stored_tokens(database, "a") == (TOKENS * (growing.looks - 1), True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_daemon_in_order(database: str, number: signal.Signals) -> None:
    with Peer(Growing()) as peer, process(database, peer) as daemon:
        daemon.signal(number)
        daemon.wait_for('"event": "stopped"')
        assert daemon.end() == 0


def test_a_hangup_reloads(database: str) -> None:
    with Peer(Growing()) as peer, process(database, peer) as daemon:
        for _ in range(2):
            daemon.signal(signal.SIGHUP)
            daemon.wait_for('"event": "reloaded"')
        daemon.signal(signal.SIGTERM)
        assert daemon.end() == 0


def test_a_second_signal_ends_the_daemon_at_once(database: str) -> None:
    with Peer(hanging) as peer, process(database, peer, shutdown=3600.0) as daemon:
        eventually(lambda: bool(peer.requests))
        daemon.signal(signal.SIGTERM)
        daemon.wait_for('"event": "stopping"')
        daemon.signal(signal.SIGTERM)
        assert daemon.end() == 1
