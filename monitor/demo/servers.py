"""Model servers that play tapes on loopback, and the clock that makes them quick."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from monitor.demo.tape import Story, Tape


class ScaledClock:
    """A clock that starts at a given time and runs ``rate`` times as fast as the machine's."""

    def __init__(self, start: float, rate: float) -> None:
        self.rate = rate
        self._start = start
        self._origin = time.monotonic()

    def utc(self) -> float:
        """Seconds since the Unix epoch, in the story."""
        return self._start + self.monotonic()

    def monotonic(self) -> float:
        """Seconds of the story since the clock was made."""
        return (time.monotonic() - self._origin) * self.rate

    def sleep(self, seconds: float) -> None:
        """Waits for ``seconds`` of the story."""
        time.sleep(seconds / self.rate)


class TapeServer:
    """One model server: ``/metrics`` shows the page of the moment, or 503 while it is down."""

    def __init__(self, tape: Tape, clock: ScaledClock) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(tape, clock))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stops answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(tape: Tape, clock: ScaledClock) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path != "/metrics":
                self._answer(404, b"not found\n")
                return
            page = tape.page(clock.monotonic())
            if page is None:
                self._answer(503, b"the server is restarting\n")
            else:
                self._answer(200, page)

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing: the terminal belongs to the story."""

    return Handler


class Stage:
    """All servers of a story, as a context manager."""

    def __init__(self, story: Story, clock: ScaledClock) -> None:
        self._servers = {name: TapeServer(tape, clock) for name, tape in story.tapes.items()}

    @property
    def urls(self) -> dict[str, str]:
        """The address of each server by the name of its tape."""
        return {name: server.url for name, server in self._servers.items()}

    def __enter__(self) -> Stage:
        for server in self._servers.values():
            server.start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.close()
