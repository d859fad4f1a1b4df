"""A loopback server whose pages move like those of a busy vLLM server.

Runs as a process of its own, so that what it costs is not counted as the monitor's. It makes a
page once a second and serves it to all who ask: a server that works for each request on the
cores of the monitor would empty its caches, as a model server on another machine does not.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

CAPTURED = Path(__file__).parent.parent / "tests" / "data" / "vllm"
ROOT = Path(__file__).parent.parent
PAGES = tuple(CAPTURED / f"03-draftgood-series-{number}.prom.gz" for number in ("00", "01"))
_MOVING = re.compile(
    rb"^(vllm:[a-z_]*(?:_total|_sum|_count|_bucket)\{[^}]*\}) ([0-9.e+]+)$", re.MULTILINE
)


def growing(first: bytes, second: bytes, rounds: float) -> bytes:
    """The page ``rounds`` times as far beyond ``first`` as ``second`` is."""
    before = {name: float(value) for name, value in _MOVING.findall(first)}

    def moved(match: re.Match[bytes]) -> bytes:
        start, end = before.get(match[1], float(match[2])), float(match[2])
        value = start + (end - start) * rounds
        # What counts things stays whole, as on the pages of a server.
        whole = start.is_integer() and end.is_integer()
        return match[1] + b" " + repr(float(round(value)) if whole else value).encode()

    return _MOVING.sub(moved, second)


@contextmanager
def serving() -> Iterator[str]:
    """The URL of such a server, while the block runs."""
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.pages", *map(str, PAGES)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
    finally:
        server.terminate()
        server.wait()


class _Handler(StreamRequestHandler):
    page: Callable[[int], bytes]
    started = time.monotonic()

    def handle(self) -> None:
        """Answers each request with a page whose counters have grown since the second before."""
        while self.request.recv(1 << 16).endswith(b"\r\n\r\n"):
            self.request.sendall(type(self).page(int(time.monotonic() - self.started)))


def main(first: str, second: str) -> None:
    """Serves until killed; prints the port first."""
    bodies = [gzip.decompress(Path(path).read_bytes()) for path in (first, second)]

    @lru_cache(maxsize=2)
    def page(age: int) -> bytes:
        body = growing(bodies[0], bodies[1], 1.0 + age / 15.0)
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    _Handler.page = staticmethod(page)
    server = ThreadingTCPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:3])
