"""A server on loopback that speaks the OpenAI API, well or badly, and has a metrics page."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class TickClock:
    """Each thread's time moves on by one tick whenever it is looked at: nothing waits."""

    def __init__(self, tick: float = 0.01) -> None:
        self._tick = tick
        self._local = threading.local()

    def utc(self) -> float:
        return 1_800_000_000.0 + self.monotonic()

    def monotonic(self) -> float:
        now: float = getattr(self._local, "now", 0.0) + self._tick
        self._local.now = now
        return now

    def sleep(self, seconds: float) -> None:
        self._local.now = getattr(self._local, "now", 0.0) + seconds


class OpenAI(ThreadingHTTPServer):
    """Serves completions; what it does wrong can be set."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.per_chunk = 1
        self.misbehave: Callable[[_Handler], bool] = lambda _: False
        """Answers by itself and says so, or leaves it to the server."""
        self.page: Callable[[], bytes | None] = lambda: None
        self.key: str | None = None
        self.chat_only = False
        self.paths: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: OpenAI

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        if self.path == "/v1/models":
            self.reply(200, json.dumps({"data": [{"id": "demo"}]}).encode())
            return
        page = self.server.page() if self.path == "/metrics" else None
        if page is None:
            self.reply(404, b"not found")
        else:
            self.reply(200, page)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.paths.append(self.path)
        self.server.bodies.append(body)
        if self.server.key and self.headers.get("Authorization") != f"Bearer {self.server.key}":
            self.reply(401, b"{}")
            return
        if self.server.misbehave(self):
            return
        is_chat = self.path == "/v1/chat/completions"
        if self.server.chat_only and not is_chat:
            self.reply(404, b"{}")
            return
        self.stream(body["max_tokens"], chat=is_chat)

    def reply(self, status: int, content: bytes, **fields: str) -> None:
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def stream(self, tokens: int, *, chat: bool = False) -> None:
        choice: dict[str, Any] = {"delta": {"content": "x"}} if chat else {"text": "x"}
        events = [
            {"model": "demo", "choices": [choice]} for _ in range(0, tokens, self.server.per_chunk)
        ]
        usage = {"completion_tokens": tokens, "prompt_tokens": 20}
        self.events([*map(json.dumps, events), json.dumps({"choices": [], "usage": usage})])

    def events(self, events: list[str], *, done: bool = True) -> None:
        """Each event as an HTTP chunk of its own."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in [*events, *(["[DONE]"] if done else [])]:
            line = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")


Handler = _Handler


@contextmanager
def openai_server() -> Iterator[OpenAI]:
    """A server that runs until the block is left."""
    server = OpenAI()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
