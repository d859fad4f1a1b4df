"""A notifier for each kind of receiver."""

from __future__ import annotations

from monitor.alerting.notifiers.alertmanager import Alertmanager
from monitor.alerting.notifiers.apprise import Apprise
from monitor.alerting.notifiers.base import Notifier
from monitor.alerting.notifiers.command import Command
from monitor.alerting.notifiers.webhook import Webhook
from monitor.alerting.receivers import (
    AlertmanagerSettings,
    AppriseSettings,
    ReceiverSettings,
    WebhookSettings,
    secrets_of,
)
from monitor.logs import REDACTOR


def make_notifier(settings: ReceiverSettings) -> Notifier:
    """The notifier for a receiver, whose secrets the redactor knows from here on."""
    REDACTOR.learn(secrets_of(settings))
    kind = settings.kind
    if isinstance(kind, WebhookSettings):
        return Webhook(settings, kind)
    if isinstance(kind, AlertmanagerSettings):
        return Alertmanager(settings, kind)
    if isinstance(kind, AppriseSettings):
        return Apprise(settings, kind)
    return Command(settings, kind)
