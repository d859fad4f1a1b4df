"""What it costs to fill in the past from a Prometheus, beside what promtool needs for the same.

    python -m benchmarks.backfill [--targets 50] [--hours 2] [--interval 15]

Blocks of a busy vLLM 0.32 server, as often as there are targets, are made by promtool from
OpenMetrics; a Prometheus serves them, and `monitor backfill prometheus` fills a new SQLite
file. Beside the rate stand the memory after each quarter of the time, the CPU time of the
Prometheus that answered, and that of `promtool tsdb dump` over the same blocks. What 30 days
of so many targets would take is scaled from that, and said to be.
"""

from __future__ import annotations

import argparse
import gzip
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.pages import PAGES, growing
from benchmarks.watched import resident
from benchmarks.yardstick import cpu
from monitor.alerting.ruleset import load_rules
from monitor.backfill.ingest import Ingest
from monitor.backfill.naming import Naming
from monitor.backfill.prometheus import PrometheusSource
from monitor.backfill.series import wanted_names
from monitor.clock import SystemClock
from monitor.settings import Credentials
from monitor.sources.promql import PrometheusApi
from monitor.store import schema
from monitor.store.backfill import PastStore
from monitor.store.connect import open_store
from monitor.store.repository import Repository
from monitor.turn.curves import Curves

START = 1_790_000_000.0
MONTH = 30 * 86_400.0
_LINE = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[^}]*\})? (\S+)$", re.MULTILINE)


@dataclass(slots=True)
class Progress:
    """The memory at each quarter of the time."""

    start: float
    quarter: float
    megabytes: list[float] = field(default_factory=list)

    def note(self, at: float) -> None:
        """Looks at the memory when another quarter is over."""
        if at >= self.start + self.quarter * (len(self.megabytes) + 1):
            self.megabytes.append(resident() / 1e6)


class Pages:
    """The wanted figures of a page whose counters have grown so many times."""

    def __init__(self) -> None:
        first, second = (gzip.decompress(page.read_bytes()) for page in PAGES)
        wanted = re.compile(wanted_names().encode())

        def figures(rounds: float) -> dict[bytes, float]:
            return {
                name + b"{" + labels.strip(b"{}"): float(value)
                for name, labels, value in _LINE.findall(growing(first, second, rounds))
                if wanted.fullmatch(name)
            }

        # They grow evenly, so that two looks tell all others.
        zero, one = figures(0.0), figures(1.0)
        self._line = {series: (zero[series], one[series] - zero[series]) for series in zero}
        self._line[b"up{"] = (1.0, 0.0)

    def __len__(self) -> int:
        return len(self._line)

    def write(self, path: Path, targets: int, rounds: range, interval: float) -> None:
        """Writes some rounds of each target as OpenMetrics, series by series."""
        with path.open("wb") as file:
            for series, (start, step) in self._line.items():
                comma = b"" if series.endswith(b"{") else b","
                values = [b"%.6f" % (start + step * number) for number in rounds]
                for target in range(targets):
                    name = series + comma + b'instance="gpu%d:8000",job="vllm"}' % target
                    offset = START + target * interval / targets
                    file.writelines(
                        b"%s %s %.3f\n" % (name, value, offset + number * interval)
                        for number, value in zip(rounds, values, strict=True)
                    )
            file.write(b"# EOF\n")


def make_blocks(folder: Path, args: argparse.Namespace) -> tuple[int, float]:
    """Blocks of a day each, as text of more would fill a disk: samples, and CPU seconds."""
    pages, spent = Pages(), 0.0
    rounds, day = int(args.hours * 3600.0 / args.interval), int(86_400.0 / args.interval)
    for first in range(0, rounds, day):
        some = range(first, min(first + day, rounds))
        pages.write(folder / "series.om", args.targets, some, args.interval)
        made = ("create-blocks-from", "--max-block-duration=24h", "openmetrics", "series.om")
        spent += promtool(folder, *made, "data")
        (folder / "series.om").unlink()
    return len(pages) * rounds * args.targets, spent


@contextmanager
def prometheus(folder: Path) -> Iterator[tuple[str, int]]:
    """A server on the blocks: its URL and its process."""
    (folder / "prometheus.yml").write_text("global: {}\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{url}/-/ready", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait()


def promtool(folder: Path, *arguments: str) -> float:
    """Seconds of CPU time of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["promtool", "tsdb", *arguments]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, cwd=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def fill(folder: Path, url: str, end: float) -> tuple[int, int, Progress]:
    """Fills a new database; looks, windows, and the memory on the way."""
    database = f"sqlite:///{folder / 'monitor.db'}"
    schema.upgrade(database)
    engine = open_store(database)
    naming = Naming(())
    api = PrometheusApi(url, Credentials(), clock=SystemClock())
    source = PrometheusSource(api, "", START, end, naming.name_of)
    store = PastStore(engine, naming.settings(source.targets), START)
    rules = load_rules((), defaults=True).rules
    curves = Curves(Repository(engine))
    progress = Progress(START, (end - START) / 4.0)
    run = Ingest(store, curves, rules, source, name="benchmark", start=START, end=end)
    summary = run.run(progress.note)
    engine.dispose()
    return summary.samples, summary.windows, progress


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--targets", type=int, default=50)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--interval", type=float, default=15.0)
    args = parser.parse_args()
    if shutil.which("promtool") is None:
        raise SystemExit("promtool is missing: install Debian's prometheus")
    end = START + args.hours * 3600.0
    with tempfile.TemporaryDirectory(prefix="backfill") as name:
        folder = Path(name)
        samples, made = make_blocks(folder, args)
        print(f"{samples:,} samples; promtool made blocks in {made:.1f} s CPU")
        with prometheus(folder) as (url, pid):
            server, wall, own = cpu(pid), time.monotonic(), time.process_time()
            looks, windows, progress = fill(folder, url, end)
            own = time.process_time() - own
            wall = time.monotonic() - wall
            server = cpu(pid) - server
        # It wants the folder of a log beside the blocks, which a server makes.
        dumped = promtool(folder, "dump", "data")
    memory = ", ".join(f"{size:.0f}" for size in progress.megabytes)
    print(f"{looks:,} looks, {windows:,} windows of {args.targets} targets in {wall:.1f} s")
    print(
        f"monitor     {own:.1f} s CPU: {looks / own:,.0f} looks/s, {samples / own:,.0f} samples/s"
    )
    print(f"Prometheus  {server:.1f} s CPU to answer")
    print(f"promtool    {dumped:.1f} s CPU to dump the same blocks as text")
    print(f"memory      {memory} MB after each quarter")
    month = own * MONTH / (args.hours * 3600.0)
    print(f"scaled      30 days of {args.targets} targets: {month / 60.0:.0f} min of CPU")


if __name__ == "__main__":
    main()
