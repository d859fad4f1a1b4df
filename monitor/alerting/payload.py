"""What receivers get: our JSON, or that of Alertmanager's webhooks.

Nothing is rendered through a template engine: labels and sentences come from pages of others.
They are put into JSON by a JSON writer, in one line each, without control characters.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from monitor.alerting import wording
from monitor.alerting.documents import redacted
from monitor.alerting.model import Notification, State
from monitor.report import iso

SCHEMA = "monitor.notification/1"
MAX_BYTES = 128 * 1024
"""A larger payload goes without the assessment."""
_SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_TEXT = 2_000
_LABEL_LENGTH = 200
_ZERO_TIME = "0001-01-01T00:00:00Z"


def message_id(notification: Notification) -> str:
    """Names a message in all attempts and at all receivers, in characters safe for a header.

    There is no dot in it, which is what signatures are made over parts with.
    """
    incident = notification.incident
    if not _SAFE_ID.fullmatch(incident):
        incident = hashlib.sha256(incident.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{incident}-{notification.sequence}"


def payload(notification: Notification, *, test: bool = False) -> dict[str, Any]:
    """Our own document, as ``alerts/schema/notification-v1.json`` describes it."""
    n = notification
    model = n.assessment.get("model")
    document = {
        "schema": SCHEMA,
        "id": message_id(n),
        "incident": plain(n.incident),
        "sequence": n.sequence,
        "test": test,
        "at": iso(n.at),
        "reason": n.reason.value,
        "state": n.state.value,
        "rule": plain(n.rule),
        "severity": n.severity.value,
        "service": plain(n.service),
        "target": plain(n.target),
        "model": plain(model) if isinstance(model, str) else None,
        "labels": _labels(n.labels),
        "started_at": iso(n.started_at),
        "ended_at": None if n.ended_at is None else iso(n.ended_at),
        "title": plain(n.title),
        "sentence": plain(n.sentence),
        "cause": None if n.cause is None else plain(n.cause),
        "action": plain(n.action),
        "runbook": None if n.runbook is None else plain(n.runbook),
        "votes_for_rollback": n.votes_for_rollback,
        "commands": commands(n),
        "assessment": _plain_values(n.assessment),
    }
    clean: dict[str, Any] = redacted(document)
    return clean


def body(notification: Notification, *, test: bool = False) -> bytes:
    """Our own document as bytes of a bounded number."""
    document = payload(notification, test=test)
    data = encode(document)
    return data if len(data) <= MAX_BYTES else encode({**document, "assessment": {}})


def encode(document: object) -> bytes:
    """JSON in UTF-8; NaN would not be JSON and is an error."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


def commands(notification: Notification) -> list[str]:
    """What to type to look closer; shown to people, never run by us."""
    n = notification
    first = f"monitor alerts show {_quoted(n.incident)}"
    if n.target:
        return [first, f"monitor history --target {_quoted(n.target)} --start -1h"]
    # What is about a whole service is a rollback.
    plan = n.labels.get("plan", "")
    return [first, f"monitor rollback show {_quoted(plan)}" if plan else "monitor rollback list"]


def alertmanager_webhook(
    notification: Notification, receiver: str, *, test: bool = False
) -> dict[str, Any]:
    """The body of Alertmanager's own webhooks, version 4, with one alert."""
    n = notification
    labels, annotations = alert_labels(n), alert_annotations(n, test=test)
    status = "resolved" if n.state is State.RESOLVED else "firing"
    group = {name: labels[name] for name in ("alertname", "service") if name in labels}
    alert = {
        "status": status,
        "labels": labels,
        "annotations": annotations,
        "startsAt": iso(n.started_at),
        "endsAt": _ZERO_TIME if n.ended_at is None else iso(n.ended_at),
        "generatorURL": "",
        "fingerprint": _fingerprint(labels),
    }
    return {
        "version": "4",
        "groupKey": f"{{}}:{{incident={encode(plain(n.incident)).decode()}}}",
        "truncatedAlerts": 0,
        "receiver": receiver,
        "status": status,
        "notification_reason": n.reason.value,
        "alerts": [alert],
        "groupLabels": group,
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": "",
    }


def alert_labels(notification: Notification) -> dict[str, str]:
    """The labels by which Alertmanager knows an alert; the same from its begin to its end."""
    n = notification
    own = {
        "alertname": n.rule,
        "severity": n.severity.value,
        "service": n.service,
        "target": n.target,
        "job": "specdec-monitor",
    }
    labels = {**_labels(n.labels), **own}
    named = {_label_name(name): plain(value, _LABEL_LENGTH) for name, value in labels.items()}
    # An empty label is a missing one there.
    return redacted({name: value for name, value in named.items() if value})  # type: ignore[no-any-return]


def alert_annotations(notification: Notification, *, test: bool = False) -> dict[str, str]:
    """What Alertmanager shows with an alert."""
    n = notification
    texts = {
        "summary": f"[TEST] {n.title}" if test else n.title,
        "description": n.sentence,
        "cause": n.cause or "",
        "action": n.action,
        "reason": n.reason.value,
        "incident": n.incident,
        "runbook_url": n.runbook or "",
    }
    return redacted({name: plain(text) for name, text in texts.items() if text})  # type: ignore[no-any-return]


def plain(text: str, length: int = _TEXT) -> str:
    """Text of others in one line: no control characters, none that turn the writing round."""
    return wording.plain(text[: length + 1], length)


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {
        plain(name, _LABEL_LENGTH): plain(str(text), _LABEL_LENGTH)
        for name, text in labels.items()
    }


def _label_name(name: str) -> str:
    return name if _LABEL.fullmatch(name) else re.sub(r"[^a-zA-Z0-9_]|^(?=\d)", "_", name)


def _plain_values(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(str(name)): _plain_values(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_values(item) for item in value]
    return value


def _fingerprint(labels: Mapping[str, str]) -> str:
    return hashlib.sha256(encode(sorted(labels.items()))).hexdigest()[:16]


def _quoted(text: str) -> str:
    """An argument as a shell takes it, whatever is in it."""
    return shlex.quote(plain(text, _LABEL_LENGTH))
