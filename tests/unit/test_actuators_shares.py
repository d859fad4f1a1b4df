"""Shares that can be set, and several actuators used as one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model import ActuatorError
from monitor.rollback.actuators.base import Act, Traffic
from monitor.rollback.actuators.routers import RouterActuator, VllmRouter
from monitor.rollback.actuators.several import SeveralActuator
from monitor.rollback.actuators.shares import any_of, nearest

ACT = Act("plan-1", fence=3, timeout=10.0)
shares = st.lists(st.floats(0, 1), min_size=1, max_size=6)


def router(speculative: int, baseline: int) -> RouterActuator:
    sides = (
        [f"http://{side}{n}:1" for n in range(size)]
        for side, size in zip("sb", (speculative, baseline), strict=True)
    )
    return RouterActuator(VllmRouter(), "http://router", *sides)


def test_a_router_splits_by_workers() -> None:
    assert router(4, 1).reachable([0.1, 0.25, 0.5, 1.0]) == (0.2, 0.25, 0.5, 1.0)
    assert router(1, 1).reachable([0.1, 0.25, 0.5, 1.0]) == (0.5, 1.0)
    assert router(3, 3).reachable([0, 0.1, 0.9]) == (0.0, 0.25, 0.75)


def test_all_or_nothing_is_told_as_such() -> None:
    assert nearest([0.1, 0.5, 1.0], [0.0, 1.0]) == (1.0,)
    assert nearest([0.0], [0.0, 1.0]) == (0.0,)


@given(shares, st.integers(1, 9), st.integers(1, 9))
def test_what_is_reachable_is_reached_by_itself(
    wanted: list[float], speculative: int, baseline: int
) -> None:
    actuator = router(speculative, baseline)
    steps = actuator.reachable(wanted)
    assert list(steps) == sorted(set(steps))
    assert actuator.reachable(steps) == steps
    assert (0 in steps) <= (0 in wanted)


class Part:
    """An actuator that notes what it is asked, and may fail."""

    def __init__(self, log: list[str], name: str, share: float | None = 0.0) -> None:
        self.log = log
        self.name = name
        self.share = share
        self.fails = False

    def observe(self, timeout: float) -> Traffic:  # noqa: ARG002
        return Traffic(self.share, f"{self.name} says {self.share}")

    def shift(self, share: float, act: Act) -> None:
        self.log.append(f"{self.name} {share} {act.id} {act.fence}")
        if self.fails:
            raise ActuatorError(f"{self.name} is away", stage="shift")
        self.share = share

    def restore(self, act: Act) -> None:
        self.log.append(f"{self.name} back {act.id}")
        self.share = 0.0

    def would(self, share: float) -> str:  # noqa: ARG002
        return f"would move {self.name}"

    def reachable(self, shares: Sequence[float]) -> tuple[float, ...]:
        return any_of(shares)


def test_parts_are_used_in_order_and_restored_in_reverse() -> None:
    log: list[str] = []
    several = SeveralActuator([Part(log, "a"), Part(log, "b")])
    several.shift(0.5, ACT)
    assert several.observe(5.0) == Traffic(0.5, "a says 0.5; b says 0.5")
    several.restore(ACT)
    assert log == ["a 0.5 plan-1/1 3", "b 0.5 plan-1/2 3", "b back plan-1/2", "a back plan-1/1"]
    assert several.would(1.0) == "would move a; then would move b"


def test_a_part_that_fails_is_told_with_what_was_done_before() -> None:
    log: list[str] = []
    second = Part(log, "b")
    second.fails = True
    several = SeveralActuator([Part(log, "a"), second])
    with pytest.raises(ActuatorError) as caught:
        several.shift(0.5, ACT)
    assert str(caught.value) == "part 2 of 2: b is away (1 done before it)"
    assert several.observe(5.0).share is None
    second.fails = False
    several.shift(0.5, ACT)
    assert several.observe(5.0).share == 0.5


def test_parts_that_cannot_tell_are_left_out() -> None:
    assert SeveralActuator([Part([], "a", 0.5), Part([], "b", None)]).observe(5.0).share == 0.5
    assert SeveralActuator([Part([], "a", None)]).observe(5.0).share is None


def test_steps_are_those_that_every_part_can_take() -> None:
    assert SeveralActuator([Part([], "a"), router(1, 1)]).reachable([0.1, 1.0]) == (0.5, 1.0)
