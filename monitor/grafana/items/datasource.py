"""Data sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pydantic import SecretStr

from monitor.grafana.client import Grafana
from monitor.grafana.compare import differences
from monitor.grafana.items.base import Act, Change, Item, entry
from monitor.model import GrafanaError


@dataclass(frozen=True, slots=True)
class Datasource(Item):
    """A data source under a uid of ours."""

    body: Mapping[str, Any]
    secrets: Mapping[str, SecretStr]

    def look(self, grafana: Grafana, *, force: bool) -> Change:
        """What would be done about it."""
        found = self._found(grafana)
        if found is None:
            return self._change(Act.CREATE)
        lines = tuple(differences(found, self.body))
        known = found.get("secureJsonFields")
        set_already = known if isinstance(known, dict) else {}
        lines += tuple(
            f"secureJsonData.{name}: {'set again' if force else 'nothing → set'}"
            for name in self.secrets
            if force or not set_already.get(name)
        )
        if not lines:
            return self._change(Act.UNCHANGED)
        if found.get("readOnly") is True:
            return self._change(Act.REFUSED, "it comes from a file: change that", lines)
        return self._change(Act.UPDATE, "", lines, found)

    def put(self, grafana: Grafana, change: Change) -> None:
        """Makes or changes it; settings of others stay."""
        secrets = {name: secret.get_secret_value() for name, secret in self.secrets.items()}
        body = {**self.body, "secureJsonData": secrets} if secrets else dict(self.body)
        if change.act is Act.CREATE:
            try:
                grafana.post("/api/datasources", body, self._what)
            except GrafanaError:
                # A first try may have made it although its answer was lost.
                if self._found(grafana) is None:
                    raise
            return
        own = change.found.get("jsonData")
        settings = {**(own if isinstance(own, dict) else {}), **self.body["jsonData"]}
        kept = {key: change.found[key] for key in _KEPT if key in change.found}
        body = {**kept, **body, "jsonData": settings}
        grafana.put(f"/api/datasources/uid/{quote(self.uid)}", body, self._what)

    def look_to_remove(self, grafana: Grafana, *, force: bool) -> Change:  # noqa: ARG002
        """Whether it is there and may go."""
        found = self._found(grafana)
        if found is None:
            return self._change(Act.ABSENT)
        if found.get("readOnly") is True:
            return self._change(Act.REFUSED, "it comes from a file: take that away")
        return self._change(Act.REMOVE)

    def remove(self, grafana: Grafana) -> None:
        """Takes it away."""
        grafana.delete(f"/api/datasources/uid/{quote(self.uid)}", self._what)

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self.body["uid"])

    def _found(self, grafana: Grafana) -> dict[str, Any] | None:
        path = f"/api/datasources/uid/{quote(self.uid)}"
        return entry(grafana.find(path, self._what), self._what)

    @property
    def kind(self) -> str:
        """What it is, for people."""
        return "data source"

    @property
    def name(self) -> str:
        """Its name, for people."""
        return self.uid


_KEPT = ("isDefault", "basicAuth", "basicAuthUser", "withCredentials", "user", "database")
"""What an update that does not give it would reset."""
