"""An API server of Kubernetes that knows a few objects and is strict about how it is asked."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

TOKEN = "token-of-the-service-account"
_PATHS = re.compile(
    r"/(?:api/v1/namespaces/(?P<core>[a-z0-9-]+)/services"
    r"|apis/apps/v1/namespaces/(?P<apps>[a-z0-9-]+)/deployments"
    r"|apis/gateway\.networking\.k8s\.io/v1/namespaces/(?P<gateway>[a-z0-9-]+)/httproutes)"
    r"/(?P<name>[a-z0-9-]+)"
)
_PATCHES = {
    "core": "application/strategic-merge-patch+json",
    "apps": "application/strategic-merge-patch+json",
    "gateway": "application/merge-patch+json",
}


class RefusedError(Exception):
    """What the server answers instead of an object."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Kubernetes(ThreadingHTTPServer):
    """Objects by their path; each change gives a new version."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.version = 100
        self.before_patch: Callable[[], None] = lambda: None
        """Called once a patch has been read, and before it is compared and applied."""
        self.over = threading.Event()
        self.hangs = False

    def put(self, path: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        """Adds an object, or changes it behind everybody's back."""
        self.version += 1
        known = {"name": path.rpartition("/")[2], "generation": 1, **metadata}
        self.objects[path] = {
            "metadata": {**known, "resourceVersion": str(self.version)},
            "spec": spec,
        }
        return self.objects[path]

    def touch(self, path: str) -> None:
        """Another controller changes something else about an object."""
        self.version += 1
        self.objects[path]["metadata"]["resourceVersion"] = str(self.version)

    def patched(self, path: str, patch: Any) -> dict[str, Any]:
        self.before_patch()
        found = self._found(path)
        if not isinstance(patch, dict):
            raise RefusedError(400, "a merge patch is an object")
        document: dict[str, Any] = merged(found, patch)
        version = found["metadata"]["resourceVersion"]
        if document["metadata"].get("resourceVersion") != version:
            raise RefusedError(409, "the object has been modified")
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        if document["spec"] != found["spec"]:
            document["metadata"]["generation"] += 1
        self.objects[path] = document
        return document

    def _found(self, path: str) -> dict[str, Any]:
        if path not in self.objects:
            raise RefusedError(404, f'"{path.rpartition("/")[2]}" not found')
        return self.objects[path]

    def read(self, path: str) -> dict[str, Any]:
        return self._found(path)

    def kubeconfig(self, folder: Path) -> str:
        """A file that leads here."""
        server = {"server": f"http://127.0.0.1:{self.server_address[1]}"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "c", "cluster": server}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
        }
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(document))
        return str(file)


def merged(target: Any, patch: Any) -> Any:
    """A merge patch (RFC 7386), which is the same as a strategic one for what we patch."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = merged(kept.get(key), value)
    return kept


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 64 * 1024
    server: Kubernetes

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        self._answer(self.server.read)

    def do_PATCH(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(lambda path: self._patched(path, body))

    def _patched(self, path: str, body: bytes) -> dict[str, Any]:
        found = _PATHS.fullmatch(path)
        assert found is not None
        group = next(name for name in _PATCHES if found[name])
        if self.headers["Content-Type"] != _PATCHES[group]:
            raise RefusedError(415, f"unsupported media type {self.headers['Content-Type']}")
        return self.server.patched(path, json.loads(body))

    def _answer(self, act: Callable[[str], dict[str, Any]]) -> None:
        self.server.requests.append(f"{self.command} {self.path}")
        if self.server.hangs:
            self.server.over.wait(30)
        try:
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                raise RefusedError(401, "Unauthorized")
            if not _PATHS.fullmatch(self.path):
                raise RefusedError(403, f'cannot access "{self.path}"')
            self._reply(200, act(self.path))
        except RefusedError as refusal:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
            self._reply(
                refusal.status, {**status, "message": str(refusal), "code": refusal.status}
            )

    def _reply(self, status: int, document: object) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def kubernetes() -> Iterator[Kubernetes]:
    """An API server that runs until the block is left."""
    server = Kubernetes()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
