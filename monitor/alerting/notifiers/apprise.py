"""Any of the services that Apprise knows: chats, mail, pagers.

Each message is sent by a process of its own. Apprise makes its connections itself, with
timeouts for single reads only; in a process they can be given one deadline, checked addresses,
no redirects, and neither proxies nor passwords from the environment.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from monitor import child
from monitor.alerting import payload, text
from monitor.alerting.model import Notification, Severity, State
from monitor.alerting.notifiers.base import Message
from monitor.alerting.receivers import AppriseSettings, ReceiverSettings
from monitor.model import DeliveryError

_START_SECONDS = 20.0
"""What the process may take to begin, on a busy machine, beside the time to send."""


class Apprise:
    """Sends text for people to the service behind a URL."""

    keep_alive_seconds: float | None = None

    def __init__(self, settings: ReceiverSettings, kind: AppriseSettings) -> None:
        self._url = kind.url
        self._timeout = settings.timeout

    def send(self, message: Message, now: float) -> str:  # noqa: ARG002 - as all notifiers
        """Sends title and text."""
        n = message.notification
        # Through the standard input, because arguments can be seen by every user.
        given = {
            "url": self._url.get_secret_value(),
            "title": text.title(n, test=message.test),
            "body": text.body(n, test=message.test),
            "type": _kind(n),
            "timeout": self._timeout,
        }
        arguments = (sys.executable, "-m", "monitor.alerting.notifiers.apprise_process")
        paths = os.pathsep.join(path for path in sys.path if path)
        environ = {**child.environment(()), "PYTHONPATH": paths, "HOME": os.devnull}
        seconds = self._timeout + _START_SECONDS
        try:
            return _read(child.run(arguments, payload.encode(given), seconds, environ))
        except child.ChildError as error:
            raise DeliveryError(str(error)) from None

    def keep_alive(self, firing: Sequence[Notification], now: float) -> None:
        """Nothing: who was told remembers."""

    def close(self) -> None:
        """Nothing is held."""


def _kind(n: Notification) -> str:
    if n.state is State.RESOLVED:
        return "success"
    return {Severity.CRITICAL: "failure", Severity.WARNING: "warning"}.get(n.severity, "info")


def _read(done: child.Finished) -> str:
    """What the process says became of the message; nothing but its last line is looked at."""
    try:
        answer = json.loads(done.output.strip().rpartition("\n")[2])
        ok, said, permanent = answer["ok"], str(answer["said"]), bool(answer["permanent"])
    except (ValueError, KeyError, TypeError):
        raise DeliveryError(f"Apprise ended with exit code {done.code}") from None
    if not ok:
        raise DeliveryError(payload.plain(said), permanent=permanent)
    return payload.plain(said)
