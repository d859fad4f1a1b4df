"""Each phase with each event: nothing raises, nothing moves that must not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollback_values import (
    CLEAR,
    NOON,
    POLICY,
    bad,
    box,
    command,
    good,
    hurt,
    nothing,
    side,
)

from monitor.model import Verdict
from monitor.rollback.asks import may_act
from monitor.rollback.ballots import Box
from monitor.rollback.evidence import Circumstances, Progress, Side, Sight
from monitor.rollback.machine import KINDS, TABLE, step
from monitor.rollback.model import IDLE, Do, Order, Phase, Step
from monitor.rollback.scene import Acted, Event, Looked
from monitor.rollback.settings import Cure, Limits, Mode, Policy, Start
from monitor.rollback.state import Plan, State
from monitor.weekly import parse_weekly

PLAN = Plan(
    "chat-1", NOON, Mode.ACT, Cure.ROLL_BACK, "why", "weak_drafter", "vllm", path=(0.1, 0.5, 1.0),
    leg=1, is_checked=True,
)  # fmt: skip
MOVED = State(
    "chat", at=NOON, since=NOON, plan=PLAN, share=0.5, steps=2, fingerprint="vllm", speed=0.03
)


def in_phase(phase: Phase, *, moved: bool = True) -> State:
    """A state that may be found in ``phase``."""
    if phase in IDLE:
        return State("chat", phase=phase, at=NOON, since=NOON)
    state = replace(MOVED, phase=phase)
    acts = {
        Phase.SHIFTING: Step("chat-1-2", Do.SHIFT, 0.5),
        Phase.RETURNING: Step("chat-1-2", Do.SHIFT, 0.1),
        Phase.UNDOING: Step("chat-1-2", Do.RESTORE, 0.0),
    }
    state = replace(state, step=acts.get(phase))
    if phase in {Phase.RETURNING, Phase.TRIAL}:
        back = replace(PLAN, is_back=True, path=(0.5, 0.1, 0.0), trial_at=NOON)
        state = replace(state, plan=back)
    return state if moved else replace(state, share=0.0)


def test_each_phase_with_each_event_is_defined() -> None:
    assert set(TABLE) == {(phase, kind) for phase in Phase for kind in KINDS}


SIDES = st.sampled_from(
    [
        Side(),
        side(NOON, 1000.0),
        side(NOON + 60.0, 5000.0),
        side(NOON, 1000.0, error="timed out after 30 s"),
        side(NOON, None),
        side(NOON, 1000.0, page="refused"),
        side(NOON, 1000.0, error="refused", page="refused"),
        side(NOON, 9000.0, waiting=40.0),
        side(NOON, float("nan"), running=float("inf")),
        side(NOON, 1e5, failures=800.0),
        side(NOON, 10.0, birth=2.0),
    ]
)
BOXES = st.sampled_from(["hurt", "well", "empty", "unknown"])
SIGHTS = st.builds(
    Sight,
    at=st.just(NOON),
    baseline=SIDES,
    speculative=SIDES,
    progress=st.none() | st.builds(Progress, at=st.just(NOON), mark=st.sampled_from("ab")),
    share=st.sampled_from([None, 0.0, 0.1, 0.25, 0.5, 0.95, 1.0, 7.0, float("nan")]),
)
OUTCOMES = st.tuples(
    st.booleans(), st.booleans(), st.sampled_from([None, 0.0, 0.1, 0.25, 0.5, 1.0, float("nan")])
)
ORDERS = st.tuples(st.sampled_from(Order), st.sampled_from([None, "chat-9"]), st.booleans())
CIRCUMSTANCES = st.sampled_from(
    [CLEAR, CLEAR, CLEAR, Circumstances(frozen="frozen"), Circumstances(held="silence 3")]
)
MOMENTS = st.tuples(
    st.sampled_from([1.0, 15.0, 60.0, 400.0, 7300.0, -3600.0]),
    st.one_of(
        st.tuples(BOXES, SIGHTS), st.tuples(BOXES, SIGHTS), OUTCOMES.map(lambda o: o), ORDERS
    ),
    CIRCUMSTANCES,
)


def windows(kind: str, now: float) -> Box:
    if kind == "hurt":
        return hurt(now)
    if kind == "well":
        return box(*(good(now - 60.0 * n) for n in range(5, -1, -1)))
    if kind == "unknown":
        return box(*(nothing(now - 60.0 * n) for n in range(5)))
    return Box()


def event_of(state: State, moment: tuple[object, ...], now: float) -> Event:
    first, *_ = moment
    if isinstance(first, Order):
        _, plan, force = moment
        return command(first, now, plan=plan, force=force)
    if isinstance(first, bool):
        _, retry, share = moment
        outstanding = state.step.id if state.step is not None else "chat-1-1"
        return Acted(outstanding, ok=first, may_retry=bool(retry), share=share)  # type: ignore[arg-type]
    kind, sight = moment
    assert isinstance(kind, str)
    assert isinstance(sight, Sight)
    return Looked(windows(kind, now), replace(sight, at=now))


@settings(max_examples=200)
@given(
    st.lists(MOMENTS, min_size=1, max_size=60),
    st.sampled_from(Mode),
    st.booleans(),
    st.sampled_from(Phase),
)
def test_whatever_happens_only_what_was_checked_moves(
    moments: list[tuple[float, tuple[object, ...], Circumstances]],
    mode: Mode,
    can_start: bool,
    phase: Phase,
) -> None:
    policy = replace(POLICY, mode=mode, start=Start(can_start, can_restart=can_start))
    state, now, begun = in_phase(phase), NOON, []
    shares: dict[tuple[str, bool, float | None], list[float]] = {}
    for seconds, moment, around in moments:
        now += seconds
        event = event_of(state, moment, now)
        before, transition = state, step(state, event, policy, around, now)
        state = transition.state
        assert State.from_json(state.to_json()) == state
        for news in transition.news:
            json.dumps(news.evidence, allow_nan=False)
            assert news.sentence
            assert "\n" not in news.sentence
        fresh = state.step if state.step != before.step else None
        if fresh is not None and fresh.do is Do.SHIFT and state.plan is not None:
            assert state.plan.is_checked
            assert fresh.share is not None
            stage = (state.plan.id, state.plan.is_back, state.plan.trial_at)
            if (
                before.plan is not None
                and before.plan.path == state.plan.path
                and (before.phase is not Phase.CHECKING)
            ):
                shares.setdefault(stage, []).append(fresh.share)
            else:
                shares[stage] = [fresh.share]
            assert shares[stage] == sorted(shares[stage], reverse=state.plan.is_back)
            assert len(set(shares[stage])) == len(shares[stage])
        if state.plan is not None and (before.plan is None or before.plan.id != state.plan.id):
            if state.plan.is_automatic:
                assert isinstance(event, Looked)
                assert around == CLEAR
                begun.append(now)
                assert len([at for at in begun if 0.0 <= now - at < 86_400.0]) <= (
                    policy.limits.per_day + (now < max(begun))
                )
            else:
                assert getattr(event, "order", None) is Order.RUN
            assert (
                policy.mode is Mode.ACT
                or state.phase is Phase.PROPOSED
                or (getattr(event, "order", None) is Order.RUN)
            )


QUIET_LOOKS = st.lists(
    st.tuples(
        st.sampled_from([v for v in Verdict if v not in {Verdict.HARMFUL, Verdict.DEGRADED}]),
        st.booleans(),
    ),
    max_size=40,
)


@given(QUIET_LOOKS)
def test_what_is_not_known_or_not_bad_never_begins_a_plan(
    looks: list[tuple[Verdict, bool]],
) -> None:
    state, filled, now = State("chat"), Box(), NOON
    for verdict, fresh in looks:
        now += 60.0
        filled.take(nothing(now, verdict, fresh=fresh), POLICY.voting)
        state = step(state, Looked(filled, Sight(now)), POLICY, CLEAR, now).state
    assert state.phase is Phase.ARMED


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("moved", [True, False], ids=["moved", "unmoved"])
def test_abort_is_valid_in_each_phase(phase: Phase, moved: bool) -> None:
    state = in_phase(phase, moved=moved)
    transition = step(state, command(Order.ABORT), POLICY, CLEAR, NOON)
    assert transition.news
    if phase in IDLE:
        assert transition.state.phase is phase
        return
    back = phase in {Phase.TRIAL, Phase.RETURNING}
    if back:
        assert transition.state.phase is Phase.SHIFTING
        assert transition.state.step == Step("chat-1-3", Do.SHIFT, 1.0)
    elif state.is_moved:
        assert transition.state.phase is Phase.UNDOING
        assert transition.state.ends is Phase.ABORTED
    else:
        assert transition.state.phase is Phase.ABORTED


@pytest.mark.parametrize("phase", [p for p in Phase if p not in IDLE])
@pytest.mark.parametrize("is_alive", [True, False], ids=["alive", "dead"])
def test_the_stop_loss_holds_in_each_phase(phase: Phase, is_alive: bool) -> None:
    state = replace(in_phase(phase), speculative=side(NOON, 1000.0, name="chat-1"))
    for n in range(2):
        now = NOON + 10.0 * n
        dead = "timed out after 30 s"
        sight = Sight(
            now,
            side(now, 1000.0, error=dead),
            side(now, 1000.0, name="chat-1", error=None if is_alive else dead),
            share=0.5,
        )
        state = step(state, Looked(Box(), sight), POLICY, CLEAR, now).state
    assert state.phase is (Phase.UNDOING if is_alive or phase is Phase.UNDOING else Phase.HELD)


@pytest.mark.parametrize("phase", Phase)
def test_a_freeze_lets_nothing_begin_or_go_on(phase: Phase) -> None:
    state, frozen = in_phase(phase), Circumstances(frozen="5 of 6 services became bad")
    for n in range(200):
        now = NOON + 60.0 * n
        sight = Sight(now, side(now, 100.0 * n), side(now, 1.0, name="chat-1"), share=0.5)
        before = state
        state = step(state, Looked(hurt(now), sight), POLICY, frozen, now).state
        assert state.step is None or state.step == before.step
        assert state.step is None or may_act(state, frozen) is (state.phase is Phase.UNDOING)
        assert not (before.phase in IDLE and state.plan is not None)


def test_a_clock_set_back_neither_ends_a_hold_nor_keeps_it_for_ever() -> None:
    state = in_phase(Phase.HOLDING)
    for n, now in enumerate([NOON, NOON + 86_400.0, NOON - 86_400.0, NOON - 86_390.0]):
        sight = Sight(now, side(now, 1000.0 * n), side(now, 1000.0 * n, name="chat-1"), share=0.5)
        state = step(state, Looked(Box(), sight), POLICY, CLEAR, now).state
        assert state.phase is Phase.HOLDING
    assert state.watched == 70.0


def test_quiet_hours_make_acting_proposing() -> None:
    # NOON is Sunday, 15 June 2025, 15:06 UTC.
    limits = Limits(quiet=(parse_weekly("sun 15:00-16:00 UTC"),))
    quiet: Policy = replace(POLICY, limits=limits)
    proposal = step(State("chat"), Looked(hurt(), Sight(NOON)), quiet, CLEAR, NOON)
    assert proposal.state.phase is Phase.PROPOSED
    later = NOON + 3600.0
    started = step(State("chat"), Looked(hurt(later), Sight(later)), quiet, CLEAR, later)
    assert started.state.phase is Phase.CHECKING


def test_flapping_disarms() -> None:
    flapping = hurt()
    flapping.take(bad(NOON + 1.0)._replace(flapping=True), POLICY.voting)
    event = Looked(flapping, Sight(NOON + 1.0))
    assert step(State("chat"), event, POLICY, CLEAR, NOON + 1.0).state.phase is Phase.ARMED


def test_an_approval_that_lay_around_is_refused() -> None:
    state = replace(in_phase(Phase.PROPOSED, moved=False), plan=replace(PLAN, mode=Mode.PROPOSE))
    old = command(Order.APPROVE, NOON - 7200.0)
    assert step(state, old, POLICY, CLEAR, NOON).state.phase is Phase.PROPOSED
    fresh = command(Order.APPROVE, NOON - 60.0)
    assert step(state, fresh, POLICY, CLEAR, NOON).state.phase is Phase.CHECKING


def test_an_abort_takes_nothing_back_to_a_dead_side() -> None:
    state = replace(in_phase(Phase.DONE), speculative_misses=2)
    transition = step(state, command(Order.ABORT), POLICY, CLEAR, NOON)
    assert transition.state.phase is Phase.HELD
    assert transition.news[0].pages
