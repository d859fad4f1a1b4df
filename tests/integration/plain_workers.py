"""Tiny model servers for routers to send requests to: each counts what it was given."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "demo"
_PAGES: dict[str, dict[str, Any]] = {
    "/health": {},
    "/health_generate": {},
    "/v1/models": {"object": "list", "data": [{"id": MODEL, "object": "model"}]},
    "/get_model_info": {"model_path": MODEL, "is_generation": True},
    "/model_info": {"model_path": MODEL, "is_generation": True},
    "/get_server_info": {"model_path": MODEL, "served_model_name": MODEL},
    "/server_info": {"model_path": MODEL, "served_model_name": MODEL},
    "/version": {"version": "0.32.0"},
}


class Worker(ThreadingHTTPServer):
    """Answers each completion at once."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name = name
        self.served = 0
        self.healthy = True
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A proxy that drops its connection is nothing to tell."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body go out together: apart, each answer would wait for an acknowledgement.
    wbufsize = 64 * 1024
    server: Worker

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        page = _PAGES.get(self.path.partition("?")[0])
        if page is None:
            self._reply(404, {})
        elif not self.server.healthy and self.path.startswith("/health"):
            self._reply(503, {})
        else:
            self._reply(200, page)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            self.server.served += 1
        choice = {"index": 0, "message": {"role": "assistant", "content": self.server.name}}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        document = {"id": "1", "object": "chat.completion", "created": 1, "model": MODEL}
        self._reply(200, {**document, "choices": [choice], "usage": usage})

    def _reply(self, status: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def worker(name: str) -> Iterator[Worker]:
    """A worker that runs until the block is left."""
    server = Worker(name)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def workers(*names: str) -> Iterator[list[Worker]]:
    """Several of them."""
    with ExitStack() as stack:
        yield [stack.enter_context(worker(name)) for name in names]
