"""The group of alert rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from monitor.grafana.client import Grafana
from monitor.grafana.compare import differences
from monitor.grafana.items.base import Act, Change, Item, entries, entry
from monitor.grafana.managed import GROUP
from monitor.grafana.wanted import rule_group


@dataclass(frozen=True, slots=True)
class Rules(Item):
    """The group of alert rules, which Grafana stores as a whole."""

    rules: Sequence[Mapping[str, Any]]
    folder: str

    def look(self, grafana: Grafana, *, force: bool) -> Change:
        """What would be done about it."""
        found = self._found(grafana)
        if found is None:
            return self._change(Act.CREATE)
        # Whoever has paused a rule wants it paused.
        wanted = rule_group(self._paused_as_found(found), self.folder)
        lines = tuple(differences(_by_uid(found), _as_known(_by_uid(wanted), _by_uid(found))))
        ours = {rule["uid"] for rule in self.rules}
        others = [r for r in found["rules"] if r.get("uid") not in ours]
        if lines and any(rule.get("provenance") == "file" for rule in found["rules"]):
            return self._change(Act.REFUSED, "they come from a file: change that", lines)
        foreign = [r for r in others if not str(r.get("uid")).startswith(_OURS)]
        if foreign and not force:
            reason = f"it holds the rule {foreign[0].get('title')!r} of others; --force drops it"
            return self._change(Act.REFUSED, reason, lines)
        lines += tuple(f"rule {r.get('title')!r}: taken away" for r in others)
        if not lines:
            return self._change(Act.UNCHANGED)
        return self._change(Act.UPDATE, "", lines, found)

    def put(self, grafana: Grafana, change: Change) -> None:
        """Stores the whole group."""
        rules = self.rules if change.found is None else self._paused_as_found(change.found)
        grafana.put(self._path, rule_group(rules, self.folder), self._what)

    def look_to_remove(self, grafana: Grafana, *, force: bool) -> Change:
        """Whether it is there and holds nothing of others."""
        found = self._found(grafana)
        if found is None:
            return self._change(Act.ABSENT)
        foreign = [r for r in found["rules"] if not str(r.get("uid")).startswith(_OURS)]
        if foreign and not force:
            reason = f"it holds the rule {foreign[0].get('title')!r} of others; --force drops it"
            return self._change(Act.REFUSED, reason)
        return self._change(Act.REMOVE)

    def remove(self, grafana: Grafana) -> None:
        """Takes the whole group away."""
        grafana.delete(self._path, self._what)

    def _paused_as_found(self, found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        paused = {rule.get("uid") for rule in found["rules"] if rule.get("isPaused") is True}
        return [{**rule, "isPaused": rule["uid"] in paused} for rule in self.rules]

    def _found(self, grafana: Grafana) -> dict[str, Any] | None:
        found = entry(grafana.find(self._path, self._what), self._what)
        if found is not None:
            # A group without rules is none.
            rules = entries(found.get("rules") or [], self._what)
            return {**found, "rules": rules} if rules else None
        return None

    @property
    def _path(self) -> str:
        return f"/api/v1/provisioning/folder/{quote(self.folder)}/rule-groups/{GROUP}"

    @property
    def kind(self) -> str:
        """What it is, for people."""
        return "alert rules"

    @property
    def name(self) -> str:
        """Its name, for people."""
        return GROUP


_OURS = "specdec-"


def _by_uid(group: Mapping[str, Any]) -> dict[str, Any]:
    """A group in which rules are compared by uid, whatever their order."""
    return {**group, "rules": {str(rule.get("uid")): rule for rule in group["rules"]}}


def _as_known(wanted: dict[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Without what an older Grafana does not store, and so never shows."""
    rules = {
        uid: {
            k: v for k, v in rule.items() if k not in _NEWER or k in found["rules"].get(uid, {k})
        }
        for uid, rule in wanted["rules"].items()
    }
    return {**wanted, "rules": rules}


_NEWER = ("keep_firing_for", "missingSeriesEvalsToResolve")
