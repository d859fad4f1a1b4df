"""What an order does to the memory of a target."""

from __future__ import annotations

import pytest

from monitor.health import memory
from monitor.health.detect import THRESHOLD
from monitor.health.intake import Memory
from monitor.health.judging import JudgeSettings
from monitor.health.orders import Order, OrderKind, apply_order
from monitor.health.reference import HourSums, Reference
from monitor.health.target import TargetState
from monitor.health.watch import Watch, fingerprint
from monitor.model import Engine, Identity
from monitor.pipeline import state_text

OURS = Identity(Engine.VLLM, "0.31.0", "m", None, 3)
OTHER = OURS._replace(engine_version="0.30.0")
NOON = 1_790_000_000.0


def learnt() -> Reference:
    return Reference(hours=[HourSums(700.0, 1000.0, 500.0) for _ in range(24)], requests=12_000.0)


@pytest.fixture
def state() -> TargetState:
    state = TargetState("t", 15.0, JudgeSettings())
    watch = Watch({fingerprint(OTHER): learnt(), fingerprint(OURS): learnt()}, k=3.0)
    watch.drop.evidence, watch.drop.alarm_at = THRESHOLD, NOON
    state.restore(Memory(watch=watch, last_at=NOON), OURS, ())
    return state


def normal(state: TargetState, identity: Identity = OURS) -> float | None:
    found = state.memory.watch.reference(identity).normal(NOON)
    return None if found is None else found.rate


def test_a_pin_counts_as_normal_and_what_was_learnt_comes_back(state: TargetState) -> None:
    assert apply_order(state, Order(OrderKind.PIN, 0.5))
    assert (normal(state), normal(state, OTHER)) == (0.5, 0.7)
    assert apply_order(state, Order(OrderKind.UNPIN))
    assert normal(state) == 0.7


def test_a_reset_forgets_this_kind_of_server_only(state: TargetState) -> None:
    apply_order(state, Order(OrderKind.PIN, 0.5))
    assert apply_order(state, Order(OrderKind.RESET))
    assert (normal(state), normal(state, OTHER)) == (None, 0.7)


@pytest.mark.parametrize("kind", OrderKind)
def test_evidence_against_another_normal_is_dropped(state: TargetState, kind: OrderKind) -> None:
    assert apply_order(state, Order(kind, 0.5))
    assert not state.memory.watch.alarmed
    assert state.memory.watch.drop.evidence == 0.0


@pytest.mark.parametrize("kind", OrderKind)
def test_an_order_twice_is_an_order_once_and_lasts(state: TargetState, kind: OrderKind) -> None:
    apply_order(state, Order(kind, 0.5))
    once = state_text(state)
    apply_order(state, Order(kind, 0.5))
    assert state_text(state) == once
    restored = TargetState("t", 15.0, JudgeSettings())
    memory.restore(restored, once, ())
    assert normal(restored) == normal(state)


def test_an_order_waits_for_the_first_page() -> None:
    state = TargetState("t", 15.0, JudgeSettings())
    assert not apply_order(state, Order(OrderKind.PIN, 0.5))
    assert state.memory.watch.references == {}
