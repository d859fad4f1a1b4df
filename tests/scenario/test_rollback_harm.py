"""Ways in which a rollback could hurt those whom it is for, and does not."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from rollback_stage import POLICY, Stage

from monitor.model import Cause
from monitor.rollback.evidence import Circumstances
from monitor.rollback.messages import message
from monitor.rollback.model import Command, Kind, Order, Phase
from monitor.rollback.settings import Cure, Limits, Mode, Start, Verify
from monitor.weekly import parse_weekly

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
OBSERVE, PROPOSE = replace(POLICY, mode=Mode.OBSERVE), replace(POLICY, mode=Mode.PROPOSE)
FROZEN = Circumstances(frozen="5 of 6 services became bad")
SILENCE = Circumstances(held="silence 3 by anna: deploy")


def again(stage: Stage, **changes: object) -> None:
    """The same process with another policy, as after a reload."""
    stage.policy = replace(stage.policy, **changes)  # type: ignore[arg-type]
    stage.reload()


# -- what is not known -----------------------------------------------------------------------


def moved_without_an_answer() -> Stage:
    """The router has set the first share, and nobody was told."""
    stage = Stage()
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.CHECKING)
    stage.run(5.0)
    stage.world.router_forgets = True
    stage.run(20 * MINUTE, until=Phase.HELD)
    return stage


def test_an_abort_takes_back_what_nobody_knows_to_have_moved() -> None:
    stage = moved_without_an_answer()
    assert stage.world.share == 0.1, "the router did it, and never answered"
    stage.world.router_forgets = False
    stage.order(Order.ABORT)
    stage.run(MINUTE, until=Phase.ABORTED)
    assert stage.world.share == 0.0


def test_the_stop_loss_holds_where_nobody_knows_what_has_moved() -> None:
    stage = moved_without_an_answer()
    stage.world.router_forgets = False
    stage.world.baseline.hangs = True
    stage.run(5 * MINUTE, until=Phase.FAILED)
    assert stage.world.share == 0.0


# -- windows of the past ---------------------------------------------------------------------


@pytest.mark.parametrize("change", ["restart", "version"])
def test_windows_of_a_server_that_is_no_more_move_nothing(change: str) -> None:
    stage = Stage()
    stage.around = SILENCE
    stage.hurt()
    stage.run(10 * MINUTE)
    # A deploy that ends the harm: until there is enough traffic, nothing is known of it.
    stage.is_warming_up = change == "restart"
    stage.mend("0.11.0" if change == "restart" else "0.11.1")
    stage.world.running = 0.0
    stage.run(15.0)
    stage.is_warming_up = False
    stage.around = Circumstances()
    stage.run(HOUR)
    assert stage.told == []


def test_a_trial_gets_more_only_by_windows_of_the_share_it_has() -> None:
    stage = Stage()
    stage.hurt()
    stage.run(HOUR, until=Phase.DONE)
    stage.mend()
    stage.run(MINUTE)
    stage.order(Order.REARM)
    stage.run(5 * MINUTE, until=Phase.TRIAL)
    while stage.world.share > 0.5:
        stage.run(5.0)
    # With half of the traffic it costs, which is seen once a window holds little else.
    stage.run(150.0)
    stage.hurt()
    while stage.where() is not Phase.DONE:
        stage.run(5.0)
        assert stage.world.share >= 0.5, "the harm was seen at the first share that showed it"


# -- what the other side was like once -------------------------------------------------------


def test_a_slower_baseline_under_the_load_of_another_day_is_no_fault() -> None:
    stage = Stage()
    stage.hurt()
    stage.run(HOUR, until=Phase.DONE)
    stage.run(6 * HOUR, tick=60.0)
    # The morning: five times the load, and no server is as fast as at night.
    stage.world.running, stage.world.baseline.tpot = 40.0, 0.06
    stage.run(HOUR)
    assert (stage.where(), stage.world.share) == (Phase.DONE, 1.0)


# -- the mode and the hours ------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.BLOCKED, Phase.STARTING, Phase.CHECKING])
def test_a_plan_that_has_done_nothing_obeys_a_stricter_mode(phase: Phase) -> None:
    stage = Stage(replace(POLICY, start=Start(can_start=phase is Phase.STARTING)))
    stage.world.baseline.up = phase is Phase.CHECKING
    stage.hurt()
    stage.run(20 * MINUTE, until=phase)
    again(stage, mode=Mode.OBSERVE)
    stage.world.baseline.up = True
    stage.run(30 * MINUTE)
    assert not any(row.do == "shift" for row in stage.book.steps.values())
    assert Kind.WITHDRAWN in stage.told


def test_a_plan_that_waited_into_quiet_hours_asks_first() -> None:
    # NOON is Sunday, 15 June 2025, 15:06 UTC.
    limits = Limits(quiet=(parse_weekly("sun 15:45-18:00 UTC"),))
    stage = Stage(replace(POLICY, limits=limits, start=Start()))
    stage.world.baseline.up = False
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.BLOCKED)
    stage.run(30 * MINUTE)
    stage.world.baseline.up = True
    stage.run(20 * MINUTE)
    assert (stage.where(), stage.world.share) == (Phase.PROPOSED, 0.0)
    assert "waits for 'monitor rollback approve chat' in quiet hours" in stage.pages[-1]
    stage.order(Order.APPROVE)
    stage.run(30 * MINUTE, until=Phase.DONE)


def test_what_was_only_observed_does_not_hold_back_what_is_meant() -> None:
    stage = Stage(OBSERVE)
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.PROPOSED)
    again(stage, mode=Mode.ACT)
    stage.run(30 * MINUTE, until=Phase.DONE)
    assert stage.world.share == 1.0


def test_people_are_told_of_what_an_order_moves_though_the_mode_is_observe() -> None:
    stage = Stage(replace(OBSERVE, start=Start()))
    stage.order(Order.RUN)
    stage.run(20 * MINUTE, until=Phase.HOLDING)
    stage.world.baseline.hangs = True
    stage.run(5 * MINUTE, until=Phase.FAILED)
    told = [message(news, None) for news in stage.book.news if news.pages]
    assert told
    assert None not in told


# -- orders that lay around ------------------------------------------------------------------


@pytest.mark.parametrize("order", [Order.RUN, Order.REARM])
def test_an_order_of_yesterday_moves_nothing(order: Order) -> None:
    stage = Stage()
    if order is Order.REARM:
        stage.hurt()
        stage.run(HOUR, until=Phase.DONE)
        stage.mend()
        stage.run(MINUTE)
    share, before = stage.world.share, len(stage.book.news)
    stage.book.ask(Command("o1", "chat", order, "anna", stage.clock.utc() - DAY))
    stage.run(HOUR)
    assert stage.world.share == share
    (answer,) = stage.book.news[before:]
    assert answer.kind is Kind.REFUSED
    assert "it was given 24 h ago; give it again" in answer.sentence


def test_an_order_to_run_that_waited_too_long_for_a_baseline_is_void() -> None:
    stage = Stage(replace(POLICY, start=Start()))
    stage.world.baseline.up = False
    stage.order(Order.RUN)
    stage.run(5 * MINUTE, until=Phase.BLOCKED)
    stage.run(2 * HOUR, until=Phase.FAILED)
    stage.world.baseline.up = True
    stage.run(HOUR)
    assert stage.world.share == 0.0


def test_an_approval_that_was_held_up_too_long_is_void() -> None:
    stage = Stage(PROPOSE)
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.PROPOSED)
    stage.around = SILENCE
    stage.order(Order.APPROVE)
    stage.run(2 * MINUTE)
    assert stage.book.news[-1].sentence.endswith("; nothing moves yet: silence 3 by anna: deploy")
    stage.run(5 * HOUR)
    stage.around = Circumstances()
    stage.run(HOUR)
    assert stage.world.share == 0.0
    assert stage.told[:3] == [Kind.PROPOSED, Kind.APPROVED, Kind.EXPIRED]


# -- what holds back -------------------------------------------------------------------------


@pytest.mark.parametrize("around", [FROZEN, SILENCE])
def test_an_order_is_carried_out_whatever_holds_the_monitor_back(around: Circumstances) -> None:
    stage = Stage()
    stage.around = around
    stage.hurt()
    stage.run(20 * MINUTE)
    assert stage.told == []
    stage.order(Order.RUN)
    stage.run(HOUR, until=Phase.DONE)
    assert stage.world.share == 1.0


@pytest.mark.parametrize("around", [FROZEN, SILENCE])
@pytest.mark.parametrize("end", ["abort", "dead"])
def test_a_trial_ends_whatever_holds_the_monitor_back(around: Circumstances, end: str) -> None:
    stage = Stage()
    stage.hurt()
    stage.run(HOUR, until=Phase.DONE)
    stage.mend()
    stage.run(MINUTE)
    stage.order(Order.REARM)
    stage.run(5 * MINUTE, until=Phase.TRIAL)
    stage.around = around
    if end == "abort":
        stage.order(Order.ABORT)
    stage.world.speculative.hangs = end == "dead"
    stage.run(5 * MINUTE)
    assert stage.world.share == 1.0


@pytest.mark.parametrize("around", [FROZEN, SILENCE])
def test_a_side_is_not_tried_again_while_nothing_may_be_tried(around: Circumstances) -> None:
    stage = Stage()
    stage.hurt()
    stage.run(HOUR, until=Phase.DONE)
    stage.mend()
    stage.run(MINUTE)
    stage.around = around
    stage.order(Order.REARM)
    stage.run(MINUTE)
    assert stage.last() is Kind.REFUSED
    assert stage.book.news[-1].sentence.endswith(str(around.frozen or around.held))


def test_a_restart_that_a_silence_held_up_has_not_failed() -> None:
    stage = Stage()
    stage.cause = Cause.UPTIME_DECAY
    stage.world.router_down = True
    stage.hurt()
    stage.run(HOUR, until=Phase.RESTARTING)
    while stage.executor.state.step is None:
        stage.run(5.0)
    stage.around = SILENCE
    stage.world.router_down = False
    stage.mend("0.11.0")
    stage.run(3 * HOUR)
    assert stage.where() is Phase.RESTARTING
    stage.around = Circumstances()
    stage.run(HOUR)
    assert (stage.where(), stage.world.share) == (Phase.ARMED, 0.0)


def test_a_first_step_that_a_silence_held_up_needs_votes_of_now() -> None:
    stage = Stage()
    stage.world.router_lies = True
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.SHIFTING)
    stage.around = SILENCE
    stage.run(HOUR)
    stage.world.router_lies = False
    stage.mend("0.11.0")
    stage.run(3 * HOUR)
    stage.around = Circumstances()
    stage.run(HOUR)
    assert (stage.where(), stage.world.share) == (Phase.ARMED, 0.0)


def test_a_clock_that_was_years_ahead_does_not_disarm_for_years() -> None:
    stage = Stage()
    stage.clock.set_utc(stage.clock.utc() + 3650 * DAY)
    stage.cause = Cause.UPTIME_DECAY
    stage.hurt()
    stage.run(HOUR, until=Phase.RESTARTING)
    stage.world.speculative.load_seconds = 60.0
    stage.run(HOUR, until=Phase.ARMED)
    stage.clock.set_utc(stage.clock.utc() - 3650 * DAY)
    stage.run(HOUR, until=Phase.DONE)


# -- room --------------------------------------------------------------------------------------


def test_a_baseline_that_another_service_fills_meanwhile_gets_no_more() -> None:
    stage = Stage()
    stage.world.running = 40.0
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.HOLDING)
    stage.world.neighbour = 40.0
    stage.run(30 * MINUTE, until=Phase.HELD)
    assert stage.world.share == 0.1
    assert "too small: room for 20 running requests where 43 are needed" in stage.pages[-1]


def test_a_baseline_is_not_too_small_for_what_it_has_already() -> None:
    stage = Stage()
    stage.world.running = 50.0
    stage.hurt()
    stage.run(HOUR, until=Phase.DONE)
    assert stage.world.share == 1.0


def test_an_order_that_cannot_be_carried_out_is_refused_at_once() -> None:
    stage = Stage(OBSERVE)
    stage.around = Circumstances(lacks="no rollback.actuator is configured for it")
    stage.order(Order.RUN)
    stage.run(MINUTE)
    (answer,) = stage.book.news
    assert answer.sentence == (
        "'run chat' was refused: nothing can be moved: no rollback.actuator is configured for it"
    )
    assert stage.where() is Phase.ARMED


# -- who was left, and who is left with it -----------------------------------------------------


def test_what_a_person_moved_is_not_taken_back_by_itself() -> None:
    stage = Stage(replace(POLICY, trial=replace(POLICY.trial, auto=True)))
    stage.run(10 * MINUTE)
    stage.order(Order.RUN)
    stage.run(HOUR, until=Phase.DONE)
    stage.run(5 * HOUR, tick=30.0)
    assert (stage.where(), stage.world.share) == (Phase.DONE, 1.0)


@pytest.mark.parametrize("auto", [True, False])
def test_a_side_that_shows_less_of_itself_is_no_other_one(auto: bool) -> None:
    stage = Stage(replace(POLICY, trial=replace(POLICY.trial, auto=auto)))
    stage.hurt()
    stage.run(HOUR, until=Phase.DONE)
    # Restarted and without traffic, its page does not tell how it speculates.
    stage.identity = stage.identity._replace(method=None, draft_size=None)
    stage.run(3 * HOUR, tick=30.0)
    stage.order(Order.REARM)
    stage.run(MINUTE)
    assert stage.last() is Kind.REFUSED
    assert Kind.TRIAL not in stage.told
    assert (stage.where(), stage.world.share) == (Phase.DONE, 1.0)


def test_a_person_is_called_when_there_is_nothing_left_to_watch() -> None:
    stage = Stage()
    stage.hurt()
    stage.run(HOUR, until=Phase.DONE)
    stage.is_probed = False
    stage.reload()
    stage.run(30 * MINUTE, until=Phase.HELD)
    assert "there is no baseline side to look at" in stage.pages[-1]


def test_an_order_moves_the_rest_of_what_was_moved_in_part() -> None:
    voting = replace(
        POLICY.voting, cures={Cause.LOAD_CROSSOVER: Cure.SHIFT_ABOVE}, running_limit=30.0
    )
    stage = Stage(replace(POLICY, voting=voting))
    stage.cause, stage.world.running = Cause.LOAD_CROSSOVER, 40.0
    stage.hurt()
    stage.run(HOUR, until=Phase.DONE)
    assert stage.world.share == 0.25
    stage.order(Order.RUN)
    stage.run(MINUTE)
    stage.run(HOUR, until=Phase.DONE)
    assert stage.world.share == 1.0


def test_an_approval_right_after_a_restart_of_the_monitor_is_not_lost() -> None:
    stage = Stage(PROPOSE)
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.PROPOSED)
    stage.begin()
    stage.is_watched = False
    stage.order(Order.APPROVE)
    stage.run(2 * MINUTE)
    stage.is_watched = True
    stage.run(30 * MINUTE, until=Phase.DONE)
    assert Kind.WITHDRAWN not in stage.told


# -- what was moved is never forgotten ---------------------------------------------------------


def test_what_is_held_at_all_the_traffic_is_watched_on_when_it_goes_on() -> None:
    stage = Stage(replace(POLICY, start=Start()))
    stage.hurt()
    stage.run(HOUR, until=Phase.DONE)
    stage.world.speculative.hangs = True
    stage.run(10 * MINUTE)
    stage.order(Order.ABORT)
    stage.run(MINUTE, until=Phase.HELD)
    stage.order(Order.RUN)
    stage.run(HOUR, until=Phase.DONE)
    assert stage.world.share == 1.0
    stage.world.speculative.hangs, stage.world.baseline.hangs = False, True
    stage.run(10 * MINUTE, until=Phase.FAILED)
    assert stage.world.share == 0.0


@pytest.mark.parametrize("starts", ["refused", "never up"])
def test_a_start_in_mid_plan_that_fails_leaves_a_person_with_the_rest(starts: str) -> None:
    stage = Stage(replace(POLICY, verify=Verify(misses=2000)))
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.HOLDING)
    stage.world.baseline.page_down = True
    stage.run(20 * MINUTE, until=Phase.HELD)
    stage.world.baseline.up, stage.world.baseline.load_seconds = False, 1e9
    stage.world.router_down = starts == "refused"
    stage.order(Order.RUN)
    stage.run(5 * MINUTE, until=Phase.STARTING)
    stage.run(2 * HOUR, until=Phase.HELD)
    assert stage.pages[-1].startswith("Held where it is: the baseline side ")
    assert (stage.executor.state.share, stage.world.share) == (0.1, 0.1)


def test_what_may_have_moved_is_not_taken_for_where_it_began() -> None:
    stage = Stage(replace(POLICY, start=Start()))
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.CHECKING)
    stage.run(5.0)
    stage.world.router_forgets = True
    stage.run(20 * MINUTE, until=Phase.HELD)
    stage.order(Order.RUN)
    stage.run(10.0)
    stage.world.router_forgets = False
    stage.run(5 * MINUTE, until=Phase.HOLDING)
    assert stage.executor.state.origin == 0.0
    stage.order(Order.ABORT)
    stage.run(MINUTE, until=Phase.ABORTED)
    assert stage.world.share == 0.0


def test_a_cooldown_also_follows_a_proposal_that_nobody_wanted() -> None:
    stage = Stage(replace(PROPOSE, limits=Limits(per_day=9)))
    stage.hurt()
    stage.run(12 * HOUR, tick=30.0)
    proposed = [news.at for news in stage.book.news if news.kind is Kind.PROPOSED]
    assert len(proposed) == 4
    assert all(later - at >= 3 * HOUR for at, later in pairwise(proposed))


def test_an_order_to_try_a_dead_side_gives_it_no_traffic() -> None:
    stage = Stage(replace(POLICY, start=Start()))
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.HOLDING)
    stage.world.baseline.hangs = stage.world.speculative.hangs = True
    stage.run(5 * MINUTE, until=Phase.HELD)
    stage.order(Order.REARM)
    stage.run(10 * MINUTE)
    assert (stage.where(), stage.world.share) == (Phase.HELD, 0.1)


def test_another_model_gets_no_traffic_where_pages_name_none() -> None:
    stage = Stage(replace(POLICY, start=Start()))
    stage.identity = stage.identity._replace(model=None)
    stage.world.baseline.model = "other/model"
    stage.hurt()
    stage.run(20 * MINUTE, until=Phase.BLOCKED)
    assert "serves other/model instead of" in stage.pages[0]


@pytest.mark.parametrize("auto", [True, False])
def test_whoever_asked_for_a_trial_hears_that_there_is_none(auto: bool) -> None:
    stage = Stage(replace(POLICY, trial=replace(POLICY.trial, auto=auto)))
    stage.hurt()
    stage.run(HOUR, until=Phase.DONE)
    stage.mend()
    stage.run(MINUTE)
    stage.world.speculative.page_down = True
    if not auto:
        stage.order(Order.REARM)
    stage.run(3 * HOUR, tick=30.0)
    assert stage.last() is Kind.REFUSED
    assert [page.startswith("No trial: ") for page in stage.pages] == ([] if auto else [True])


def test_a_restart_is_not_told_as_a_rollback() -> None:
    stage = Stage()
    stage.cause = Cause.UPTIME_DECAY
    stage.hurt()
    stage.run(HOUR, until=Phase.RESTARTING)
    stage.run(HOUR, until=Phase.ARMED)
    told = [message(news, None) for news in stage.book.news]
    assert [found.title for found in told if found is not None] == [
        "chat: a restart of the speculative side begins",
        "chat: the speculative side has been restarted",
    ]


def test_a_trial_that_could_not_begin_by_itself_is_begun_later() -> None:
    stage = Stage(replace(POLICY, trial=replace(POLICY.trial, auto=True)))
    stage.hurt()
    stage.run(HOUR, until=Phase.DONE)
    stage.mend()
    stage.world.speculative.page_down = True
    stage.run(3 * HOUR, tick=30.0)
    assert stage.last() is Kind.REFUSED
    stage.world.speculative.page_down = False
    stage.run(4 * HOUR, until=Phase.ARMED)
    assert stage.world.share == 0.0
