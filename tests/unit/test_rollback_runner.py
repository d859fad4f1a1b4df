"""All services side by side: none waits for another, and many that are hurt freeze all."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from rollback_stage import POLICY, Book, Fuse, Held, Looks, Router, World
from rollback_values import NOON, bad

from monitor.clock import FakeClock
from monitor.model import StoreError
from monitor.rollback.evidence import Completion
from monitor.rollback.fleet import FLEET
from monitor.rollback.hands import Gear
from monitor.rollback.model import Command, Kind, Order, Phase
from monitor.rollback.runner import Runner
from monitor.rollback.settings import FleetPolicy, Limits, Mode, Policy

SERVICES = ("chat", "code", "mail", "search")
OBSERVE = replace(POLICY, mode=Mode.OBSERVE, limits=Limits(approval=600.0))


class Hanging(Looks):
    """A probe whose server does not answer until it is told to."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.asked = threading.Event()
        self.answer = threading.Event()
        self.askers: list[str] = []

    def complete_baseline(self, timeout: float) -> tuple[Completion, ...]:
        self.askers.append(threading.current_thread().name)
        self.asked.set()
        self.answer.wait(30.0)
        return super().complete_baseline(timeout)


class Hall:
    """A runner over some services."""

    def __init__(self, policy: Policy = OBSERVE) -> None:
        self.clock = FakeClock(NOON)
        self.fuse = Fuse()
        self.book = Book(self.fuse)
        self.world = World(self.clock)
        self.router = Router(self.world, self.fuse)
        self.policy = policy
        self.begin()

    def begin(self) -> None:
        self.runner = Runner(
            journal=self.book, lease=Held(self.book), clock=self.clock, now=self.clock.utc
        )
        gear = Gear(self.policy, Looks(self.world), self.router)
        self.runner.use(dict.fromkeys(SERVICES, gear), FleetPolicy())

    def minutes(self, count: int, *hurt: str) -> None:
        for _ in range(count):
            self.clock.advance(60.0)
            for service in hurt:
                self.runner.take(service, bad(self.clock.utc(), f"{service}-1"))
            self.runner.sweep()


def test_many_hurt_services_freeze_all_until_somebody_lifts_it() -> None:
    hall = Hall()
    hall.minutes(10, "chat", "code", "mail")
    assert hall.runner.frozen == (
        "3 of 4 services became bad within 60 min: the monitor itself may be wrong"
    )
    frozen = [news for news in hall.book.news if news.kind is Kind.FROZEN]
    assert [news.pages for news in frozen] == [True]

    hall.begin()
    hall.minutes(10, "chat", "code", "mail")
    assert hall.runner.frozen, "it survives a restart"
    assert len([news for news in hall.book.news if news.kind is Kind.FROZEN]) == 1

    hall.book.waiting.append(Command("o1", FLEET, Order.RUN, "anna", NOON))
    hall.book.waiting.append(Command("o2", FLEET, Order.REARM, "anna", NOON))
    hall.minutes(10, "chat", "code", "mail")
    assert hall.runner.frozen is None
    assert not hall.book.waiting
    assert [n.kind for n in hall.book.news if n.service == FLEET] == [
        Kind.FROZEN, Kind.REFUSED, Kind.REARMED,
    ]  # fmt: skip


def test_nothing_begins_before_it_is_known_whether_all_is_frozen() -> None:
    hall = Hall()
    hall.minutes(10, "chat", "code", "mail")
    hall.begin()
    # The thread of a service may be faster than the look at all of them.
    other = hall.runner.executors["search"]
    for _ in range(10):
        hall.clock.advance(60.0)
        other.take(bad(hall.clock.utc(), "search-1"))
        other.turn()
    assert other.state.phase is Phase.ARMED
    hall.begin()
    hall.book.states[FLEET] = "{"
    hall.minutes(10, "search")
    assert hall.runner.executors["search"].state.phase is Phase.ARMED
    assert hall.runner.errors[FLEET]


def test_a_restart_makes_no_crowd_of_those_that_were_hurt_one_after_the_other() -> None:
    hall = Hall()
    hall.minutes(10, "chat")
    hall.minutes(90, "chat", "code")
    hall.minutes(90, "chat", "code", "mail")
    assert hall.runner.frozen is None
    hall.begin()
    hall.minutes(10, "chat", "code", "mail")
    assert hall.runner.frozen is None


def test_a_hanging_server_holds_up_only_its_own_service() -> None:
    hall = Hall(replace(POLICY, mode=Mode.OBSERVE))
    hanging = Hanging(hall.world)
    gears = {name: Gear(hall.policy, Looks(hall.world), hall.router) for name in SERVICES}
    gears["chat"] = Gear(hall.policy, hanging, hall.router)
    hall.runner.use(gears, FleetPolicy())
    hall.runner.sweep()
    hall.book.waiting.append(Command("o1", "chat", Order.RUN, "anna", NOON))
    hall.runner.sweep()
    assert hanging.asked.wait(30.0)
    hall.minutes(5, "code")
    assert hall.runner.executors["code"].state.phase is Phase.PROPOSED
    assert hall.runner.executors["chat"].state.phase is Phase.CHECKING
    assert not hall.runner.stop(0.0)
    hanging.answer.set()
    assert hall.runner.stop(30.0)


def test_a_service_that_leaves_the_configuration_is_left_alone() -> None:
    hall = Hall()
    hall.runner.use({"code": Gear(hall.policy, Looks(hall.world), hall.router)}, FleetPolicy())
    hall.minutes(10, "chat", "code")
    hall.runner.forget("code", "code-1")
    assert set(hall.runner.executors) == {"code"}
    assert {news.service for news in hall.book.news} == {"code"}
    assert hall.runner.executors["code"].is_hurt is None


def test_a_service_that_comes_back_goes_on_and_holds_nobody_up() -> None:
    hall = Hall()
    hanging = Hanging(hall.world)
    gear = Gear(hall.policy, hanging, hall.router)
    hall.runner.use({"chat": gear}, FleetPolicy())
    hall.runner.sweep()
    hall.book.waiting.append(Command("o1", "chat", Order.RUN, "anna", NOON))
    hall.runner.sweep()
    assert hanging.asked.wait(30.0)
    hall.runner.use({}, FleetPolicy())
    hanging.answer.set()
    for thread in threading.enumerate():
        if thread.name == "rollback chat":
            thread.join(30.0)
    hanging.asked.clear()
    hanging.answer.clear()
    hall.clock.advance(60.0)
    hall.runner.use({"chat": gear}, FleetPolicy())
    hall.runner.sweep()
    assert hanging.asked.wait(30.0)
    hanging.answer.set()
    assert set(hanging.askers) == {"rollback chat"}, "the thread of all never asks a server"
    assert hall.runner.stop(30.0)


def test_a_database_that_is_gone_is_counted_and_nothing_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hall = Hall()
    hall.book.is_down = True
    hall.minutes(5, "chat")
    assert hall.runner.errors["chat"] == 5
    assert not hall.book.news
    hall.book.is_down = False

    def broken() -> float:
        raise StoreError("the stored state of a rollback cannot be read")

    monkeypatch.setattr(hall.runner.executors["chat"], "turn", broken)
    hall.minutes(5, "chat", "code")
    assert {news.service for news in hall.book.news} == {"code"}


def test_the_thread_begins_and_ends() -> None:
    hall = Hall()
    hall.runner.start()
    assert hall.runner.stop(30.0)
