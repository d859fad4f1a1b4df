"""Stories of a target under simulated traffic, told through its state alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traffic import INTERVAL, START, Server

from monitor.health import memory
from monitor.health.baseline import Baseline, BaselinePoint
from monitor.health.judging import JudgeSettings
from monitor.health.target import TargetState
from monitor.model import Action, Alarm, Assessment, Cause, Increment, Verdict
from monitor.pipeline import state_text

PLAIN = Baseline("plain", tuple(BaselinePoint(n, 0.011 + 0.0005 * n) for n in (1.0, 8.0, 64.0)))
Turn = Callable[[Server], None]


class Watcher:
    """A target state and what it said."""

    def __init__(self, server: Server, baseline: Baseline | None = None) -> None:
        self.server = server
        self.state = TargetState("t", INTERVAL, JudgeSettings(baseline=baseline))
        self.said: list[Assessment] = []
        self.increments: list[Increment] = []

    def watch(self, minutes: float) -> Assessment:
        for _ in range(int(minutes * 60.0 / INTERVAL)):
            self.increments += self.state.observe(self.server.look())
            answer = self.state.assess(self.server.now)
            self.state.memory.verdict = (answer.verdict, answer.cause, answer.action)
            self.said.append(answer)
        return self.said[-1]

    def verdicts(self) -> list[Verdict]:
        """The verdicts in order, each once for a stretch."""
        seen: list[Verdict] = []
        for answer in self.said:
            if not seen or seen[-1] is not answer.verdict:
                seen.append(answer.verdict)
        return seen


def test_collapse_is_seen_within_two_minutes_and_dated() -> None:
    watcher = Watcher(Server())
    assert watcher.watch(20).verdict is Verdict.UNPROVEN
    collapse = watcher.server.now
    watcher.server.q = 0.25
    watcher.watch(10)
    found = next(a for a in watcher.said if a.verdict is Verdict.DEGRADED)
    assert found.at - collapse <= 120.0
    last = watcher.said[-1]
    assert last.verdict is Verdict.DEGRADED
    minute = int(collapse // 60) % 60
    assert f":{minute:02d} UTC" in last.sentence


def test_dead_drafter_needs_no_baseline_and_recovers_by_itself() -> None:
    watcher = Watcher(Server())
    watcher.watch(10)
    watcher.server.q = 0.002
    assert watcher.watch(3).cause is Cause.DRAFTER_DEAD
    watcher.server.q = 0.8
    assert watcher.watch(20).verdict in (Verdict.UNPROVEN, Verdict.HEALTHY)


def test_gain_and_loss_against_a_baseline() -> None:
    watcher = Watcher(Server(), PLAIN)
    assert watcher.watch(20).verdict is Verdict.HEALTHY
    watcher.server.step = 0.060
    answer = watcher.watch(20)
    assert answer.verdict is Verdict.HARMFUL
    assert answer.cause is Cause.STEP_COST
    assert set(watcher.verdicts()[-2:]) == {Verdict.HEALTHY, Verdict.HARMFUL}


def test_load_crossover_is_told_from_a_dear_step() -> None:
    watcher = Watcher(Server(), PLAIN)
    watcher.watch(30)
    watcher.server.running, watcher.server.step = 48.0, 0.160
    answer = watcher.watch(15)
    assert (answer.verdict, answer.cause) == (Verdict.HARMFUL, Cause.LOAD_CROSSOVER)
    assert answer.action is Action.CHECK_LOAD


def test_slower_steps_without_a_baseline() -> None:
    watcher = Watcher(Server())
    watcher.watch(30)
    watcher.server.step *= 2.0
    answer = watcher.watch(15)
    assert (answer.verdict, answer.cause) == (Verdict.DEGRADED, Cause.STEP_COST)
    assert answer.action is Action.RESTART


def test_restart_warms_up_and_goes_on() -> None:
    watcher = Watcher(Server())
    watcher.watch(10)
    watcher.server.restart()
    cold = watcher.watch(0.5)
    assert (cold.verdict, cold.cause) == (Verdict.INSUFFICIENT, Cause.WARMING_UP)
    assert watcher.watch(5).verdict is Verdict.UNPROVEN
    assert sum(i.counts.resets for i in watcher.increments) == 1.0


def test_a_fall_at_a_restart_is_laid_to_what_the_restart_brought() -> None:
    server = Server(version="0.31.0")
    watcher = Watcher(server)
    watcher.watch(30)
    server.restart()
    server.version, server.q = "0.32.0", 0.45
    answer = watcher.watch(15)
    assert answer.verdict is Verdict.DEGRADED
    assert answer.cause is Cause.VERSION_CHANGE


def test_another_draft_size_is_no_decay() -> None:
    server = Server(k=3, q=0.8)
    watcher = Watcher(server)
    watcher.watch(30)
    server.k, server.positions = 6, [*server.positions, 0.0, 0.0, 0.0]
    watcher.watch(30)
    assert Verdict.DEGRADED not in watcher.verdicts()
    assert watcher.state.memory.watch.drop.alarm_at is None


def test_idle_night_raises_nothing_and_keeps_no_old_verdict() -> None:
    watcher = Watcher(Server())
    watcher.watch(20)
    watcher.server.running = 0.0
    assert watcher.watch(30).verdict is Verdict.IDLE
    watcher.server.running = 4.0
    watcher.watch(10)
    assert set(watcher.verdicts()) <= {Verdict.INSUFFICIENT, Verdict.UNPROVEN, Verdict.IDLE}


def test_after_a_day_acceptance_in_line_with_itself_is_healthy() -> None:
    watcher = Watcher(Server())
    watcher.watch(60 * 5)
    assert watcher.said[-1].verdict is Verdict.HEALTHY
    reference = watcher.state.memory.watch.reference(watcher.state.identity)
    normal = reference.normal(watcher.server.now)
    assert normal is not None
    true = sum(0.8**i for i in (1, 2, 3)) / 3
    assert normal.rate == pytest.approx(true, abs=0.01)


def test_small_drop_is_found_by_the_detector_though_far_above_the_threshold() -> None:
    watcher = Watcher(Server(spread=0.01))
    watcher.watch(60 * 26)
    assert watcher.state.memory.watch.drop.alarm_at is None
    fall = watcher.server.now
    watcher.server.q = 0.70
    watcher.watch(60)
    watch = watcher.state.memory.watch
    assert watch.drop.alarm_at is not None
    assert watch.drop.changed_at is not None
    assert abs(watch.drop.changed_at - fall) <= 60.0
    assert watcher.said[-1].verdict is Verdict.DEGRADED
    watcher.server.q = 0.8
    watcher.watch(60)
    assert watch.drop.alarm_at is None
    assert watcher.said[-1].verdict is Verdict.HEALTHY


def test_a_reference_is_not_learnt_from_the_fault_it_should_show() -> None:
    watcher = Watcher(Server())
    watcher.watch(60 * 3)
    reference = watcher.state.memory.watch.reference(watcher.state.identity)
    before = reference.normal(watcher.server.now)
    watcher.server.q = 0.3
    watcher.watch(60 * 24)
    after = reference.normal(watcher.server.now)
    assert before is not None
    assert after is not None
    assert after.rate == pytest.approx(before.rate, abs=0.01)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 199), max_size=4), st.sampled_from([None, PLAIN]))
def test_a_restored_target_goes_on_exactly_where_it_stopped(
    cuts: list[int], baseline: Baseline | None
) -> None:
    """Whenever the monitor is killed, what it says afterwards is what it would have said."""
    whole, cut = Watcher(Server(), baseline), Watcher(Server(), baseline)
    turns: dict[int, Turn] = {
        80: lambda server: setattr(server, "q", 0.4),
        120: lambda server: server.restart(),
        160: lambda server: setattr(server, "q", 0.8),
    }
    for index in range(200):
        for watcher in (whole, cut):
            if index in turns:
                turns[index](watcher.server)
            watcher.watch(INTERVAL / 60.0)
        if index in cuts:
            text = state_text(cut.state)
            cut.state = TargetState("t", INTERVAL, JudgeSettings(baseline=baseline))
            memory.restore(cut.state, text, cut.increments)
    for ours, theirs in zip(whole.said, cut.said, strict=True):
        assert ours.verdict is theirs.verdict
        assert ours.acceptance_rate == theirs.acceptance_rate
        assert ours.window is None or theirs.window is None or ours.window == theirs.window


def test_stored_increments_of_a_killed_monitor_are_bridged_by_the_next_page() -> None:
    """Pages missed while the monitor was down are not lost: the counters tell their sum."""
    watcher = Watcher(Server())
    watcher.watch(10)
    text, drafted = state_text(watcher.state), watcher.server.counters["drafts"]
    watcher.server.look(600.0)
    state = TargetState("t", INTERVAL, JudgeSettings())
    memory.restore(state, text, watcher.increments)
    (increment,) = state.observe(watcher.server.look())
    assert increment.counts.drafts == watcher.server.counters["drafts"] - drafted
    assert (increment.start, increment.end) == (START + 600.0, START + 1215.0)
    window = state.assess_window(60.0, watcher.server.now).window
    assert window is not None
    assert window.counts.drafts == 0.0


def test_a_server_whose_clock_is_ahead_does_not_warm_up_for_ever() -> None:
    watcher = Watcher(Server(birth=START + 7200.0))
    assert watcher.watch(5).verdict is Verdict.UNPROVEN
    watcher.server.restart(at=watcher.server.now + 7200.0)
    assert watcher.watch(0.5).verdict is Verdict.INSUFFICIENT
    assert watcher.watch(10).verdict is Verdict.UNPROVEN


def test_an_engine_that_is_gone_for_a_day_is_forgotten() -> None:
    server = Server()
    state = TargetState("t", INTERVAL, JudgeSettings())
    state.observe(server.look())
    other = server.look()
    state.observe(replace(other, readings=[replace(other.readings[0], label="9")]))
    assert set(state.memory.tracks) == {"0", "9"}
    state.observe(server.look(86_400.0))
    assert set(state.memory.tracks) == {"0", "9"}
    state.observe(server.look())
    assert set(state.memory.tracks) == {"0"}


def test_nothing_is_learnt_to_be_normal_while_an_alert_is_open() -> None:
    watcher = Watcher(Server())
    watcher.state.alerted = True
    assert watcher.watch(180).verdict is Verdict.UNPROVEN
    reference = watcher.state.memory.watch.reference(watcher.state.identity)
    assert reference.requests == 0.0
    watcher.state.alerted = False
    watcher.watch(180)
    assert reference.requests > 0.0


def test_slower_steps_are_found_by_the_detector_while_acceptance_is_flat() -> None:
    """A quarter more per step, far from a loss: too little for the shape of the past hour."""
    watcher = Watcher(Server(), PLAIN)
    assert watcher.watch(60 * 6).verdict is Verdict.HEALTHY
    watch = watcher.state.memory.watch
    assert not watch.alarms
    rise = watcher.server.now
    watcher.server.step *= 1.25
    watcher.watch(30)
    assert [*watch.alarms] == [Alarm.SLOWDOWN]
    assert watch.pace.fall.changed_at is not None
    assert abs(watch.pace.fall.changed_at - rise) <= 120.0
    watcher.server.step /= 1.25
    watcher.watch(60)
    assert not watch.alarms


def test_what_is_learnt_of_the_speedup_survives_a_restart_of_the_monitor() -> None:
    watcher = Watcher(Server(), PLAIN)
    watcher.watch(60 * 4)
    before = watcher.state.memory.watch.pace
    assert before.loads
    state = TargetState("t", INTERVAL, JudgeSettings(baseline=PLAIN))
    memory.restore(state, state_text(watcher.state), watcher.increments)
    after = state.memory.watch.pace
    assert (after.loads, after.fall, after.run) == (before.loads, before.fall, before.run)


@pytest.mark.parametrize("change", [{"k": 5}, {"version": "2.0"}])
def test_another_kind_of_server_begins_with_a_speedup_unknown(change: dict[str, object]) -> None:
    watcher = Watcher(Server(version="1.0"), PLAIN)
    watcher.watch(60 * 4)
    assert watcher.state.memory.watch.pace.loads
    for name, value in change.items():
        setattr(watcher.server, name, value)
    watcher.server.restart()
    watcher.watch(10)
    assert watcher.state.memory.watch.pace.loads == {}


def test_another_baseline_begins_with_a_speedup_unknown() -> None:
    watcher = Watcher(Server(), PLAIN)
    watcher.watch(60 * 4)
    watcher.state.use_baseline(replace(PLAIN, measured_at=1.0))
    assert watcher.state.memory.watch.pace.loads
    watcher.state.use_baseline(replace(PLAIN, name="another"))
    assert watcher.state.memory.watch.pace.loads == {}
