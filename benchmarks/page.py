"""CPU time of the daemon's own page of metrics, for each target on it.

    python -m benchmarks.page [--targets 100]

Each target has seen an hour of a busy vLLM server. A page is dear where each target was looked
at since the page before, and cheap where none was.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import time
from collections.abc import Sequence
from functools import partial

from benchmarks.pages import PAGES, growing
from benchmarks.watched import CURVE
from monitor.clock import FakeClock
from monitor.daemon.timeline import Timeline
from monitor.daemon.worker import Worker
from monitor.logs import configure
from monitor.pipeline import Page
from monitor.settings import JudgeSettings, TargetSettings
from monitor.web.metrics import MetricsPage
from monitor.web.view import Health, TargetView

LOOKS = 240
PAGES_MADE = 9


class Server:
    """A server that answers at once; what it was asked is counted as nobody's work."""

    page = b""

    def fetch(self) -> Page:
        """The page of now."""
        return Page(self.page)

    def ask_again(self) -> None:
        """It never starts anew."""

    def abort(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """There is no connection."""


class Fleet:
    """So many targets, and a daemon that does nothing else."""

    def __init__(self, targets: int) -> None:
        self.clock, self.server, self.looks = FakeClock(), Server(), 0
        first, second = (gzip.decompress(path.read_bytes()) for path in PAGES)
        self.page = partial(growing, first, second)
        timeline = Timeline(self.clock)
        self.workers = [
            Worker(
                TargetSettings(
                    f"target-{n}", "bench", "http://bench", judge=JudgeSettings(baseline=CURVE)
                ),
                clock=self.clock,
                timeline=timeline,
                sink=lambda _row: None,
                fetcher=self.server,
            )
            for n in range(targets)
        ]

    def look(self) -> None:
        """One round of all targets."""
        self.clock.advance(15.0)
        self.looks += 1
        self.server.page = self.page(1.0 + self.looks)
        for worker in self.workers:
            if worker.claim():
                worker.fetch()()

    def targets(self) -> Sequence[TargetView]:
        """All targets."""
        return [worker.view() for worker in self.workers]

    def health(self) -> Health:
        """Of a daemon that is well."""
        return Health(0.0, 1.0, None)

    def status(self) -> dict[str, object]:
        """Is not asked for."""
        return {}

    def reload(self) -> None:
        """Is not asked for."""


def main() -> None:
    """Prints the figures of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=100)
    args = parser.parse_args()
    configure(level="error")
    fleet = Fleet(args.targets)
    for _ in range(LOOKS):
        fleet.look()
    page = MetricsPage(fleet)
    news: list[float] = []
    same: list[float] = []
    size = 0
    for _ in range(PAGES_MADE):
        fleet.look()
        for spent in (news, same):
            began = time.thread_time()
            size = len(page.render("")[0])
            spent.append(time.thread_time() - began)
    print(f"targets                   {args.targets}, {size / 1e3 / args.targets:.1f} kB each")
    for name, spent in (("looked at since the last", news), ("nothing new", same)):
        print(f"{name:25} {1e3 * statistics.median(spent) / args.targets:.3f} ms a target")


if __name__ == "__main__":
    main()
