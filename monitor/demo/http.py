"""A small HTTP server for the parts of the demo."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
JSON = "application/json"
EVENTS = "text/event-stream"
_POLL = 0.1


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Said(NamedTuple):
    """The answer to it."""

    status: int
    body: bytes
    kind: str = _TEXT


Answer = Callable[[Asked], Said]


def in_json(status: int, document: object) -> Said:
    """An answer of JSON."""
    return Said(status, json.dumps(document).encode(), JSON)


class Server:
    """Answers on a free port of this machine, each request in a thread of its own."""

    def __init__(self, answer: Answer) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answer))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL,), daemon=True
        )

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._server.server_address[1]
        return port

    @property
    def url(self) -> str:
        """The same as a URL without a path."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stops answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body go out together: apart, each answer would wait for an acknowledgement.
        wbufsize = 256 * 1024

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _answer(self, body: bytes) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            said = answer(Asked(self.command, self.path, headers, body))
            self.send_response(said.status)
            self.send_header("Content-Type", said.kind)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, *_: object) -> None:
            """Says nothing: the terminal belongs to the story."""

    return Handler
