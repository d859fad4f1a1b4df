"""CPU time per scrape and memory per target of the whole daemon.

    python -m benchmarks.scrape [--targets 500] [--seconds 60] [--interval 15] [--warm 200]

Everything counts: HTTP, parsing, windows, verdict, detector, the shipped alert rules, row,
scheduler and writer. The daemon runs in a process of its own against a loopback server in
another, and is measured once its first dozen looks, on which every line is checked, are over.
Speculation pays there, so that the first window decides; while a verdict is open all judged
windows are looked at, and what follows from a page costs 1.4 times as much.

Milliseconds of CPU time say little across machines, and on one that does other work as well they
are up to twice those of a quiet one. So where Prometheus is installed it is measured on the same
pages right after: with a keep-list and three rules, so that it does something like the same work.
The budget is 0.40 ms where that Prometheus takes 0.62 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.pages import ROOT, serving
from benchmarks.yardstick import prometheus

BUDGET = 0.40 / 0.62
"""CPU time of a scrape, as a share of that of Prometheus."""


def measure(url: str, targets: int, args: argparse.Namespace) -> dict[str, Any]:
    """Runs the daemon with so many targets and gives what it used."""
    with tempfile.TemporaryDirectory() as folder:
        spec = [url, targets, args.interval, args.warm, args.seconds]
        spec.append(f"sqlite:///{Path(folder) / 'bench.db'}")
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.watched", json.dumps(spec)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    """Prints the figures of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warm", type=float, default=200.0)
    parser.add_argument("--interval", type=float, default=15.0)
    args = parser.parse_args()
    with serving() as url:
        few, many = measure(url, 1, args), measure(url, args.targets, args)
        yardstick = prometheus(url, args.targets, args.interval, args.warm, args.seconds)
    per_target = (many["rss"] - few["rss"]) / (args.targets - 1) / 1e6
    print(f"targets            {args.targets}, each {args.interval:g} s, for {args.seconds:g} s")
    print(f"load average       {os.getloadavg()[0]:.1f} (other work inflates CPU time)")
    print(f"verdicts           {many['verdicts']}, late rounds {many['late']:.0f}")
    used = many["cpu"] / many["scrapes"]
    print(f"CPU per scrape     {1e3 * used:.3f} ms")
    for thread, seconds in sorted(many["threads"].items(), key=lambda item: -item[1]):
        print(f"  {thread:15}  {1e3 * seconds / many['scrapes']:.3f} ms")
    if yardstick is not None:
        print(f"Prometheus         {1e3 * yardstick:.3f} ms a scrape, on the same pages")
        print(f"ratio              {used / yardstick:.2f}  (budget {BUDGET:.2f})")
    print(f"memory per target  {per_target:.3f} MB  (budget 0.15)")
    print(f"taken              {time.strftime('%Y-%m-%d')} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
