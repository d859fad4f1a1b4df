"""A loopback server whose pages move like those of a busy vLLM server.

Runs as a process of its own, so that what it costs is not counted as the monitor's.
"""

from __future__ import annotations

import gzip
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CAPTURED = Path(__file__).parent.parent / "tests" / "data" / "vllm"
_MOVING = re.compile(
    rb"^(vllm:[a-z_]*(?:_total|_sum|_count|_bucket)\{[^}]*\}) ([0-9.e+]+)$", re.MULTILINE
)


def growing(first: bytes, second: bytes, rounds: float) -> bytes:
    """The page ``rounds`` times as far beyond ``first`` as ``second`` is."""
    before = {name: float(value) for name, value in _MOVING.findall(first)}

    def moved(match: re.Match[bytes]) -> bytes:
        start = before.get(match[1], float(match[2]))
        value = start + (float(match[2]) - start) * rounds
        return match[1] + b" " + repr(round(value, 6)).encode()

    return _MOVING.sub(moved, second)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    first = b""
    second = b""
    started = time.monotonic()

    def do_GET(self) -> None:
        """Answers with a page whose counters have grown since the last time."""
        body = growing(self.first, self.second, 1.0 + (time.monotonic() - self.started) / 15.0)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def main(first: str, second: str) -> None:
    """Serves until killed; prints the port first."""
    _Handler.first = gzip.decompress(Path(first).read_bytes())
    _Handler.second = gzip.decompress(Path(second).read_bytes())
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:3])
