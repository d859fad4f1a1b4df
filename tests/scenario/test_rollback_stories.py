"""Stories of rollbacks: what happens to the traffic of a service, and what people hear of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from rollback_stage import POLICY, Stage

from monitor.model import Cause
from monitor.rollback.evidence import Circumstances
from monitor.rollback.model import Kind, Order, Phase
from monitor.rollback.settings import Cure, Limits, Mode, Start, Verify
from monitor.rollback.state import State

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
PROPOSE = replace(POLICY, mode=Mode.PROPOSE)


def rolled_back() -> Stage:
    """A service that hurt, and whose traffic is on the baseline side now."""
    stage = Stage()
    stage.run(10 * MINUTE)
    stage.hurt()
    stage.run(HOUR, until=Phase.DONE)
    return stage


def test_the_whole_story_from_the_collapse_to_the_way_back() -> None:
    stage = Stage(PROPOSE)
    stage.world.baseline.up = False
    stage.run(30 * MINUTE)
    assert stage.told == []

    stage.hurt()
    stage.run(10 * MINUTE, until=Phase.PROPOSED)
    proposal = stage.book.news[-1]
    assert proposal.sentence == (
        "Rollback of 100 % of the traffic to the baseline side waits for"
        " 'monitor rollback approve chat' (void after 60 min): 3 of the last 5 windows of chat-1"
        " show a loss: 0.66x (0.60–0.73) of plain decoding at 8 running requests (weak drafter)"
    )
    assert len(proposal.evidence["windows"]["chat-1"]) == 5

    stage.run(5 * MINUTE)
    stage.order(Order.APPROVE, plan=proposal.plan)
    stage.run(2 * MINUTE, until=Phase.STARTING)
    stage.run(24 * MINUTE)
    assert stage.where() is Phase.STARTING, "a large model loads for 25 minutes"
    assert stage.world.share == 0.0

    stage.run(5 * MINUTE, until=Phase.HOLDING)
    shares = [stage.world.share]
    while stage.where() is not Phase.VERIFYING:
        stage.run(5.0)
        if stage.world.share != shares[-1]:
            shares.append(stage.world.share)
    assert shares == [0.1, 0.25, 0.5, 1.0]
    stage.run(10 * MINUTE, until=Phase.DONE)
    assert stage.world.speculative.up, "the loser is parked, not torn down"
    assert stage.book.news[-1].sentence.startswith("100 % of ")

    stage.run(3 * HOUR, tick=30.0)
    stage.order(Order.REARM)
    stage.run(MINUTE)
    assert stage.last() is Kind.REFUSED, "it is still the side that was rejected"
    stage.mend()
    stage.run(MINUTE)
    stage.order(Order.REARM)
    stage.run(5 * MINUTE, until=Phase.TRIAL)
    assert stage.world.share == 0.95
    stage.run(14 * MINUTE)
    assert stage.world.share == 0.95, "half open until it has been measured"
    stage.run(HOUR, until=Phase.ARMED)
    assert stage.world.share == 0.0
    assert stage.told == [
        Kind.PROPOSED, Kind.APPROVED, Kind.STEP, Kind.DONE, Kind.REFUSED, Kind.REARMED, Kind.STEP,
        Kind.TRIAL, Kind.RESTORED,
    ]  # fmt: skip
    assert set(stage.world.applied.values()) == {1}
    assert {row.status for row in stage.book.steps.values()} == {"done"}


def test_a_trial_that_shows_a_loss_goes_back() -> None:
    stage = rolled_back()
    stage.identity = stage.identity._replace(draft_size=3)
    stage.run(MINUTE)
    stage.order(Order.REARM)
    stage.run(5 * MINUTE, until=Phase.TRIAL)
    stage.run(10 * MINUTE, until=Phase.VERIFYING)
    assert stage.world.share == 1.0
    stage.run(10 * MINUTE, until=Phase.DONE)
    assert "The trial has failed" in stage.pages[-1]
    assert len(stage.executor.state.rejected) == 2


def test_a_trial_begins_by_itself_where_that_is_wished() -> None:
    stage = rolled_back()
    stage.policy = replace(POLICY, trial=replace(POLICY.trial, auto=True))
    stage.begin()
    stage.run(3 * HOUR, tick=30.0)
    assert stage.where() is Phase.DONE, "the same side is not tried again"
    stage.mend()
    stage.run(2 * HOUR, until=Phase.ARMED)
    assert stage.world.share == 0.0


# -- a baseline that must not get traffic ----------------------------------------------------


@pytest.mark.parametrize("fault", ["hangs", "down", "small", "queue", "other_model", "no_page"])
def test_no_traffic_goes_to_a_baseline_that_cannot_take_it(fault: str) -> None:
    stage = Stage(replace(POLICY, start=Start()))
    baseline = stage.world.baseline
    baseline.hangs = fault == "hangs"
    baseline.up = fault != "down"
    baseline.page_down = fault == "no_page"
    baseline.model = "other/model" if fault == "other_model" else baseline.model
    if fault == "small":
        stage.world.running = 60.0
    if fault == "queue":
        baseline.capacity = -1.0
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.BLOCKED)
    stage.run(6 * HOUR, tick=30.0)
    assert stage.world.share == 0.0
    assert not stage.world.applied
    assert len(stage.pages) == 1, "a person is called once"
    assert stage.pages[0].startswith("Nothing was moved: no healthy baseline side: ")

    stage.world.running = 8.0
    stage.world.baseline.__init__("plain-1")  # type: ignore[misc]
    stage.run(30 * MINUTE, until=Phase.DONE)
    assert stage.world.share == 1.0, "it was looked at again and again"


def test_a_cold_baseline_is_started_and_awaited_for_as_long_as_it_makes_progress() -> None:
    stage = Stage()
    stage.world.baseline.up = False
    stage.world.baseline.load_seconds = 60 * MINUTE
    stage.hurt()
    stage.run(100 * MINUTE, until=Phase.DONE)
    assert stage.world.started == 1


def test_a_baseline_that_never_comes_up_moves_nothing() -> None:
    stage = Stage()
    stage.world.baseline.up = False
    stage.world.baseline.load_seconds = 1e9
    stage.hurt()
    stage.run(44 * MINUTE)
    assert stage.where() is Phase.STARTING
    stage.run(10 * MINUTE, until=Phase.FAILED)
    assert stage.pages == [
        "Nothing was moved: the baseline side does not come up: no progress for 45 min"
    ]
    assert stage.world.share == 0.0


# -- in mid-shift ----------------------------------------------------------------------------


def shifting() -> Stage:
    stage = Stage()
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.HOLDING)
    stage.run(30.0)
    return stage


@pytest.mark.parametrize("fault", ["down", "hangs", "errors", "slow", "queue"])
def test_traffic_is_taken_back_from_a_baseline_that_fails_under_it(fault: str) -> None:
    stage = shifting()
    baseline = stage.world.baseline
    baseline.up = fault != "down"
    baseline.hangs = fault == "hangs"
    baseline.error_share = 0.3 if fault == "errors" else 0.0
    baseline.tpot = 0.2 if fault == "slow" else baseline.tpot
    baseline.capacity = 0.1 if fault == "queue" else baseline.capacity
    stage.world.running = 40.0
    stage.run(5 * MINUTE, until=Phase.FAILED)
    assert stage.world.share == 0.0
    assert "traffic is taken back: the baseline side" in stage.pages[0]


def test_a_parked_side_gets_traffic_back_when_the_baseline_dies_much_later() -> None:
    stage = rolled_back()
    stage.run(12 * HOUR, tick=60.0)
    stage.world.baseline.hangs = True
    stage.run(10 * MINUTE, until=Phase.FAILED)
    assert stage.world.share == 0.0


def test_where_neither_side_serves_nothing_moves_and_a_person_is_called() -> None:
    stage = shifting()
    stage.world.baseline.hangs = stage.world.speculative.hangs = True
    stage.run(5 * MINUTE, until=Phase.HELD)
    stage.run(HOUR)
    assert stage.world.share == 0.1
    assert len(stage.pages) == 1
    stage.world.speculative.hangs = False
    stage.run(5 * MINUTE, until=Phase.FAILED)
    assert stage.world.share == 0.0


@pytest.mark.parametrize("side", ["baseline", "speculative"])
def test_without_figures_no_step_is_taken_and_none_is_taken_back(side: str) -> None:
    stage = shifting()
    getattr(stage.world, side).page_down = True
    stage.run(9 * MINUTE)
    assert (stage.where(), stage.world.share) == (Phase.HOLDING, 0.1)
    getattr(stage.world, side).page_down = False
    stage.run(20 * MINUTE, until=Phase.DONE)


def test_a_person_is_called_when_the_figures_stay_away() -> None:
    stage = shifting()
    stage.world.baseline.page_down = True
    stage.run(HOUR, until=Phase.HELD)
    assert stage.world.share == 0.1
    assert "metrics cannot be read" in stage.pages[0]
    stage.world.baseline.page_down = False
    stage.order(Order.RUN)
    stage.run(HOUR, until=Phase.DONE)
    assert stage.world.share == 1.0


def test_a_night_without_traffic_is_waited_out() -> None:
    stage = shifting()
    stage.world.running = 0.0
    stage.run(8 * HOUR, tick=30.0)
    assert (stage.where(), stage.pages) == (Phase.HOLDING, [])
    assert stage.world.share < 0.5
    stage.world.running = 8.0
    stage.run(20 * MINUTE, until=Phase.DONE)


def test_a_speculative_side_that_dies_in_mid_shift_hurries_nothing_and_stops_nothing() -> None:
    stage = shifting()
    stage.world.speculative.up = False
    stage.run(30 * MINUTE, until=Phase.DONE)
    assert stage.world.share == 1.0
    assert stage.pages == []


def test_somebody_else_who_moves_the_same_traffic_stops_it() -> None:
    stage = shifting()
    stage.world.share = 0.7
    stage.run(5 * MINUTE, until=Phase.HELD)
    assert "somebody else moves the same traffic" in stage.pages[0]
    assert stage.world.share == 0.7


def test_traffic_put_back_by_hand_is_respected() -> None:
    stage = rolled_back()
    stage.world.share = 0.0
    stage.run(5 * MINUTE, until=Phase.ARMED)
    stage.run(HOUR)
    assert stage.world.share == 0.0, "the cooldown holds"


def test_a_router_that_lies_or_refuses_is_found_out() -> None:
    for fault in ("router_lies", "router_down"):
        stage = Stage()
        stage.hurt()
        setattr(stage.world, fault, True)
        stage.run(20 * MINUTE)
        assert stage.where() in {Phase.FAILED, Phase.HELD}
        assert "failed after 3 tries" in stage.pages[0]
        assert stage.world.share == 0.0


def test_a_failed_undoing_is_not_tried_for_ever() -> None:
    stage = shifting()
    stage.world.baseline.hangs = stage.world.router_down = True
    stage.run(5 * MINUTE, until=Phase.HELD)
    tries = len(stage.world.fences)
    stage.run(HOUR)
    assert len(stage.world.fences) == tries
    assert len(stage.pages) == 2, "that it is taken back, and that it is not"
    stage.world.router_down = False
    stage.order(Order.ABORT)
    stage.run(MINUTE, until=Phase.ABORTED)
    assert stage.world.share == 0.0


def test_a_router_that_knows_only_all_or_nothing() -> None:
    stage = Stage()
    stage.world.has_weights = False
    stage.begin()
    stage.hurt()
    stage.run(30 * MINUTE, until=Phase.DONE)
    stage.mend()
    stage.run(MINUTE)
    stage.order(Order.REARM)
    stage.run(5 * MINUTE, until=Phase.TRIAL)
    assert stage.world.share == 0.0
    stage.run(10 * MINUTE)
    assert stage.where() is Phase.TRIAL
    stage.hurt()
    stage.run(30 * MINUTE, until=Phase.DONE)
    assert stage.world.share == 1.0


# -- people ----------------------------------------------------------------------------------


def test_in_observe_the_same_is_written_and_nothing_moves() -> None:
    stage = Stage(replace(POLICY, mode=Mode.OBSERVE))
    stage.hurt()
    stage.run(2 * DAY, tick=60.0)
    assert not stage.world.applied
    assert set(stage.told) == {Kind.PROPOSED, Kind.EXPIRED}
    assert stage.told.count(Kind.PROPOSED) <= 4
    assert stage.pages == []
    stage.order(Order.APPROVE)
    stage.run(MINUTE)
    assert stage.last() is Kind.REFUSED


def test_a_proposal_and_an_approval_grow_stale() -> None:
    stage = Stage(PROPOSE)
    stage.hurt()
    stage.run(10 * MINUTE, until=Phase.PROPOSED)
    plan = stage.book.news[-1].plan
    stage.run(2 * HOUR)
    assert stage.last() is Kind.EXPIRED
    stage.order(Order.APPROVE, plan=plan)
    stage.run(MINUTE)
    assert stage.last() is Kind.REFUSED
    assert not stage.world.applied


def test_an_approval_of_another_plan_is_refused() -> None:
    stage = Stage(PROPOSE)
    stage.hurt()
    stage.run(10 * MINUTE, until=Phase.PROPOSED)
    stage.order(Order.APPROVE, plan="chat-1")
    stage.run(MINUTE)
    assert stage.where() is Phase.PROPOSED
    assert "it is about chat-1" in stage.book.news[-1].sentence


def test_an_approval_that_waited_too_long_for_a_baseline_is_void() -> None:
    stage = Stage(replace(PROPOSE, start=Start()))
    stage.world.baseline.up = False
    stage.hurt()
    stage.run(10 * MINUTE, until=Phase.PROPOSED)
    stage.order(Order.APPROVE)
    stage.run(5 * MINUTE, until=Phase.BLOCKED)
    stage.run(2 * HOUR, until=Phase.FAILED)
    stage.world.baseline.up = True
    stage.run(HOUR)
    assert stage.world.share == 0.0


def test_a_proposal_is_withdrawn_when_the_service_is_well_again() -> None:
    stage = Stage(PROPOSE)
    stage.hurt()
    stage.run(10 * MINUTE, until=Phase.PROPOSED)
    stage.mend()
    stage.run(10 * MINUTE, until=Phase.ARMED)
    assert stage.told == [Kind.PROPOSED, Kind.WITHDRAWN]


@pytest.mark.parametrize(
    "phase",
    [
        Phase.PROPOSED, Phase.CHECKING, Phase.BLOCKED, Phase.STARTING, Phase.HOLDING,
        Phase.VERIFYING, Phase.DONE, Phase.HELD,
    ],
)  # fmt: skip
def test_an_operator_aborts(phase: Phase) -> None:
    policy = PROPOSE if phase is Phase.PROPOSED else POLICY
    stage = Stage(replace(policy, start=Start(can_start=phase is Phase.STARTING)))
    stage.world.baseline.up = phase not in {Phase.STARTING, Phase.BLOCKED}
    stage.hurt()
    if phase is Phase.HELD:
        stage.run(HOUR, until=Phase.HOLDING)
        stage.world.baseline.page_down = True
    stage.run(HOUR, until=phase)
    stage.order(Order.ABORT)
    stage.run(2 * MINUTE, until=Phase.ABORTED)
    assert stage.world.share == 0.0
    stage.run(2 * DAY, tick=60.0)
    assert stage.where() is Phase.ABORTED, "it stays off until somebody re-arms it"
    stage.world.baseline.up, stage.world.baseline.page_down = True, False
    stage.order(Order.REARM)
    stage.run(20 * MINUTE)
    assert stage.where() is not Phase.ABORTED


def test_an_aborted_trial_leaves_the_traffic_with_the_baseline() -> None:
    stage = rolled_back()
    stage.mend()
    stage.run(MINUTE)
    stage.order(Order.REARM)
    stage.run(5 * MINUTE, until=Phase.TRIAL)
    stage.order(Order.ABORT)
    stage.run(20 * MINUTE, until=Phase.DONE)
    assert stage.world.share == 1.0
    assert len(stage.executor.state.rejected) == 1, "the fixed side did nothing wrong"


def test_an_order_to_run_needs_no_votes_but_the_check() -> None:
    stage = Stage(replace(POLICY, mode=Mode.OBSERVE, start=Start()))
    stage.world.baseline.hangs = True
    stage.order(Order.RUN)
    stage.run(10 * MINUTE, until=Phase.BLOCKED)
    assert stage.world.share == 0.0
    stage.world.baseline.hangs = False
    stage.run(30 * MINUTE, until=Phase.DONE)
    assert stage.world.share == 1.0
    assert stage.executor.state.rejected == (), "nothing was found against that side"


# -- what holds back -------------------------------------------------------------------------


def test_a_service_that_is_bad_for_ever_is_not_moved_for_ever() -> None:
    stage = Stage()
    stage.hurt()
    stage.world.baseline.error_share = 0.3
    stage.run(7 * DAY, tick=60.0)
    plans = {news.plan for news in stage.book.news}
    assert len(plans) <= 14
    begun = sorted(news.at for news in stage.book.news if news.kind is Kind.STARTED)
    assert all(later - at >= 2 * HOUR for at, later in pairwise(begun))
    assert all(sum(at <= other < at + DAY for other in begun) <= 2 for at in begun)


def test_six_hours_without_traffic_or_pages_move_nothing() -> None:
    stage = Stage()
    stage.run(10 * MINUTE)
    stage.world.running = 0.0
    stage.run(6 * HOUR, tick=30.0)
    stage.world.speculative.up = False
    stage.run(6 * HOUR, tick=30.0)
    assert stage.told == []
    assert not stage.world.applied


def test_votes_that_have_faded_while_the_baseline_loaded_move_nothing() -> None:
    stage = Stage()
    stage.world.baseline.up = False
    stage.world.baseline.load_seconds = 100 * MINUTE
    stage.policy = replace(POLICY, start=replace(POLICY.start, deadline=2 * HOUR))
    stage.begin()
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.STARTING)
    stage.world.running = 0.0
    stage.run(2 * HOUR, until=Phase.ARMED)
    assert stage.last() is Kind.WITHDRAWN
    assert stage.world.share == 0.0


def test_an_act_that_is_to_be_tried_again_waits_while_all_is_frozen() -> None:
    stage = Stage()
    stage.world.router_lies = True
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.SHIFTING)
    stage.around = Circumstances(frozen="5 of 6 services became bad")
    tries = len(stage.world.fences)
    stage.run(HOUR)
    assert (stage.where(), len(stage.world.fences)) == (Phase.CHECKING, tries)
    stage.world.router_lies = False
    stage.around = Circumstances()
    stage.run(20 * MINUTE, until=Phase.DONE)


def test_an_uptime_decay_is_first_cured_by_a_restart() -> None:
    stage = Stage()
    stage.cause = Cause.UPTIME_DECAY
    stage.hurt()
    stage.run(HOUR, until=Phase.RESTARTING)
    stage.run(MINUTE)
    assert not stage.world.speculative.up
    stage.run(30 * MINUTE, until=Phase.ARMED)
    assert stage.world.share == 0.0
    assert stage.told == [Kind.STARTED, Kind.STEP, Kind.DONE]
    stage.run(40 * MINUTE, until=Phase.DONE)
    assert stage.world.share == 1.0, "bad again within a day: rolled back"


@pytest.mark.parametrize("mode", [Mode.ACT, Mode.PROPOSE])
def test_a_restart_that_fails_is_followed_by_a_rollback(mode: Mode) -> None:
    stage = Stage(replace(POLICY, mode=mode))
    stage.cause = Cause.UPTIME_DECAY
    stage.world.speculative.load_seconds = 1e9
    stage.hurt()
    if mode is Mode.PROPOSE:
        stage.run(HOUR, until=Phase.PROPOSED)
        stage.order(Order.APPROVE)
    stage.run(HOUR, until=Phase.RESTARTING)
    if mode is Mode.PROPOSE:
        stage.run(HOUR, until=Phase.PROPOSED)
        assert stage.pages[-1].startswith("The restart has failed (no progress for 45 min): ")
        stage.order(Order.APPROVE)
    stage.run(HOUR, until=Phase.DONE)
    assert stage.world.share == 1.0


def test_a_crossover_of_load_moves_only_what_is_too_much() -> None:
    voting = replace(
        POLICY.voting, cures={Cause.LOAD_CROSSOVER: Cure.SHIFT_ABOVE}, running_limit=30.0
    )
    stage = Stage(replace(POLICY, voting=voting))
    stage.cause = Cause.LOAD_CROSSOVER
    stage.world.running = 40.0
    stage.hurt()
    stage.run(HOUR, until=Phase.DONE)
    assert stage.world.share == 0.25


@pytest.mark.parametrize(
    "around",
    [Circumstances(frozen="5 of 6 services became bad"), Circumstances(held="silence 3 of anna")],
)
def test_a_freeze_stops_in_mid_shift_but_not_the_stop_loss(around: Circumstances) -> None:
    stage = shifting()
    stage.around = around
    stage.run(6 * HOUR, tick=30.0)
    assert (stage.where(), stage.world.share, stage.pages) == (Phase.HOLDING, 0.1, [])
    stage.world.baseline.hangs = True
    stage.run(5 * MINUTE, until=Phase.FAILED)
    assert stage.world.share == 0.0
    stage.world.baseline.hangs = False
    stage.run(6 * HOUR, tick=30.0)
    assert stage.world.share == 0.0


@pytest.mark.parametrize("by", [-DAY, -HOUR, HOUR, DAY])
def test_steps_of_the_clock_neither_hurry_nor_stop_it(by: float) -> None:
    stage = Stage()
    stage.world.baseline.up = False
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.STARTING)
    stage.clock.set_utc(stage.clock.utc() + by)
    stage.world.baseline.ready_at = stage.clock.utc() + 25 * MINUTE
    stage.run(10 * MINUTE)
    assert stage.where() is Phase.STARTING
    stage.run(30 * MINUTE, until=Phase.HOLDING)
    stage.clock.set_utc(stage.clock.utc() + by)
    stage.run(60.0)
    assert stage.where() is Phase.HOLDING
    stage.run(40 * MINUTE, until=Phase.DONE)
    assert stage.world.share == 1.0


def test_limits_are_those_of_the_policy() -> None:
    limits = Limits(cooldown=0.0, per_day=1)
    stage = Stage(replace(POLICY, limits=limits, verify=Verify(max_errors=0.0)))
    stage.world.baseline.error_share = 0.3
    stage.hurt()
    stage.run(12 * HOUR, tick=30.0)
    assert stage.told.count(Kind.STARTED) == 1
    assert State.from_json(stage.book.states["chat"]).phase is Phase.FAILED or (
        stage.where() is Phase.ARMED
    )
