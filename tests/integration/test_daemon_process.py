"""The daemon as a process of its own: signals, and kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from daemon_stage import INTERVAL, TOKENS, Growing, eventually, hanging, stored_tokens
from scrape_peers import PATIENCE, Peer

PROGRAM = """
import sys
from monitor import logs
from monitor.daemon import Daemon
from monitor.settings import DaemonSettings, TargetSettings

database, url, interval, shutdown = sys.argv[1:]
logs.configure(as_json=True)

def load():
    target = TargetSettings("a", "chat", url, interval=float(interval), timeout=60.0, gap=60.0)
    return DaemonSettings(database, (target,), port=0, shutdown_seconds=float(shutdown))

sys.exit(Daemon(load(), load=load).run())
"""


class Process:
    """A daemon and what it logs."""

    def __init__(self, database: str, url: str, shutdown: float) -> None:
        arguments = [database, url, str(INTERVAL), str(shutdown)]
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROGRAM, *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.wait_for('"event": "started"')

    def wait_for(self, text: str) -> None:
        """Reads the log until a line holds ``text``."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if text in line:
                return
        raise AssertionError(f"the daemon ended without {text}")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """The exit code, once there is one; nothing may be on the log that is a mistake."""
        _, rest = self._process.communicate(timeout=PATIENCE)
        assert "Traceback" not in rest, rest
        return self._process.returncode

    def clean_up(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@contextmanager
def process(database: str, peer: Peer, shutdown: float = 20.0) -> Iterator[Process]:
    daemon = Process(database, peer.url, shutdown)
    try:
        yield daemon
    finally:
        daemon.clean_up()


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
