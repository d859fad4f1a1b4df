"""A strict stand-in for the parts of Grafana's legacy API that are used, with faults on request.

It was written from Grafana's own API description and source, not from a running Grafana. What the
real one forgives it does not: unknown keys, unknown paths and numeric ids are refused.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "glsa_the-token"
EDITOR = "glsa_editor"
VIEWER = "glsa_viewer"
_ROLES = {TOKEN: 3, EDITOR: 2, VIEWER: 1}

_DATASOURCE = {
    "uid", "name", "type", "access", "url", "user", "database", "basicAuth", "basicAuthUser",
    "withCredentials", "isDefault", "jsonData", "secureJsonData",
}  # fmt: skip
_RULE = {
    "uid", "title", "condition", "data", "noDataState", "execErrState", "for", "keep_firing_for",
    "missingSeriesEvalsToResolve", "annotations", "labels", "isPaused", "folderUID", "ruleGroup",
    "orgID",
}  # fmt: skip
_NEW_IN_12 = {"keep_firing_for", "missingSeriesEvalsToResolve"}
_QUERY = {"refId", "relativeTimeRange", "datasourceUid", "model", "queryType"}


class RefusedError(Exception):
    """An answer other than success."""

    def __init__(self, code: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.body = {"message": message, **more}


@dataclass
class Fault:
    """What goes wrong with requests that match, for so many of them."""

    method: str
    path: str
    kind: str
    count: int = 1


@dataclass
class State:
    """What a Grafana keeps, and how it is to behave."""

    release: str = "13.3.0"
    prefix: str = ""
    port: int = 0
    folders: dict[str, dict[str, Any]] = field(default_factory=dict)
    datasources: dict[str, dict[str, Any]] = field(default_factory=dict)
    secrets: dict[str, dict[str, str]] = field(default_factory=dict)
    dashboards: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    provisioned: set[str] = field(default_factory=set)
    groups: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    annotations: dict[int, dict[str, Any]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)
    guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [request for request in self.requests if request[0] != "GET"]

    def fail(self, method: str, path: str, kind: str, count: int = 1) -> None:
        self.faults.append(Fault(method, path, kind, count))

    def fault(self, method: str, path: str) -> str | None:
        for fault in self.faults:
            if fault.count and fault.method == method and re.search(fault.path, path):
                fault.count -= 1
                return fault.kind
        return None

    def edit(self, uid: str, **changes: Any) -> None:
        """Somebody saves a dashboard in the browser."""
        latest = self.dashboards[uid][-1]
        number = latest["version"] + 1
        board = {**latest["dashboard"], **changes, "version": number}
        self.dashboards[uid].append(
            {**latest, "dashboard": board, "version": number, "message": ""}
        )


Handle = Callable[..., Any]
_ROUTES: list[tuple[str, re.Pattern[str], int, Handle]] = []


def route(method: str, path: str, role: int) -> Callable[[Handle], Handle]:
    pattern = re.compile(re.sub(r"<(\w+)>", r"(?P<\1>[A-Za-z0-9_-]{1,40})", path) + r"\Z")

    def add(handle: Handle) -> Handle:
        _ROUTES.append((method, pattern, role, handle))
        return handle

    return add


def strict(body: Any, allowed: set[str], required: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    if not isinstance(body, dict):
        raise RefusedError(400, "bad request data")
    if unknown := body.keys() - allowed:
        raise RefusedError(400, f"unknown field {sorted(unknown)[0]}")
    if missing := required - body.keys():
        raise RefusedError(400, f"missing field {sorted(missing)[0]}")


@route("GET", "/api/health", 0)
def health(state: State, **_: Any) -> Any:
    return {"commit": "abc", "database": "ok", "version": state.release}


# -- folders -------------------------------------------------------------------------------


@route("GET", "/api/folders/<uid>", 1)
def get_folder(state: State, uid: str, **_: Any) -> Any:
    if uid not in state.folders:
        raise RefusedError(404, "folder not found", status="not-found")
    return state.folders[uid]


@route("POST", "/api/folders", 2)
def make_folder(state: State, body: Any, **_: Any) -> Any:
    strict(body, {"uid", "title", "parentUid", "description"}, {"title"})
    if body["uid"] in state.folders:
        raise RefusedError(409, "the folder already exists")
    state.folders[body["uid"]] = {"uid": body["uid"], "title": body["title"], "version": 1}
    return state.folders[body["uid"]]


@route("DELETE", "/api/folders/<uid>", 2)
def drop_folder(state: State, uid: str, **_: Any) -> Any:
    get_folder(state, uid=uid)
    if any(folder == uid for folder, _group in state.groups):
        raise RefusedError(400, "folder cannot be deleted: folder contains alert rules")
    # As the real one: everything in it goes with it.
    inside = [name for name, found in state.dashboards.items() if found[-1]["folder"] == uid]
    for name in inside:
        del state.dashboards[name]
    del state.folders[uid]
    return {"message": "Folder deleted", "uid": uid}


@route("GET", "/api/search", 1)
def search(state: State, query: Mapping[str, str], **_: Any) -> Any:
    assert query.keys() <= {"folderUIDs", "limit"}
    return [
        {"uid": uid, "title": versions[-1]["dashboard"]["title"], "type": "dash-db"}
        for uid, versions in state.dashboards.items()
        if versions[-1]["folder"] == query["folderUIDs"]
    ]


# -- data sources --------------------------------------------------------------------------


@route("GET", "/api/datasources/uid/<uid>", 3)
def get_datasource(state: State, uid: str, **_: Any) -> Any:
    if uid not in state.datasources:
        raise RefusedError(404, "Data source not found", messageId="datasource.notFound")
    fields = dict.fromkeys(state.secrets.get(uid, {}), True)
    return {"readOnly": False, **state.datasources[uid], "secureJsonFields": fields}


@route("POST", "/api/datasources", 3)
def make_datasource(state: State, body: Any, **_: Any) -> Any:
    strict(body, _DATASOURCE, {"name", "type", "access"})
    names = {found["name"] for found in state.datasources.values()}
    if body["uid"] in state.datasources or body["name"] in names:
        raise RefusedError(409, "data source with the same name already exists")
    return {"message": "Datasource added", "datasource": _store_datasource(state, body)}


@route("PUT", "/api/datasources/uid/<uid>", 3)
def change_datasource(state: State, uid: str, body: Any, **_: Any) -> Any:
    found = get_datasource(state, uid=uid)
    strict(body, _DATASOURCE, {"name", "type", "access"})
    if found["readOnly"]:
        raise RefusedError(403, "Cannot update read-only data source")
    return {"message": "Datasource updated", "datasource": _store_datasource(state, body)}


def _store_datasource(state: State, body: dict[str, Any]) -> Any:
    uid = body["uid"]
    state.secrets.setdefault(uid, {}).update(body.pop("secureJsonData", {}))
    state.datasources[uid] = {"id": 7, "orgId": 1, "isDefault": False, "version": 1, **body}
    return state.datasources[uid]


@route("DELETE", "/api/datasources/uid/<uid>", 3)
def drop_datasource(state: State, uid: str, **_: Any) -> Any:
    get_datasource(state, uid=uid)
    del state.datasources[uid]
    return {"message": "Data source deleted", "id": 7}


# -- dashboards ----------------------------------------------------------------------------


@route("GET", "/api/dashboards/uid/<uid>", 1)
def get_dashboard(state: State, uid: str, **_: Any) -> Any:
    if uid not in state.dashboards:
        raise RefusedError(404, "Dashboard not found")
    latest = state.dashboards[uid][-1]
    meta = {
        "type": "db",
        "canSave": True,
        "version": latest["version"],
        "folderUid": latest["folder"],
        "provisioned": uid in state.provisioned,
    }
    return {"meta": meta, "dashboard": _as_stored(state, latest)}


def _as_stored(state: State, latest: dict[str, Any]) -> dict[str, Any]:
    board = {**latest["dashboard"], "id": 12}
    if state.release.startswith("13"):
        # The newest one rewrites some of what it stores.
        board.pop("refresh", None)
        board = {"fiscalYearStartMonth": 0, **board}
    return board


@route("GET", "/api/dashboards/uid/<uid>/versions", 1)
def versions(state: State, uid: str, query: Mapping[str, str], **_: Any) -> Any:
    get_dashboard(state, uid=uid)
    found = [
        {"version": v["version"], "message": v["message"], "createdBy": "x"}
        for v in reversed(state.dashboards[uid])
    ][: int(query["limit"])]
    return found if state.release.startswith("10") else {"continueToken": "", "versions": found}


@route("POST", "/api/dashboards/db", 2)
def save_dashboard(state: State, body: Any, **_: Any) -> Any:
    strict(body, {"dashboard", "folderUid", "message", "overwrite"}, {"dashboard"})
    board, folder = body["dashboard"], body.get("folderUid", "")
    uid = board["uid"]
    if folder and folder not in state.folders:
        raise RefusedError(400, "folder not found", status="not-found")
    if uid in state.provisioned:
        raise RefusedError(400, "Cannot save provisioned dashboard")
    before = state.dashboards.get(uid, [])
    number = before[-1]["version"] if before else 0
    if before and not body["overwrite"] and board.get("version") != number:
        raise RefusedError(
            412, "The dashboard has been changed by someone else", status="version-mismatch"
        )
    kept = {**board, "version": number + 1}
    state.dashboards.setdefault(uid, []).append(
        {"dashboard": kept, "version": number + 1, "message": body["message"], "folder": folder}
    )
    return {"id": 12, "uid": uid, "status": "success", "version": number + 1, "slug": "x"}


@route("DELETE", "/api/dashboards/uid/<uid>", 2)
def drop_dashboard(state: State, uid: str, **_: Any) -> Any:
    get_dashboard(state, uid=uid)
    if uid in state.provisioned:
        raise RefusedError(400, "provisioned dashboard cannot be deleted")
    del state.dashboards[uid]
    return {"title": "x", "message": "Dashboard x deleted"}


# -- alert rules ---------------------------------------------------------------------------


_GROUP = "/api/v1/provisioning/folder/<folder>/rule-groups/<group>"


@route("GET", _GROUP, 1)
def get_group(state: State, folder: str, group: str, **_: Any) -> Any:
    found = state.groups.get((folder, group))
    if found is None:
        raise RefusedError(404, "rule group not found")
    return found


@route("PUT", _GROUP, 2)
def put_group(
    state: State, folder: str, group: str, body: Any, headers: Mapping[str, str], **_: Any
) -> Any:
    strict(body, {"title", "folderUid", "interval", "rules"}, {"interval"})
    if folder not in state.folders:
        raise RefusedError(404, "folder not found")
    if body["interval"] % 10:
        raise RefusedError(400, "interval should be divisible exactly by the scheduler interval")
    before = state.groups.get((folder, group), {"rules": []})
    if "rules" not in body:
        body["rules"] = before["rules"]
    provenance = "" if "X-Disable-Provenance" in headers else "api"
    for rule in before["rules"]:
        if rule["provenance"] not in ("", provenance):
            raise RefusedError(
                500, f"cannot change provenance from {rule['provenance']} to {provenance}"
            )
    rules = [_rule(state, rule, provenance) for rule in body["rules"]]
    if len({rule["title"] for rule in rules}) < len(rules):
        raise RefusedError(409, "a conflicting alert rule is found: rule title must be unique")
    state.groups[folder, group] = {**body, "rules": rules}
    return state.groups[folder, group]


def _rule(state: State, rule: Any, provenance: str) -> dict[str, Any]:
    strict(rule, _RULE, {"uid", "title", "condition", "data", "for", "noDataState"})
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", rule["uid"]):
        raise RefusedError(400, "invalid alert rule: UID is longer than 40 symbols")
    refs = [query["refId"] for query in rule["data"]]
    if rule["condition"] not in refs:
        raise RefusedError(400, f"condition {rule['condition']} does not exist")
    for query in rule["data"]:
        strict(query, _QUERY, {"refId", "datasourceUid", "model"})
    assert rule["noDataState"] in ("OK", "NoData", "Alerting", "KeepLast")
    assert rule["execErrState"] in ("OK", "Error", "Alerting", "KeepLast")
    old = not state.release.startswith(("12", "13"))
    kept = {key: value for key, value in rule.items() if not (old and key in _NEW_IN_12)}
    for query in kept["data"]:
        query["model"] = {**query["model"], "intervalMs": 1000, "maxDataPoints": 43200}
    return {**kept, "id": 3, "updated": "2026-01-01T00:00:00Z", "provenance": provenance}


@route("DELETE", _GROUP, 2)
def drop_group(state: State, folder: str, group: str, **_: Any) -> Any:
    get_group(state, folder=folder, group=group)
    del state.groups[folder, group]
    return None


# -- annotations ---------------------------------------------------------------------------


@route("GET", "/api/annotations", 1)
def list_annotations(state: State, query: Mapping[str, str], **_: Any) -> Any:
    tag, limit = query["tags"], int(query["limit"])
    found = [
        {"id": number, **mark} for number, mark in state.annotations.items() if tag in mark["tags"]
    ]
    return found[:limit]


@route("POST", "/api/annotations", 2)
def annotate(state: State, body: Any, **_: Any) -> Any:
    strict(body, {"time", "timeEnd", "tags", "text", "dashboardUID", "panelId"}, {"text", "tags"})
    number = len(state.annotations) + 1
    state.annotations[number] = body
    return {"message": "Annotation added", "id": number}


@route("PATCH", "/api/annotations/<number>", 2)
def change_annotation(state: State, number: str, body: Any, **_: Any) -> Any:
    strict(body, {"time", "timeEnd", "tags", "text"})
    if int(number) not in state.annotations:
        raise RefusedError(404, "Annotation not found")
    state.annotations[int(number)].update(body)
    return {"message": "Annotation patched"}


@route("DELETE", "/api/annotations/<number>", 2)
def drop_annotation(state: State, number: str, **_: Any) -> Any:
    if state.annotations.pop(int(number), None) is None:
        raise RefusedError(404, "Annotation not found")
    return {"message": "Annotation deleted"}


# -- the server ----------------------------------------------------------------------------


class _Handler(BaseHTTPRequestHandler):
    state: State

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        data = self.rfile.read(length)
        path = urlsplit(self.path).path
        with self.state.guard:
            self.state.requests.append((self.command, path))
            fault = self.state.fault(self.command, path)
        if fault is not None and fault != "lost" and self._fails(fault):
            return
        status, body = self._answer(path, data)
        if fault == "lost":
            self._reset()
            return
        self._send(status, json.dumps(body).encode() if body is not None else b"")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def _answer(self, path: str, data: bytes) -> tuple[int, Any]:
        try:
            with self.state.guard:
                return self._handled(path, data)
        except RefusedError as refusal:
            return refusal.code, refusal.body

    def _handled(self, path: str, data: bytes) -> tuple[int, Any]:
        prefix = self.state.prefix
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        for method, pattern, role, handle in _ROUTES:
            found = pattern.match(path.removeprefix(prefix)) if path.startswith(prefix) else None
            if found is None or method != self.command:
                continue
            if role and token not in _ROLES:
                raise RefusedError(401, "Invalid API key" if token else "Unauthorized")
            if role > _ROLES.get(token, 0) and role:
                raise RefusedError(
                    403, "You'll need additional permissions to perform this action"
                )
            query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
            body = json.loads(data) if data else None
            answer = handle(
                self.state, body=body, query=query, headers=self.headers, **found.groupdict()
            )
            return (204, None) if answer is None else (200, answer)
        raise RefusedError(404, "Not found")

    def _fails(self, kind: str) -> bool:
        if kind == "reset":
            self._reset()
        elif kind == "slow":
            self.state.done.wait(30)
        elif kind == "html":
            self._send(502, b"<html><body>Bad Gateway</body></html>", "text/html")
        elif kind == "login":
            self._send(200, b"<!doctype html><html>Log in</html>", "text/html")
        elif kind == "redirect":
            self._send(302, b"", "text/html", location="http://127.0.0.1:1/login")
        elif kind == "cut":
            self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"a":')
            self.close_connection = True
        else:
            status, _, text = kind.partition(" ")
            self._send(int(status), text.encode())
        return True

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def _send(
        self, status: int, data: bytes, kind: str = "application/json", location: str = ""
    ) -> None:
        # The client may have gone away meanwhile.
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def fake_grafana(release: str = "13.3.0", prefix: str = "") -> Iterator[State]:
    """A Grafana on a port of its own, empty."""
    state = State(release=release, prefix=prefix)
    handler = type("Handler", (_Handler,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        state.done.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
