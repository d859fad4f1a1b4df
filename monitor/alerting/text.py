"""A notification as text for people: in a chat, in a mail, on a pager."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from monitor.alerting.documents import redacted
from monitor.alerting.model import Notification, Reason, State
from monitor.alerting.payload import commands, plain

MAX_TITLE = 200
MAX_BODY = 3_500
"""Below what the narrowest of the usual services take."""

_ACTIONS = {
    "roll_back": "move traffic to the service without speculation",
    "restart": "restart the server",
    "lower_k": "lower the number of draft tokens",
    "check_output": "check what the server answers",
    "check_load": "check the load",
    "check_config": "check the server's configuration",
    "fix_monitoring": "mend the monitoring",
}


def title(notification: Notification, *, test: bool = False) -> str:
    """One line that says how urgent it is, and what it is about."""
    n = notification
    word = n.severity.value.upper()
    if n.state is State.RESOLVED:
        word = "RESOLVED"
    elif n.reason is Reason.FLAPPING:
        word = "FLAPPING"
    elif n.reason is Reason.NO_DATA:
        word = "NO DATA"
    elif n.reason is Reason.REPEAT:
        word = f"{word}, still"
    start = f"[TEST] [{word}]" if test else f"[{word}]"
    return str(redacted(plain(f"{start} {n.title}", MAX_TITLE)))


def body(notification: Notification, *, test: bool = False) -> str:
    """The sentence, the figures, since when, why, what to do, and where to look."""
    lines = [str(redacted(line)) for line in _lines(notification, test=test)]
    text = "\n".join(lines)
    return text if len(text) <= MAX_BODY else text[: MAX_BODY - 1] + "…"


def _lines(n: Notification, *, test: bool) -> Iterator[str]:
    if test:
        yield "This is a test; nothing is wrong."
    yield plain(n.sentence)
    yield ""
    target = f", target {n.target}" if n.target else ""
    yield plain(f"Service {n.service}{target}{_model(n)}, rule {n.rule}")
    yield from _figures(n.assessment)
    yield _since(n)
    if n.cause:
        yield f"Cause: {plain(n.cause).replace('_', ' ')}"
    if n.action in _ACTIONS and n.state is not State.RESOLVED:
        yield f"What to do: {_ACTIONS[n.action]}"
    if n.runbook:
        yield f"Runbook: {plain(n.runbook)}"
    if n.votes_for_rollback:
        yield "This alert counts as a vote for a rollback."
    yield ""
    yield "Look closer:"
    yield from (f"  {command}" for command in commands(n))


def _model(n: Notification) -> str:
    model = n.assessment.get("model")
    return f", model {model}" if isinstance(model, str) else ""


def _figures(assessment: Mapping[str, Any]) -> Iterator[str]:
    yield from _figure("Acceptance rate", assessment.get("acceptance_rate"), 100.0, " %")
    yield from _figure("Acceptance length", assessment.get("acceptance_length"), 1.0, "")
    yield from _figure("Speedup", assessment.get("speedup"), 1.0, "x")
    even = assessment.get("break_even")
    if isinstance(even, Mapping) and _is_number(even.get("acceptance_length")):
        yield f"Pays from an acceptance length of {even['acceptance_length']:.2f}"
    load = assessment.get("load")
    if isinstance(load, Mapping) and _is_number(load.get("running")):
        yield f"Load: {load['running']:.1f} running requests"


def _figure(name: str, estimate: object, scale: float, unit: str) -> Iterator[str]:
    if not isinstance(estimate, Mapping) or not _is_number(estimate.get("value")):
        return
    value, low, high = (estimate.get(part) for part in ("value", "low", "high"))
    line = f"{name}: {scale * float(value or 0.0):.3g}{unit}"
    if _is_number(low) and _is_number(high):
        line += f" ({scale * float(low or 0.0):.3g} to {scale * float(high or 0.0):.3g}{unit})"
    yield line


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _since(n: Notification) -> str:
    if n.ended_at is None:
        return f"Since {_time(n.started_at)}"
    return f"From {_time(n.started_at)} to {_time(n.ended_at)}"


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
