"""A hook as a careful operator would write it, which moves a share and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError


class Hook(ThreadingHTTPServer):
    """Applies each id once, and refuses orders of those that have lost the lease."""

    daemon_threads = True

    def __init__(self, key: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.verifier = None if key is None else Webhook(key)
        self.share: Any = 0.0
        self.fence = 0
        self.applied: list[str] = []
        self.orders: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/move"


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        self._reply(200 if self._is_ours(b"") else 401, {"share": self.server.share})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self._is_ours(body):
            self._reply(401, {})
            return
        order = json.loads(body)
        if order["fence"] < self.server.fence:
            self._reply(409, {"error": f"fence {self.server.fence} is in force"})
            return
        self.server.orders.append(order)
        self.server.fence = order["fence"]
        if order["id"] not in self.server.applied:
            self.server.applied.append(order["id"])
            self.server.share = order.get("share", self.server.share)
        self._reply(200, {})

    def _is_ours(self, body: bytes) -> bool:
        if self.server.verifier is None:
            return True
        try:
            # The library wants JSON; an empty body is not, but its signature comes first.
            self.server.verifier.verify(body, dict(self.headers.items()))
        except WebhookVerificationError:
            return False
        except ValueError:
            return not body
        return True

    def _reply(self, status: int, document: object) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


Handler = _Handler


@contextmanager
def hook(key: str | None = None) -> Iterator[Hook]:
    """A hook that runs until the block is left."""
    server = Hook(key)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
