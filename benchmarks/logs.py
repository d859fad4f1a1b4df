"""How fast a large log is read: ``python -m benchmarks.logs [--megabytes 1000]``.

A log as a busy server writes it: each ten seconds two lines that tell something, among the
access lines of the requests served meanwhile. Prints CPU seconds for finding the lines, and for
making samples of them; the judging of the samples is measured in ``benchmarks.backfill``.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from monitor.backfill.looks import Findings
from monitor.engines.logs.reader import LogReader
from monitor.engines.logs.stamps import Stamps
from monitor.sources.logs import wanted_lines

START = 1_700_000_000
ACCESS = b'INFO:     10.0.0.1:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
SPEED = (
    "(APIServer pid=7) INFO {stamp} [loggers.py:335] Engine 000: Avg prompt throughput: 197.9"
    " tokens/s, Avg generation throughput: 120.6 tokens/s, Running: 4 reqs, Waiting: 0 reqs,"
    " GPU KV cache usage: 0.3%, Prefix cache hit rate: 10.5%\n"
    "(APIServer pid=7) INFO {stamp} [metrics.py:120] SpecDecoding metrics: Mean acceptance"
    " length: 2.50, Accepted throughput: 60.00 tokens/s, Drafted throughput: 120.00 tokens/s,"
    " Accepted: 600 tokens, Drafted: 1200 tokens, Per-position acceptance rate: 0.800, 0.500,"
    " 0.200, Avg Draft acceptance rate: 50.0%\n"
)


class Log:
    """A stream of so many bytes, made when they are read."""

    def __init__(self, size: int, requests: int) -> None:
        self.windows = 0
        self._left = size
        self._access = ACCESS * requests

    def read1(self, size: int, /) -> bytes:
        """About ``size`` bytes; none when all was given."""
        if self._left <= 0:
            return b""
        parts = []
        while size > 0:
            at = datetime.fromtimestamp(START + 10 * self.windows, UTC)
            parts.append(self._access + SPEED.format(stamp=f"{at:%Y-%m-%d %H:%M:%S}").encode())
            size -= len(parts[-1])
            self.windows += 1
        text = b"".join(parts)
        self._left -= len(text)
        return text


def _cpu(log: Log, *, whole: bool) -> tuple[float, int]:
    lines: Iterator[bytes] = wanted_lines(log, Findings())
    count = 0
    start = time.process_time()
    if whole:
        lines_read = LogReader(None, Stamps(UTC, None, 4e9), None, Counter())
        count = sum(1 for _ in lines_read.samples(lines))
    else:
        count = sum(1 for _ in lines)
    return time.process_time() - start, count


def main() -> None:
    """Prints one row for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=50, help="requests in ten seconds")
    options = parser.parse_args()
    size = options.megabytes * 1_000_000
    start = time.process_time()
    made = Log(size, options.requests)
    while made.read1(1 << 20):
        pass
    making = time.process_time() - start
    for name, whole in (("lines found", False), ("samples made", True)):
        seconds, count = _cpu(Log(size, options.requests), whole=whole)
        seconds -= making
        print(f"{name}: {count} in {seconds:.1f} s CPU, {options.megabytes / seconds:.0f} MB/s")


if __name__ == "__main__":
    main()
