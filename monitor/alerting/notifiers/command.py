"""A program of the user that takes our JSON on its standard input."""

from __future__ import annotations

import os
from collections.abc import Sequence

from monitor import child
from monitor.alerting import payload
from monitor.alerting.model import Notification
from monitor.alerting.notifiers.base import Message
from monitor.alerting.receivers import CommandSettings, ReceiverSettings
from monitor.logs import REDACTOR
from monitor.model import DeliveryError

_PERMANENT = frozenset({os.EX_DATAERR, os.EX_CONFIG})
_SHOWN = 160


class Command:
    """Runs a program for each message: exit code 0 says that it was delivered."""

    keep_alive_seconds: float | None = None

    def __init__(self, settings: ReceiverSettings, kind: CommandSettings) -> None:
        self._kind = kind
        self._timeout = settings.timeout

    def send(self, message: Message, now: float) -> str:  # noqa: ARG002 - as all notifiers
        """Runs the program."""
        n = message.notification
        about = {"MONITOR_MESSAGE_ID": payload.message_id(n), "MONITOR_STATE": n.state.value}
        environ = {**child.environment(self._kind.environment), **about}
        text = payload.body(n, test=message.test)
        try:
            done = child.run(self._kind.arguments, text, self._timeout, environ)
        except child.ChildError as error:
            raise DeliveryError(str(error)) from None
        if done.code == 0:
            return "exit code 0"
        said = payload.plain(REDACTOR.text(done.output), _SHOWN)
        raise DeliveryError(
            f"the command failed: {done.how}{f': {said}' if said else ''}",
            permanent=done.code in _PERMANENT,
        )

    def keep_alive(self, firing: Sequence[Notification], now: float) -> None:
        """Nothing: who was told remembers."""

    def close(self) -> None:
        """Nothing is held."""
