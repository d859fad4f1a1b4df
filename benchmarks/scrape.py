"""CPU time per scrape and memory per target of the whole daemon.

    python -m benchmarks.scrape [--targets 500] [--seconds 60] [--interval 15] [--warm 200]

Everything counts: HTTP, parsing, windows, verdict, detector, row, scheduler and writer. The
daemon runs in a process of its own against a loopback server in another, and is measured once
its first dozen looks, on which every line is checked, are over. Yardstick on the
machine where this was written: Prometheus 2.42 with a keep-list and three rules spends 0.62 ms
of CPU time per scrape and 0.54 MB per target on the same page.
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

from benchmarks.pages import CAPTURED

ROOT = Path(__file__).parent.parent


def measure(url: str, targets: int, args: argparse.Namespace) -> dict[str, float]:
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
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    """Prints the figures of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warm", type=float, default=200.0)
    parser.add_argument("--interval", type=float, default=15.0)
    args = parser.parse_args()
    pages = [CAPTURED / f"03-draftgood-series-{number}.prom.gz" for number in ("00", "01")]
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.pages", *map(str, pages)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        few, many = measure(url, 1, args), measure(url, args.targets, args)
    finally:
        server.terminate()
        server.wait()
    per_target = (many["rss"] - few["rss"]) / (args.targets - 1) / 1e6
    print(f"targets            {args.targets}, each {args.interval:g} s, for {args.seconds:g} s")
    print(f"load average       {os.getloadavg()[0]:.1f} (other work inflates CPU time)")
    print(f"verdicts           {many['verdicts']}, late rounds {many['late']:.0f}")
    print(f"CPU per scrape     {1e3 * many['cpu'] / many['scrapes']:.3f} ms  (budget 0.40)")
    print(f"memory per target  {per_target:.3f} MB  (budget 0.15)")
    print(f"taken              {time.strftime('%Y-%m-%d')} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
