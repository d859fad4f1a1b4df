"""What all notifiers have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from monitor.alerting.model import Notification


@dataclass(frozen=True, slots=True)
class Message:
    """A notification on its way to one receiver."""

    notification: Notification
    test: bool = False


class Notifier(Protocol):
    """Tells one receiver. Used by one thread."""

    keep_alive_seconds: float | None
    """How often ``keep_alive`` must be called; None where the receiver remembers by itself."""

    def send(self, message: Message, now: float) -> str:
        """Delivers, and says in a few words what the receiver answered.

        Raises:
            DeliveryError: one line without secrets.
        """
        ...

    def keep_alive(self, firing: Sequence[Notification], now: float) -> None:
        """Says again what still fires; raises like ``send``."""
        ...

    def close(self) -> None:
        """Lets go of what it holds."""
        ...
