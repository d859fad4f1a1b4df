"""A LiteLLM proxy as its documentation and source describe it: weights of deployments."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-master-of-litellm"
_UPDATE = re.compile(r"/model/([a-z0-9-]+)/update")


class Litellm(ThreadingHTTPServer):
    """Knows deployments, and changes the weight of those in its database."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.deployments: dict[str, dict[str, Any]] = {}
        self.changes: list[tuple[str, Any]] = []
        self.deaf = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def add(
        self, name: str, model: str = "chat", weight: int | None = None, *, db: bool = True
    ) -> None:
        params: dict[str, Any] = {"model": "hosted_vllm/m", "api_base": f"http://{name}:8000"}
        if weight is not None:
            params["weight"] = weight
        self.deployments[name] = {
            "model_name": model,
            "litellm_params": params,
            "model_info": {"id": name, "db_model": db},
        }

    def weights(self) -> dict[str, int | None]:
        return {n: d["litellm_params"].get("weight") for n, d in self.deployments.items()}


class _Handler(BaseHTTPRequestHandler):
    server: Litellm

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        if self._is_admin() and self.path == "/model/info":
            self._reply(200, {"data": list(self.server.deployments.values())})
        else:
            self._reply(404, {"detail": "Not Found"})

    def do_PATCH(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        found = _UPDATE.fullmatch(self.path)
        if not self._is_admin() or found is None or found[1] not in self.server.deployments:
            self._reply(404, {"detail": "Not Found"})
            return
        document = json.loads(body)
        deployment = self.server.deployments[found[1]]
        allowed = document.keys() == {"litellm_params"} and document["litellm_params"].keys() == {
            "weight"
        }
        if not allowed or not deployment["model_info"]["db_model"]:
            self._reply(400, {"error": {"message": "not in the database"}})
            return
        weight = document["litellm_params"]["weight"]
        self.server.changes.append((found[1], weight))
        if not self.server.deaf:
            deployment["litellm_params"]["weight"] = weight
        self._reply(200, deployment)

    def _is_admin(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {KEY}"

    def _reply(self, status: int, document: object) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def litellm() -> Iterator[Litellm]:
    """A proxy that runs until the block is left."""
    server = Litellm()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
