"""What Alertmanager does with the alerts: who is told, reminders, and what is muted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from monitor.alerting.model import Severity
from monitor.alerting.rules import EVERYTHING, Rule
from monitor.prometheus.rule_file import span

_ABOUT = ["service", "target", "instance"]
"""Alerts about the same server agree in these; what neither of two has counts as equal."""
_LONGEST = 120 * 3600.0
"""Alertmanager forgets after this time, by default, that it has told of an alert."""


def alertmanager_config(rules: Iterable[Rule]) -> dict[str, Any]:
    """An example of a whole configuration; only the receivers have to be filled in."""
    rules = list(rules)
    return {
        "route": {
            "receiver": "team",
            "group_by": ["rule", "service"],
            "group_wait": "15s",
            "group_interval": "1m",
            "repeat_interval": "4h",
            "routes": [
                {"matchers": [f'severity="{Severity.CRITICAL}"'], "receiver": "oncall"},
                *_reminders(rules),
            ],
        },
        "inhibit_rules": [_muting(rule) for rule in rules if rule.mutes],
        "receivers": [
            {"name": name, "webhook_configs": [{"url": f"http://127.0.0.1:5001/{name}"}]}
            for name in ("team", "oncall")
        ],
    }


def _reminders(rules: Sequence[Rule]) -> list[Mapping[str, Any]]:
    """Routes of the rules that remind less often than others."""
    rarely: dict[str, list[str]] = {}
    for rule in rules:
        seconds = _LONGEST if rule.repeat is None else min(rule.repeat.every, _LONGEST)
        if rule.severity is not Severity.CRITICAL and span(seconds) != "4h":
            rarely.setdefault(span(seconds), []).append(rule.id)
    return [
        {"matchers": [f'rule=~"{"|".join(ids)}"'], "receiver": "team", "repeat_interval": every}
        for every, ids in rarely.items()
    ]


def _muting(rule: Rule) -> Mapping[str, Any]:
    muted = ".+" if EVERYTHING in rule.mutes else "|".join(rule.mutes)
    return {
        "source_matchers": [f'rule="{rule.id}"'],
        "target_matchers": [f'rule=~"{muted}"', f'rule!="{rule.id}"'],
        "equal": _ABOUT,
    }
