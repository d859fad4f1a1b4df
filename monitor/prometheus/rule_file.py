"""The shape of a Prometheus rule file, and its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

_WHOLE = (("y", 365 * 86_400_000), ("w", 7 * 86_400_000), ("d", 86_400_000))
"""Units that are only used for times without a rest, and their milliseconds."""
_UNITS = (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that Prometheus works out ahead."""

    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alerting:
    """An alert; times are seconds."""

    name: str
    expr: str
    hold: float
    keep_firing: float
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after the other, so that later ones see earlier ones."""

    name: str
    rules: Sequence[Recording | Alerting]
    interval: float = 15.0


def span(seconds: float) -> str:
    """A time as Prometheus and Grafana show it again, such as ``30s``, ``1m30s`` and ``5d``."""
    rest = round(seconds * 1000.0)
    if not rest:
        return "0s"
    for unit, size in _WHOLE:
        if rest % size == 0:
            return f"{rest // size}{unit}"
    text = ""
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text


def render(groups: Sequence[Group], comment: str) -> str:
    """The text of a rule file that begins with ``comment``."""
    return dump({"groups": [_group(group) for group in groups]}, comment)


def dump(document: Mapping[str, Any], comment: str) -> str:
    """YAML whose long texts stand as blocks, under a comment."""
    above = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    below: str = yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10000
    )
    return above + below


def _group(group: Group) -> dict[str, Any]:
    rules = [_recording(r) if isinstance(r, Recording) else _alerting(r) for r in group.rules]
    return {"name": group.name, "interval": span(group.interval), "rules": rules}


def _recording(rule: Recording) -> dict[str, Any]:
    labels = {"labels": dict(rule.labels)} if rule.labels else {}
    return {"record": rule.record, "expr": rule.expr, **labels}


def _alerting(rule: Alerting) -> dict[str, Any]:
    times = {"for": rule.hold, "keep_firing_for": rule.keep_firing}
    return {
        "alert": rule.name,
        "expr": rule.expr,
        **{key: span(seconds) for key, seconds in times.items() if seconds > 0.0},
        "labels": dict(rule.labels),
        "annotations": dict(rule.annotations),
    }


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no anchors."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
