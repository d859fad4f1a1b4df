"""The alert rules of the daemon as rules that Grafana evaluates itself.

Prometheus keeps an alert open that is not known to be over by looking at its own alerts; Grafana
has a third answer instead: a target for which a query gives nothing keeps its state. So one query
gives 1 where the condition holds, 0 where it is known to be over, and nothing in between.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from monitor.alerting.rules import Rule
from monitor.model import ConfigError
from monitor.prometheus import promql
from monitor.prometheus.pack import alert_labels, escaped, notes
from monitor.prometheus.rule_file import Alerting, span
from monitor.prometheus.self_rules import SELF_RULES

GROUP = "speculation"
INTERVAL = 30
"""Seconds between two evaluations."""
_MOST_UID = 40
_EXPRESSION = "__expr__"
_LOOK_BACK = 600
_FIELDS: Mapping[str, str] = {
    "service": "{{ $labels.service }}",
    "target": "{{ $labels.target }}",
}
"""What a summary can show here: its templates cannot ask for more figures."""


def managed_rules(rules: Iterable[Rule], datasource: str) -> list[dict[str, Any]]:
    """All rules, without the folder and the group they belong to.

    Raises:
        ConfigError: a rule asks for what the metrics of the daemon do not show.
    """
    return [
        *(_managed(rule, datasource) for rule in rules),
        *(
            _about_itself(rule, datasource)
            for rule in SELF_RULES.rules
            if isinstance(rule, Alerting)
        ),
    ]


def rule_uid(name: str) -> str:
    """A stable uid of at most 40 characters."""
    uid = f"specdec-{name.replace('_', '-')}"
    if len(uid) <= _MOST_UID:
        return uid
    return f"{uid[: _MOST_UID - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _managed(rule: Rule, datasource: str) -> dict[str, Any]:
    try:
        holds = f"count by ({promql.BY}) (\n{promql.enters(rule)}\n)"
        over = f"0 * count by ({promql.BY}) (\n{promql.over(rule)}\n)"
    except ConfigError as error:
        raise ConfigError(f"rule {rule.id}: {error}") from None
    return _rule(
        uid=rule_uid(rule.id),
        title=f"Speculation: {rule.id.replace('_', ' ')}",
        expr=f"{holds}\nor on ({promql.BY})\n{over}",
        datasource=datasource,
        hold=rule.hold_seconds,
        keep_firing=rule.keep_firing,
        keeps_state=True,
        missing=round(rule.no_data_after / INTERVAL),
        labels=alert_labels(rule),
        annotations={"summary": short_summary(rule), **notes(rule)},
    )


def _about_itself(rule: Alerting, datasource: str) -> dict[str, Any]:
    # "MonitorLoopStuck" is "monitor loop stuck".
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", rule.name).lower()
    return _rule(
        uid=rule_uid(words.replace(" ", "-")),
        title=f"Speculation: {words}",
        expr=f"count by (service, target, instance) (\n{rule.expr}\n)",
        datasource=datasource,
        hold=rule.hold,
        keep_firing=rule.keep_firing,
        keeps_state=False,
        missing=1,
        labels=rule.labels,
        annotations={**rule.annotations, "summary": _without_value(rule.annotations["summary"])},
    )


def short_summary(rule: Rule) -> str:
    """The summary up to the first figure, which Grafana's templates cannot look up."""
    kept = []
    for clause in escaped(rule.summary).split(", "):
        fields = set(re.findall(r"\$\{?(\w+)", clause.replace("$$", "")))
        if fields - _FIELDS.keys():
            break
        kept.append(clause)
    text = ", ".join(kept) or f"$target: {rule.id.replace('_', ' ')}"
    for name, shown in _FIELDS.items():
        text = re.sub(rf"\$({name}\b|{{{name}}})", shown, text)
    return text.replace("$$", "$")


def _without_value(summary: str) -> str:
    said = re.sub(r"( for)? ?\{\{ \$value[^}]*\}\} ?", " ", summary).strip()
    return said[:1].upper() + said[1:]


def _rule(
    *,
    uid: str,
    title: str,
    expr: str,
    datasource: str,
    hold: float,
    keep_firing: float,
    keeps_state: bool,
    missing: int,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> dict[str, Any]:
    return {
        "uid": uid,
        "title": title,
        "condition": "B",
        "data": [_query(expr, datasource), _threshold()],
        "noDataState": "KeepLast" if keeps_state else "OK",
        "execErrState": "KeepLast" if keeps_state else "Error",
        "for": span(hold),
        "keep_firing_for": span(keep_firing),
        "missingSeriesEvalsToResolve": missing,
        "annotations": dict(annotations),
        "labels": dict(labels),
        "isPaused": False,
    }


def _query(expr: str, datasource: str) -> dict[str, Any]:
    return {
        "refId": "A",
        "relativeTimeRange": {"from": _LOOK_BACK, "to": 0},
        "datasourceUid": datasource,
        "model": {"refId": "A", "expr": expr, "instant": True, "range": False},
    }


def _threshold() -> dict[str, Any]:
    above = {"evaluator": {"type": "gt", "params": [0]}}
    return {
        "refId": "B",
        "relativeTimeRange": {"from": 0, "to": 0},
        "datasourceUid": _EXPRESSION,
        "model": {
            "refId": "B",
            "type": "threshold",
            "expression": "A",
            "datasource": {"type": _EXPRESSION, "uid": _EXPRESSION},
            "conditions": [above],
        },
    }
