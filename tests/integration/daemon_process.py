"""A daemon as a process of its own, and what it logs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from daemon_stage import INTERVAL
from scrape_peers import PATIENCE, Peer

PROGRAM = """
import sys
from monitor import logs
from monitor.daemon import Daemon
from monitor.settings import DaemonSettings, TargetSettings

database, url, interval, shutdown, lease = sys.argv[1:]
logs.configure(as_json=True)

def load():
    target = TargetSettings("a", "chat", url, interval=float(interval), timeout=60.0, gap=60.0)
    return DaemonSettings(
        database,
        (target,),
        port=0,
        shutdown_seconds=float(shutdown),
        lease_seconds=float(lease),
    )

sys.exit(Daemon(load(), load=load).run())
"""


class Process:
    """A daemon and what it logs."""

    def __init__(self, database: str, url: str, shutdown: float, lease: float) -> None:
        arguments = [database, url, str(INTERVAL), str(shutdown), str(lease)]
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

    def freeze(self) -> None:
        """Stops every thread of the daemon, and returns when all of them stand still.

        A signal is sent before it has its effect: for a moment the threads on other cores go on.
        """
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

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
def process(
    database: str, peer: Peer, shutdown: float = 20.0, lease: float = 30.0
) -> Iterator[Process]:
    daemon = Process(database, peer.url, shutdown, lease)
    try:
        yield daemon
    finally:
        daemon.clean_up()
