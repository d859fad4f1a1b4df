"""Delivery: what is tried again and when, what is given up, and that no message is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import delivery_sender
import pytest
from alert_rows import NOON, notification, record, resolved
from daemon_stage import eventually
from hostile_receivers import answers, hang, receiver, status
from pydantic import SecretStr
from sqlalchemy import Engine
from store_rows import opened

import monitor
from monitor.alerting.delivery import Delivery, Worker
from monitor.alerting.model import Notification
from monitor.alerting.notifiers.base import Message
from monitor.alerting.notifiers.make import make_notifier
from monitor.alerting.payload import message_id
from monitor.alerting.receivers import ReceiverSettings, WebhookSettings
from monitor.alerting.routes import Routing
from monitor.clock import FakeClock, SystemClock
from monitor.model import DeliveryError, StoreError
from monitor.store.alerts import AlertStore
from monitor.store.connect import writing
from monitor.store.outbox import OutboxState, bury_strangers

PAGER = Routing(("pager",))


class Script:
    """A notifier that does what it is told, one thing after the other."""

    def __init__(self, *outcomes: Exception | None, keep_alive: float | None = None) -> None:
        self.keep_alive_seconds: float | None = keep_alive
        self.sent: list[Message] = []
        self.alive: list[list[str]] = []
        self.closed = threading.Event()
        self._outcomes = list(outcomes)

    def send(self, message: Message, now: float) -> str:  # noqa: ARG002
        self.sent.append(message)
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if outcome is not None:
            raise outcome
        return "fine"

    def keep_alive(self, firing: Sequence[Notification], now: float) -> None:  # noqa: ARG002
        self.alive.append([n.incident for n in firing])

    def close(self) -> None:
        self.closed.set()


def settings(
    url: str = "http://127.0.0.1:1/", name: str = "pager", **rest: float
) -> ReceiverSettings:
    return ReceiverSettings(name, WebhookSettings(SecretStr(url)), **rest)


@pytest.fixture
def store(engine: Engine) -> AlertStore:
    return AlertStore(engine)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


def worker(store: AlertStore, clock: FakeClock, script: Script, **rest: Any) -> Worker:
    return Worker(settings(**rest), script, store.outbox, clock, jitter=lambda: 1.0)


def drive(one: Worker, clock: FakeClock, seconds: float) -> None:
    """Lets a worker go on for some time of the clock."""
    end = clock.monotonic() + seconds
    while clock.monotonic() < end:
        clock.advance(min(one.step(), end - clock.monotonic()))


def state_of(store: AlertStore, sequence: int = 1) -> OutboxState | None:
    (one,) = (d for d in store.incident("inc1").deliveries if d.sequence == sequence)
    return one.state


def test_a_message_is_sent_once_and_marked(store: AlertStore, clock: FakeClock) -> None:
    record(store, [], [notification()], PAGER, NOON)
    script = Script()
    one = worker(store, clock, script)
    drive(one, clock, 60)
    assert [message_id(m.notification) for m in script.sent] == ["inc1-1"]
    assert state_of(store) is OutboxState.SENT
    assert one.counts.sent == 1


def test_failures_are_tried_again_later_and_later(store: AlertStore, clock: FakeClock) -> None:
    record(store, [], [notification()], PAGER, NOON)
    script = Script(*[DeliveryError("HTTP 500")] * 4)
    one = worker(store, clock, script)
    times = []
    while not one.counts.sent:
        before = len(script.sent)
        wait = one.step()
        times += [clock.utc() - NOON] * (len(script.sent) - before)
        clock.advance(wait)
    assert times == [0.0, 5.0, 15.0, 35.0, 75.0]
    assert {message_id(m.notification) for m in script.sent} == {"inc1-1"}
    assert (one.counts.failed, one.counts.problem) == (4, None)


def test_a_receiver_that_asks_for_a_pause_gets_it(store: AlertStore, clock: FakeClock) -> None:
    record(store, [], [notification(), notification("inc2")], PAGER, NOON)
    script = Script(DeliveryError("HTTP 429", retry_after=120.0))
    one = worker(store, clock, script)
    drive(one, clock, 119)
    # The other message is not tried either.
    assert len(script.sent) == 1
    drive(one, clock, 5)
    assert len(script.sent) == 3


def test_a_refusal_for_good_is_a_dead_letter_at_once(store: AlertStore, clock: FakeClock) -> None:
    record(store, [], [notification(), notification("inc2")], PAGER, NOON)
    one = worker(store, clock, Script(DeliveryError("HTTP 404", permanent=True)))
    drive(one, clock, 2)
    (letter,) = store.outbox.dead_letters()
    assert (letter.incident, letter.problem) == ("inc1", "HTTP 404")
    assert (one.counts.dead, one.counts.sent) == (1, 1)


def test_in_the_end_a_message_is_given_up(store: AlertStore, clock: FakeClock) -> None:
    record(store, [], [notification()], PAGER, NOON)
    script = Script(*[DeliveryError("HTTP 503")] * 100)
    one = worker(store, clock, script, give_up_after=3600.0)
    drive(one, clock, 7200)
    (letter,) = store.outbox.dead_letters()
    assert letter.problem == f"HTTP 503 (given up after {len(script.sent)} attempts)"
    assert 5 < len(script.sent) < 15
    assert letter.at - NOON <= 3600.0


def test_a_mistake_of_ours_does_not_end_a_worker(store: AlertStore, clock: FakeClock) -> None:
    record(store, [], [notification()], PAGER, NOON)
    one = worker(store, clock, Script(ZeroDivisionError("secret text")))
    one.step()
    assert one.counts.problem == "internal error: ZeroDivisionError"
    drive(one, clock, 10)
    assert one.counts.sent == 1


def test_what_fires_is_kept_alive_until_it_ends(store: AlertStore, clock: FakeClock) -> None:
    record(store, [], [notification()], PAGER, NOON)
    script = Script(keep_alive=60.0)
    one = worker(store, clock, script)
    drive(one, clock, 200)
    assert script.alive == [["inc1"]] * 3
    record(store, [], [resolved()], PAGER, NOON)
    drive(one, clock, 200)
    assert len(script.alive) == 3
    assert len(script.sent) == 2


def test_a_database_that_is_away_is_waited_for(store: AlertStore, clock: FakeClock) -> None:
    with opened(str(store._engine.url.render_as_string(hide_password=False))) as other:
        gone = AlertStore(other)
        one = worker(gone, clock, Script())
        with other.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE outbox RENAME TO outbox_away")
        assert one.step() == 5.0
        with other.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE outbox_away RENAME TO outbox")
        assert one.step() == 1.0


@pytest.fixture
def delivery(store: AlertStore) -> Iterator[Delivery]:
    running = Delivery(store.outbox, SystemClock(), jitter=lambda: 0.0)
    yield running
    running.stop(5.0)


def test_a_slow_receiver_delays_no_other(store: AlertStore, delivery: Delivery) -> None:
    got = threading.Event()

    def quick(sock: object, peer: object) -> None:
        answers(status("204 No Content"))(sock, peer)  # type: ignore[arg-type]
        got.set()

    both = Routing(("slow", "quick"))
    with receiver(hang) as slow, receiver(quick) as fast:
        record(store, [], [notification()], both, SystemClock().utc())
        given = [settings(slow.url, "slow"), settings(fast.url, "quick")]
        delivery.exchange(delivery.prepare(given))
        assert got.wait(20)
        assert delivery.counts()["slow"].sent == 0


def test_reload_exchanges_only_what_changed(store: AlertStore) -> None:
    made: list[tuple[ReceiverSettings, Script]] = []

    def make(given: ReceiverSettings) -> Script:
        made.append((given, Script()))
        return made[-1][1]

    delivery = Delivery(store.outbox, SystemClock(), make=make)
    first = [settings(name="kept"), settings(name="gone"), settings(name="changed")]
    delivery.exchange(delivery.prepare(first))
    delivery.exchange(
        delivery.prepare([settings(name="kept"), settings("http://other/", "changed")])
    )
    assert [given.name for given, _ in made] == ["kept", "gone", "changed", "changed"]
    assert made[1][1].closed.wait(10)
    assert made[2][1].closed.wait(10)
    assert not made[0][1].closed.is_set()
    assert delivery.stop(10.0)
    assert all(script.closed.is_set() for _, script in made)


def test_a_message_in_hand_while_its_receiver_changes_is_sent_once_and_in_order(
    store: AlertStore,
) -> None:
    sending, go_on, quick = threading.Event(), threading.Event(), Script()

    class Slow(Script):
        def send(self, message: Message, now: float) -> str:
            sending.set()
            assert go_on.wait(30)
            return super().send(message, now)

    slow = Slow()
    made = iter((slow, quick))
    now = SystemClock().utc()
    delivery = Delivery(store.outbox, SystemClock(), make=lambda _given: next(made))
    record(store, [], [notification()], PAGER, now)
    delivery.exchange(delivery.prepare([settings()]))
    assert sending.wait(30)
    record(store, [], [resolved(), notification("inc2")], PAGER, now)
    delivery.exchange(delivery.prepare([settings("http://other/")]))
    eventually(lambda: bool(quick.sent))
    go_on.set()
    eventually(lambda: len(quick.sent) == 2)
    assert delivery.stop(30.0)
    assert [message_id(one.notification) for one in slow.sent] == ["inc1-1"]
    assert [message_id(one.notification) for one in quick.sent] == ["inc2-1", "inc1-2"]
    assert store.outbox.counts() == {("pager", OutboxState.SENT): 3}


def test_a_message_that_arrives_after_its_receiver_was_removed_is_no_dead_letter(
    store: AlertStore, engine: Engine
) -> None:
    record(store, [], [notification()], PAGER, NOON)
    claimed = store.outbox.claim("pager", "me", NOON, 60.0)
    assert claimed is not None
    with writing(engine) as connection:
        assert bury_strangers(connection, ["other"], NOON) == 1
    store.outbox.sent(claimed, NOON)
    assert store.outbox.dead_letters() == []
    assert state_of(store) is OutboxState.SENT


def test_a_receiver_that_is_down_for_two_hours_hears_all_of_them_once_and_in_order(
    store: AlertStore, clock: FakeClock
) -> None:
    tries = []

    class Down(Script):
        def send(self, message: Message, now: float) -> str:
            tries.append(now)
            if now < NOON + 7200.0:
                raise DeliveryError("connection refused")
            return super().send(message, now)

    down = Down()
    one = worker(store, clock, down)
    record(store, [], [notification()], PAGER, NOON)
    drive(one, clock, 1800.0)
    record(store, [], [resolved(), notification("inc2")], PAGER, clock.utc())
    while len(down.sent) < 3:
        clock.advance(one.step())
    told = [message_id(message.notification) for message in down.sent]
    assert sorted(told) == ["inc1-1", "inc1-2", "inc2-1"]
    assert told.index("inc1-1") < told.index("inc1-2")
    assert store.outbox.counts() == {("pager", OutboxState.SENT): 3}
    # A receiver that is down is not hammered.
    assert len(tries) < 60


def test_what_was_sent_while_the_database_went_away_is_not_sent_again(
    store: AlertStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script()
    one = worker(store, clock, script)
    record(store, [], [notification()], PAGER, NOON)

    def away(*_: object) -> None:
        raise StoreError("no route to host")

    with monkeypatch.context() as outage:
        outage.setattr(store.outbox, "sent", away)
        drive(one, clock, 600.0)
    drive(one, clock, 600.0)
    assert len(script.sent) == one.counts.sent == 1
    assert state_of(store) is OutboxState.SENT


def test_killed_between_sending_and_marking_it_sends_again(database_url: str) -> None:
    count = 3
    with opened(database_url) as engine, receiver(answers(status("200 OK"))) as peer:
        store = AlertStore(engine)
        record(store, [], [notification(f"inc{n}") for n in range(count)], PAGER, NOON)
        source = str(Path(monitor.__file__).parent.parent)
        with subprocess.Popen(
            [sys.executable, delivery_sender.__file__, database_url, peer.url],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": source},
        ) as process:
            assert process.stdout is not None
            # It has sent the first and marked nothing, and is killed right there.
            assert process.stdout.readline() == "sent\n"
            process.kill()
        assert store.outbox.counts() == {("pager", OutboxState.WAITING): count}
        clock = FakeClock(NOON)
        given = settings(peer.url)
        one = Worker(given, make_notifier(given), store.outbox, clock, jitter=lambda: 0.0)
        drive(one, clock, 300)
        one.close()
        ids = [request.headers["webhook-id"] for request in peer.requests]
        bodies = [json.loads(request.body) for request in peer.requests]
    assert sorted(ids) == ["inc0-1", "inc0-1", "inc1-1", "inc2-1"]
    assert [body["id"] for body in bodies] == ids
