"""The table of ``monitor status``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from monitor.cli.render import print_rich, text, verdict_text
from monitor.cli.times import parse_time
from monitor.config.values import format_duration

_NAME = 60
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


def print_services(services: Sequence[Mapping[str, Any]], now: float) -> None:
    """One line for each service and, below it, two for each of its targets."""
    if not services:
        print_rich(text("nothing is watched yet: 'monitor run' fills the database"))
        return
    print_rich(*(_service(service, now) for service in services))


def _service(service: Mapping[str, Any], now: float) -> Group:
    line = Text().append_text(verdict_text(service["verdict"]))
    line.append_text(text(f"  {service['service']}", "bold", _NAME))
    if service["since"]:
        line.append_text(text(f"  for {format_age(service['since'], now)}", "dim"))
    rollback = service["rollback"]
    moved = () if rollback["state"] == "idle" else (_rollback(rollback, now),)
    alerts = (_alert(alert, now) for alert in service["alerts"])
    targets = (_target(target, now) for target in service["targets"])
    return Group(line, *targets, *alerts, *moved, Text())


def _alert(alert: Mapping[str, Any], now: float) -> Padding:
    """An alert that fires; its incident is what other commands take."""
    said = text(f"alert {alert['rule']} ({alert['severity']})", "bold")
    said.append_text(text(f" about {alert['target']}", limit=_NAME))
    said.append_text(text(f"  for {format_age(alert['since'], now)}, {alert['incident'][:12]}"))
    return Padding(said, (0, 0, 0, 2))


def _rollback(rollback: Mapping[str, Any], now: float) -> Padding:
    """Where a rollback stands; nothing is said of a service that is only watched for one."""
    said = f"rollback {rollback['state']}, mode {rollback['mode']}"
    if rollback["baseline_share"]:
        said += f", {100.0 * rollback['baseline_share']:.4g} % at the baseline side"
    if rollback["since"]:
        said += f", for {format_age(rollback['since'], now)}"
    parts = [text(said, "bold")]
    if rollback["why"]:
        parts.append(text(rollback["why"]))
    return Padding(Group(*parts), (0, 0, 0, 2))


def _target(target: Mapping[str, Any], now: float) -> Padding:
    line = Text().append_text(text(target["target"], limit=_NAME))
    line.append_text(text("  ")).append_text(verdict_text(target["verdict"]))
    seen = f"looked at {format_age(target['at'], now)} ago" if target["at"] else "never looked at"
    line.append_text(text(f"  {seen}", "yellow" if target["stale"] else "dim"))
    parts = [line, text(target["sentence"])]
    if baseline := target.get("baseline"):
        parts.append(_baseline(baseline))
    if target.get("action", "none") != "none":
        parts.append(text(f"do: {target['action'].replace('_', ' ')}", "bold"))
    if target["problem"] and target["problem"] not in target["sentence"]:
        parts.append(text(target["problem"], "yellow"))
    return Padding(Group(*parts), (0, 0, 0, 2))


def _baseline(baseline: Mapping[str, Any]) -> Text:
    if baseline["matches"]:
        return text(f"compared with {baseline['name']}", "dim", _NAME)
    return text(f"not compared with {baseline['name']}: another kind of server", "yellow", _NAME)


def format_age(at: str, now: float) -> str:
    """A duration in its largest unit, as people say it."""
    seconds = max(0.0, now - parse_time(at))
    for unit in (_HOUR, _MINUTE):
        if seconds >= unit:
            return format_duration(seconds // unit * unit) if seconds < _DAY else _days(seconds)
    return f"{seconds:.0f}s"


def _days(seconds: float) -> str:
    return f"{seconds // _DAY:.0f}d"
