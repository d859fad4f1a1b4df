"""A webhook: our JSON or that of Alertmanager, signed in the Standard Webhooks way."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.alerting import payload
from monitor.alerting.model import Notification
from monitor.alerting.notifiers.base import Message
from monitor.alerting.notifiers.http import HttpClient
from monitor.alerting.receivers import ReceiverSettings, WebhookFormat, WebhookSettings
from monitor.alerting.signing import decode_key, sign


class Webhook:
    """Posts to a URL."""

    keep_alive_seconds: float | None = None

    def __init__(self, settings: ReceiverSettings, kind: WebhookSettings) -> None:
        self._name = settings.name
        self._kind = kind
        self._keys = [decode_key(key.get_secret_value()) for key in kind.keys]
        self._client = HttpClient(settings.timeout, kind)

    def send(self, message: Message, now: float) -> str:
        """Posts the message; the status is the answer."""
        body = self._body(message)
        key = payload.message_id(message.notification)
        timestamp = int(now)
        headers = {"webhook-id": key, "webhook-timestamp": str(timestamp)}
        if self._keys:
            headers["webhook-signature"] = sign(self._keys, key, timestamp, body)
        return self._client.post(self._kind.url.get_secret_value(), body, headers, now)

    def keep_alive(self, firing: Sequence[Notification], now: float) -> None:
        """Nothing: who was told remembers."""

    def close(self) -> None:
        """Closes the session."""
        self._client.close()

    def _body(self, message: Message) -> bytes:
        if self._kind.format is WebhookFormat.MONITOR:
            return payload.body(message.notification, test=message.test)
        return payload.encode(
            payload.alertmanager_webhook(message.notification, self._name, test=message.test)
        )
