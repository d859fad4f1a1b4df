"""A monitor from verdict to receiver, killed before its n-th statement to the database, for all n.

Each life is a process of its own. It goes on where the one before was killed, watches a short
story of one target, stores it, and delivers what is to be told; one that lives to the end of
the story ends the matter for its n.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace

from pydantic import SecretStr
from sqlalchemy import Engine, Pool, event
from store_rows import NOON, target

from monitor.alerting.delivery import POLL_SECONDS, Worker
from monitor.alerting.notifiers.make import make_notifier
from monitor.alerting.receivers import ReceiverSettings, WebhookSettings
from monitor.alerting.routes import Routing
from monitor.alerting.ruleset import load_rules
from monitor.clock import FakeClock
from monitor.logs import configure
from monitor.model import Action, Assessment, Cause, Counts, Verdict, Window
from monitor.pipeline import Tick
from monitor.settings import TargetSettings
from monitor.store.connect import open_store
from monitor.store.repository import Adoption, Repository
from monitor.store.rows import RoundRow
from monitor.turn.alerts import Alerts

RULES = tuple(
    replace(rule, hold_seconds=0.0, hold_windows=1, keep_firing=15.0)
    for rule in load_rules([]).rules
    if rule.id == "harmful"
)
STORY = (
    (Verdict.HARMFUL, Cause.WEAK_DRAFTER, Action.ROLL_BACK),
    *[(Verdict.HEALTHY, None, Action.NONE)] * 2,
)
"""What each look says, one each 15 s."""
LEASE = 100.0
"""Longer than a message that was in a killed hand stays there."""


def story(one: TargetSettings, number: int) -> tuple[Tick, float]:
    now = NOON + 15.0 * number
    window = Window(now - 60.0, now, Counts())
    said = Assessment(one.name, now, *STORY[number], "a sentence", window=window)
    return Tick((), said, changed=False), now


def live(url: str, hook: str, one: TargetSettings, killed_at: int | None) -> None:
    """From the stored past to the end of the story, or to the statement it is killed at."""
    repository = Repository(open_store(url))
    receiver = ReceiverSettings("pager", WebhookSettings(SecretStr(hook)))
    repository.adopt(Adoption([one], routing=Routing(("pager",)), receivers=["pager"]), NOON)
    if killed_at is not None:
        die_before(killed_at)
    alerts = Alerts(one, lambda: RULES)
    alerts.restore(repository.alerts.by_target().get(one.name, {}))
    stored = repository.load_states().get(one.name)
    begin = 0 if stored is None else round((stored.at - NOON) / 15.0) + 1
    for number in range(begin, len(STORY)):
        tick, now = story(one, number)
        news = alerts.take(tick, (), now)
        repository.write_round([RoundRow(one.name, now, (), "{}", alerts=news)])
    clock = FakeClock(NOON + 3600.0)
    outbox = repository.alerts.outbox
    worker = Worker(receiver, make_notifier(receiver), outbox, clock, jitter=lambda: 0.0)
    while outbox.waiting():
        clock.advance(LEASE if worker.step() == POLL_SECONDS else 0.0)


def die_before(statement: int) -> None:
    """Kills this process before it asks a database so often; before and after commits, too."""
    left = [statement]

    def count(*_: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", count)
    # A connection that is given back has committed.
    event.listen(Pool, "checkin", count)


def main(url: str, hook: str) -> None:
    """Tells of each n how many lives it took; ends with the first that was never killed."""
    configure(level="error")
    statement, lives = 0, 2
    while lives > 1:
        statement, lives, ended = statement + 1, 0, False
        while not ended:
            lives += 1
            child = os.fork()
            if child == 0:
                live(url, hook, target(f"gpu{statement}"), statement if lives == 1 else None)
                os._exit(0)
            _, code = os.waitpid(child, 0)
            if code not in (0, signal.SIGKILL):
                raise SystemExit(f"a life ended with {code}")
            ended = code == 0
        sys.stdout.write(f"gpu{statement} {lives}\n")
        # What is in the buffer would be written by each child as well.
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
