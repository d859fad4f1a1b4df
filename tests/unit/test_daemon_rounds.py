from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

import pytest

from monitor.clock import FakeClock
from monitor.daemon.rounds import Rounds, slot_of


@dataclass
class Member:
    name: str
    interval: float = 15.0
    claimed: int = 0
    late: int = 0
    busy: bool = False

    def claim(self) -> bool:
        if self.busy:
            self.late += 1
            return False
        self.claimed += 1
        return True


def test_the_slot_of_a_name_never_changes() -> None:
    assert slot_of("chat-0", 15.0) == (15.0, 14.0)
    assert slot_of("chat-1", 15.0) == slot_of("chat-1", 15.0)
    assert slot_of("chat-0", 0.25) == (0.25, 0.0)


def test_targets_are_spread_over_the_interval() -> None:
    offsets = Counter(slot_of(f"target-{number}", 15.0).offset for number in range(1500))
    assert sorted(offsets) == [float(second) for second in range(15)]
    assert max(offsets.values()) < 150


def test_a_member_that_is_busy_is_late_and_the_others_are_not() -> None:
    submitted: list[Member] = []
    rounds = Rounds(FakeClock(), submitted.append)
    members = [Member(f"m{number}", 1.0) for number in range(10)]
    members[3].busy = True
    rounds.plan(members)
    (slot,) = rounds.slots
    for _ in range(5):
        rounds.fire(slot)
    assert [member.claimed for member in members] == [5, 5, 5, 0, 5, 5, 5, 5, 5, 5]
    assert (members[3].late, len(submitted)) == (5, 45)


def test_no_thread_for_one_member_does_not_cost_the_others_their_round() -> None:
    submitted = []

    def submit(member: Member) -> None:
        submitted.append(member)
        if member.name == "m0":
            raise RuntimeError("can't start new thread")

    rounds = Rounds(FakeClock(), submit)
    rounds.plan([Member(f"m{number}", 1.0) for number in range(3)])
    rounds.fire(rounds.slots[0])
    assert (len(submitted), rounds.counts.failed) == (3, 1)


def test_the_loop_age_is_that_of_the_last_slot() -> None:
    clock = FakeClock()
    rounds: Rounds[Member] = Rounds(clock, lambda _member: None)
    assert rounds.age() == 0.0
    rounds.plan([Member("a", 5.0), Member("b", 60.0)])
    clock.advance(10)
    assert (rounds.age(), rounds.limit) == (10.0, 12.5)
    rounds.fire(rounds.slots[0])
    assert rounds.age() == 0.0


@pytest.fixture
def rounds_on() -> tuple[FakeClock, Rounds[Member]]:
    clock = FakeClock(1_800_000_000.0)
    rounds: Rounds[Member] = Rounds(clock, lambda _member: None)
    rounds.plan([Member("a", 3600.0)])
    return clock, rounds


def test_a_scheduler_that_starts_nothing_is_rebuilt_once_in_a_while(
    rounds_on: tuple[FakeClock, Rounds[Member]],
) -> None:
    clock, rounds = rounds_on
    rounds.start()
    clock.advance(2.4 * 3600)
    rounds.watch()
    assert rounds.counts.rebuilds == 0
    clock.advance(0.2 * 3600)
    rounds.watch()
    rounds.watch()
    assert rounds.counts.rebuilds == 1
    assert rounds.age() > rounds.limit
    clock.advance(2.6 * 3600)
    rounds.watch()
    assert rounds.counts.rebuilds == 2
    rounds.stop()


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_clock_that_was_set_leads_to_a_rebuild(
    rounds_on: tuple[FakeClock, Rounds[Member]], step: float
) -> None:
    clock, rounds = rounds_on
    rounds.start()
    clock.set_utc(clock.utc() + step)
    rounds.watch()
    rounds.watch()
    assert rounds.counts.rebuilds == 1
    rounds.stop()


def test_nothing_is_rebuilt_after_the_stop(
    rounds_on: tuple[FakeClock, Rounds[Member]],
) -> None:
    clock, rounds = rounds_on
    rounds.start()
    rounds.stop()
    clock.advance(36_000)
    rounds.watch()
    assert rounds.counts.rebuilds == 0
    assert not [t for t in threading.enumerate() if t.name == "APScheduler"]
