"""Dashboards.

Whether somebody has edited one since is told by the message of its latest version, not by its
content: Grafana rewrites what it stores.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from monitor.grafana.client import Grafana
from monitor.grafana.compare import differences
from monitor.grafana.items.base import Act, Change, Item, entries, entry, odd
from monitor.model import GrafanaError

MARK = "monitor grafana apply"
"""Begins the message of every version of a dashboard that is ours."""


@dataclass(frozen=True, slots=True)
class Dashboard(Item):
    """A dashboard under a uid of ours."""

    body: Mapping[str, Any]
    folder: str

    def look(self, grafana: Grafana, *, force: bool) -> Change:
        """What would be done about it."""
        found = self._found(grafana)
        if found is None:
            return self._change(Act.CREATE)
        lines = tuple(differences(found["dashboard"], self.body))
        message = self._latest_message(grafana)
        if not lines or message == self._message:
            return self._change(Act.UNCHANGED)
        if found["meta"].get("provisioned") is True:
            return self._change(Act.REFUSED, "it comes from a file: change that", lines)
        if not message.startswith(MARK) and not force:
            return self._change(Act.REFUSED, f"{_EDITED}; --force overwrites it", lines)
        return self._change(Act.UPDATE, "", lines, found)

    def put(self, grafana: Grafana, change: Change) -> None:
        """Makes a version of it; one that somebody made meanwhile is not overwritten."""
        meta = change.found["meta"] if change.found is not None else {}
        before = change.found["dashboard"].get("version") if change.found is not None else None
        body = {
            "dashboard": {**self.body, "id": None}
            | ({} if before is None else {"version": before}),
            # Where somebody has moved it, it stays.
            "folderUid": meta.get("folderUid", self.folder),
            "message": self._message,
            "overwrite": False,
        }
        try:
            grafana.post("/api/dashboards/db", body, self._what)
        except GrafanaError as error:
            # A first try may have stored it although its answer was lost.
            if error.status != _PRECONDITION or self._latest_message(grafana) != self._message:
                raise

    def look_to_remove(self, grafana: Grafana, *, force: bool) -> Change:
        """Whether it is there and ours."""
        found = self._found(grafana)
        if found is None:
            return self._change(Act.ABSENT)
        if found["meta"].get("provisioned") is True:
            return self._change(Act.REFUSED, "it comes from a file: take that away")
        if not force and not self._latest_message(grafana).startswith(MARK):
            return self._change(Act.REFUSED, f"{_EDITED}; --force removes it")
        return self._change(Act.REMOVE)

    def remove(self, grafana: Grafana) -> None:
        """Takes it away."""
        grafana.delete(f"/api/dashboards/uid/{quote(self.uid)}", self._what)

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self.body["uid"])

    @property
    def _message(self) -> str:
        text = json.dumps(self.body, sort_keys=True, separators=(",", ":"))
        return f"{MARK}, {hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def _found(self, grafana: Grafana) -> dict[str, Any] | None:
        path = f"/api/dashboards/uid/{quote(self.uid)}"
        found = entry(grafana.find(path, self._what), self._what)
        if found is not None and not all(
            isinstance(found.get(key), dict) for key in ("dashboard", "meta")
        ):
            raise odd(self._what)
        return found

    def _latest_message(self, grafana: Grafana) -> str:
        """The message of the latest version; empty where there is none."""
        path = f"/api/dashboards/uid/{quote(self.uid)}/versions?limit=1"
        answer = grafana.find(path, self._what)
        # Grafana 11 and later wrap the list.
        versions = answer.get("versions") if isinstance(answer, dict) else answer
        latest = entries(versions or [], self._what)
        return str(latest[0].get("message") or "") if latest else ""

    @property
    def kind(self) -> str:
        """What it is, for people."""
        return "dashboard"

    @property
    def name(self) -> str:
        """Its name, for people."""
        return self.uid


_EDITED = "somebody has edited it since, or it was not made by this program"
_PRECONDITION = 412
