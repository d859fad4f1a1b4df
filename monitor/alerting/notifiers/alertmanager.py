"""The API of an Alertmanager, version 2.

It takes an alert for over when it has not heard of it for some time, so that alerts which fire
are said again every minute, until their end is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monitor.alerting import payload
from monitor.alerting.model import Notification, Reason, Severity, State
from monitor.alerting.notifiers.base import Message
from monitor.alerting.notifiers.http import HttpClient
from monitor.alerting.receivers import AlertmanagerSettings, ReceiverSettings
from monitor.report import iso

KEEP_ALIVE_SECONDS = 60.0
FORGOTTEN_SECONDS = 300.0
"""How long after the last word of us an alert counts as over."""
_TEST_SECONDS = 60.0
_BATCH = 200


class Alertmanager:
    """Posts alerts to ``/api/v2/alerts``."""

    keep_alive_seconds: float | None = KEEP_ALIVE_SECONDS

    def __init__(self, settings: ReceiverSettings, kind: AlertmanagerSettings) -> None:
        self._url = f"{kind.url.get_secret_value().rstrip('/')}/api/v2/alerts"
        self._client = HttpClient(settings.timeout, kind)

    def send(self, message: Message, now: float) -> str:
        """Posts the alert as it stands, or its end."""
        n = message.notification
        ends_at = _ends_at(n, now + (_TEST_SECONDS if message.test else FORGOTTEN_SECONDS), now)
        alerts = [_alert(n, ends_at, test=message.test)]
        if n.reason in (Reason.SEVERITY, Reason.RESOLVED):
            # There the severity is part of an alert's name: what was told of the same incident
            # under another one is over.
            alerts += [_alert(n, now, severity=s) for s in Severity if s is not n.severity]
        return self._post(alerts, now)

    def keep_alive(self, firing: Sequence[Notification], now: float) -> None:
        """Says again what fires."""
        for start in range(0, len(firing), _BATCH):
            batch = firing[start : start + _BATCH]
            self._post([_alert(n, now + FORGOTTEN_SECONDS) for n in batch], now)

    def close(self) -> None:
        """Closes the session."""
        self._client.close()

    def _post(self, alerts: list[dict[str, Any]], now: float) -> str:
        return self._client.post(self._url, payload.encode(alerts), {}, now)


def _ends_at(n: Notification, fires_until: float, now: float) -> float:
    if n.state is not State.RESOLVED:
        return fires_until
    return min(now, n.ended_at) if n.ended_at is not None else now


def _alert(
    n: Notification, ends_at: float, *, severity: Severity | None = None, test: bool = False
) -> dict[str, Any]:
    labels = payload.alert_labels(n)
    if severity is not None:
        labels["severity"] = severity.value
    return {
        "labels": labels,
        "annotations": payload.alert_annotations(n, test=test),
        # An end before the beginning is refused.
        "startsAt": iso(min(n.started_at, ends_at)),
        "endsAt": iso(ends_at),
    }
