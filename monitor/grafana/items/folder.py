"""The folder that everything is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from monitor.grafana.client import Grafana
from monitor.grafana.items.base import Act, Change, Item, entries, entry
from monitor.grafana.wanted import FOLDER_TITLE
from monitor.model import GrafanaError


@dataclass(frozen=True, slots=True)
class Folder(Item):
    """The folder of everything. A title that somebody has changed is left as it is."""

    uid: str
    keeps: frozenset[str] = frozenset()
    """Uids of what may be in it when it is removed."""

    def look(self, grafana: Grafana, *, force: bool) -> Change:  # noqa: ARG002
        """What would be done about it."""
        found = self._found(grafana)
        if found is None:
            return self._change(Act.CREATE)
        title = found.get("title")
        renamed = "" if title == FOLDER_TITLE else f"it is called {title!r} here, which stays"
        return self._change(Act.UNCHANGED, renamed)

    def put(self, grafana: Grafana, change: Change) -> None:  # noqa: ARG002
        """Makes it."""
        body = {"uid": self.uid, "title": FOLDER_TITLE}
        try:
            grafana.post("/api/folders", body, self._what)
        except GrafanaError:
            # A first try may have made it although its answer was lost.
            if self._found(grafana) is None:
                raise

    def look_to_remove(self, grafana: Grafana, *, force: bool) -> Change:  # noqa: ARG002
        """Whether it is there, and holds nothing of others."""
        if self._found(grafana) is None:
            return self._change(Act.ABSENT)
        search = f"/api/search?folderUIDs={quote(self.uid)}&limit=1000"
        inside = entries(grafana.get(search, self._what), self._what)
        others = sorted(str(i.get("title")) for i in inside if i.get("uid") not in self.keeps)
        if others:
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            return self._change(Act.REFUSED, f"it holds {others[0]!r}{more} of others")
        return self._change(Act.REMOVE)

    def remove(self, grafana: Grafana) -> None:
        """Takes it away; Grafana refuses where alert rules of others are in it."""
        grafana.delete(f"/api/folders/{quote(self.uid)}", self._what)

    def _found(self, grafana: Grafana) -> dict[str, Any] | None:
        return entry(grafana.find(f"/api/folders/{quote(self.uid)}", self._what), self._what)

    @property
    def kind(self) -> str:
        """What it is, for people."""
        return "folder"

    @property
    def name(self) -> str:
        """Its name, for people."""
        return self.uid
