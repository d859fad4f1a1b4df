"""A process that sends a message and stops before it marks it; it is there to be killed."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from alert_rows import NOON
from pydantic import SecretStr

from monitor.alerting.delivery import Worker
from monitor.alerting.notifiers.make import make_notifier
from monitor.alerting.receivers import ReceiverSettings, WebhookSettings
from monitor.clock import FakeClock
from monitor.store.connect import open_store
from monitor.store.outbox import Claimed, Outbox


class Stuck(Outbox):
    """Marks nothing, ever."""

    def sent(self, claimed: Claimed, now: float) -> NoReturn:  # noqa: ARG002
        sys.stdout.write("sent\n")
        sys.stdout.flush()
        while True:
            signal.pause()


def main(database: str, url: str) -> None:
    settings = ReceiverSettings("pager", WebhookSettings(SecretStr(url)))
    outbox = Stuck(open_store(database))
    clock = FakeClock(NOON)
    worker = Worker(settings, make_notifier(settings), outbox, clock, jitter=lambda: 0.0)
    while True:
        clock.advance(worker.step())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
