"""A daemon as a process of its own that watches over a world; it is there to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import rollback_world
from scrape_peers import PATIENCE

from monitor import logs
from monitor.daemon import Daemon


def main(database: str, spec: str, plain: str, hook: str, began: str, lease: str) -> int:
    logs.configure(as_json=True)
    given = replace(
        rollback_world.settings(database, spec, plain, hook), lease_seconds=float(lease)
    )
    clock = rollback_world.clock(float(began))
    return Daemon(given, load=lambda: given, clock=clock).run()


@dataclass
class Process:
    """Such a process."""

    popen: subprocess.Popen[bytes]

    def kill(self) -> None:
        self.popen.send_signal(signal.SIGKILL)

    def wait(self) -> int:
        return self.popen.wait(PATIENCE)


@contextmanager
def process(
    database: str, world: rollback_world.World, began: float, lease: float
) -> Iterator[Process]:
    """A daemon that runs until the block is left."""
    urls = (world.spec.server.url, world.plain.server.url, world.hook.url)
    popen = subprocess.Popen(
        [sys.executable, __file__, database, *urls, str(began), str(lease)],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield Process(popen)
    finally:
        if popen.poll() is None:
            popen.send_signal(signal.SIGCONT)
            popen.kill()
        popen.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
