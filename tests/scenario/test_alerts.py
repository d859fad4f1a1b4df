"""Stories of alerts: simulated traffic, the real verdicts, the shipped rules, a clock by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from traffic import INTERVAL, Server

from monitor.alerting.machine import AlertState, applying, step
from monitor.alerting.model import Notification, Reason, Severity, State
from monitor.alerting.rules import By, Condition, Facts, Figure, Limit, Rule
from monitor.alerting.ruleset import load_rules
from monitor.health.baseline import Baseline, BaselinePoint
from monitor.health.judging import JudgeSettings
from monitor.health.target import TargetState
from monitor.model import (
    Action,
    Alarm,
    Assessment,
    BaselineMatch,
    Cause,
    Counts,
    Estimate,
    Verdict,
    Window,
)

PLAIN = Baseline("plain", tuple(BaselinePoint(n, 0.011 + 0.0005 * n) for n in (1.0, 8.0, 64.0)))
DEFAULTS = load_rules([]).rules
HOUR = 60.0


class Stage:
    """A server, the monitor's verdicts on it, and what the alert rules make of them."""

    def __init__(
        self,
        server: Server | None = None,
        baseline: Baseline | None = PLAIN,
        rules: Sequence[Rule] = DEFAULTS,
        threshold: float | None = None,
    ) -> None:
        self.server = server or Server()
        self.rules = rules
        self.threshold = threshold
        judge = JudgeSettings(baseline=baseline, threshold=threshold or 0.40)
        self.target = TargetState("gpu1", INTERVAL, judge)
        self.last: Assessment | None = None
        self.states: dict[str, AlertState] = {}
        self.told: list[Notification] = []

    def watch(self, minutes: float) -> None:
        """Time in which pages come."""
        for _ in range(round(minutes * 60.0 / INTERVAL)):
            self.target.observe(self.server.look())
            self._step(self.target.assess(self.server.now), fresh=True)

    def lose(self, minutes: float) -> None:
        """Time in which the server gives no page."""
        for _ in range(round(minutes * 60.0 / INTERVAL)):
            self.server.now += INTERVAL
            now = self.server.now
            if self.target.misses_pages(now) or self.last is None:
                self._step(self.target.down("connection refused", now), fresh=True)
            else:
                self._step(self.last, fresh=False)

    def sleep(self, minutes: float) -> None:
        """Time in which the daemon does not run, while the server does; then a new process."""
        self.server.look(minutes * 60.0)
        stored = {name: state.to_json() for name, state in self.states.items()}
        self.states = {name: AlertState.from_json(text) for name, text in stored.items()}

    def _step(self, assessment: Assessment, *, fresh: bool) -> None:
        self.target.memory.verdict = (assessment.verdict, assessment.cause, assessment.action)
        self.last = assessment
        facts = Facts(
            assessment,
            "chat",
            fresh=fresh,
            alarms=self.target.memory.watch.alarms,
            threshold=self.threshold or 0.40,
            threshold_is_set=self.threshold is not None,
        )
        self.states, told = step(
            applying(self.rules, facts), self.states, facts, self.server.now, INTERVAL
        )
        self.told += told

    def said(self) -> list[tuple[str, Reason]]:
        """All messages by rule and reason."""
        return [(message.rule, message.reason) for message in self.told]

    def of(self, rule: str) -> list[Notification]:
        return [message for message in self.told if message.rule == rule]

    def only(self, *names: str) -> Stage:
        self.rules = [rule for rule in DEFAULTS if rule.id in names]
        return self


def test_a_collapse_is_told_within_minutes_and_its_recovery_with_the_same_incident() -> None:
    stage = Stage()
    stage.watch(20)
    assert stage.told == []
    collapse = stage.server.now
    stage.server.q, stage.server.step = 0.15, 0.035
    stage.watch(30)
    first = stage.told[0]
    assert (first.rule, first.reason, first.severity) == (
        "harmful",
        Reason.FIRST,
        Severity.CRITICAL,
    )
    assert first.at - collapse <= 300.0
    assert first.votes_for_rollback
    assert "speculation costs" in first.sentence
    stage.server.q, stage.server.step = 0.8, 0.025
    stage.watch(60)
    last = stage.of("harmful")[-1]
    assert last.reason is Reason.RESOLVED
    assert last.incident == first.incident
    assert last.started_at == first.started_at
    assert last.sequence == len(stage.of("harmful"))
    assert not last.votes_for_rollback


def test_a_dead_drafter_is_told_without_a_baseline_and_so_is_its_recovery() -> None:
    stage = Stage(baseline=None).only("drafter_dead", "harmful", "acceptance_below_threshold")
    stage.watch(20)
    stage.server.q = 0.002
    stage.watch(10)
    stage.server.q = 0.8
    stage.watch(40)
    assert stage.said() == [("drafter_dead", Reason.FIRST), ("drafter_dead", Reason.RESOLVED)]


def test_acceptance_around_the_threshold_for_six_hours_is_told_at_most_twice() -> None:
    # The mean of q + q² + q³ over three positions is 0.40 at q = 0.5968.
    stage = Stage(baseline=None, threshold=0.40).only("acceptance_below_threshold")
    stage.server.spread = 0.04
    for turn in range(72):
        stage.server.q = 0.58 if turn % 2 else 0.62
        stage.watch(5)
    assert len(stage.told) <= 2


def test_a_server_that_pays_and_costs_by_turns_for_six_hours_is_told_at_most_twice() -> None:
    stage = Stage().only("harmful", "acceptance_below_threshold", "dropped")
    for turn in range(72):
        stage.server.step = 0.050 if turn % 2 else 0.025
        stage.watch(5)
    assert len(stage.told) <= 2


def test_six_idle_hours_raise_nothing() -> None:
    stage = Stage()
    stage.watch(20)
    stage.server.running = 0.0
    stage.watch(6 * HOUR)
    assert stage.told == []
    assert stage.states == {}


def test_a_server_killed_while_its_alert_fires_is_not_taken_for_well() -> None:
    stage = Stage()
    stage.watch(20)
    stage.server.step = 0.060
    stage.watch(20)
    assert stage.said() == [("harmful", Reason.FIRST)]
    stage.lose(24 * HOUR)
    ours = [message.reason for message in stage.of("harmful")]
    assert ours == [Reason.FIRST, Reason.NO_DATA]
    quiet = stage.of("harmful")[-1]
    assert quiet.severity is Severity.INFO
    assert quiet.incident == stage.told[0].incident
    assert "nothing has been known for 30 min" in quiet.sentence
    assert {message.rule for message in stage.told} == {"harmful", "target_down"}
    assert stage.states["harmful"].state is State.FIRING


def test_an_hour_without_the_daemon_does_not_complete_what_is_pending() -> None:
    stage = Stage().only("harmful")
    stage.rules = [replace(stage.rules[0], hold_seconds=1800.0)]
    stage.watch(20)
    stage.server.step = 0.060
    stage.watch(10)
    assert stage.states["harmful"].state is State.PENDING
    held = stage.states["harmful"].held
    stage.sleep(60)
    stage.watch(1)
    assert stage.told == []
    assert stage.states["harmful"].held <= held + 2.5 * INTERVAL + 60.0
    stage.watch(30)
    assert stage.said() == [("harmful", Reason.FIRST)]


def test_an_hour_without_the_daemon_keeps_what_fires() -> None:
    stage = Stage().only("harmful")
    stage.watch(20)
    stage.server.step = 0.060
    stage.watch(20)
    before = stage.states["harmful"]
    stage.sleep(60)
    stage.watch(20)
    after = stage.states["harmful"]
    assert (after.state, after.incident) == (State.FIRING, before.incident)
    assert stage.said() == [("harmful", Reason.FIRST)]


def test_a_recovery_while_the_daemon_was_down_is_told_only_after_a_watch_of_its_own() -> None:
    stage = Stage().only("harmful")
    stage.watch(20)
    stage.server.step = 0.060
    stage.watch(20)
    stage.server.step = 0.025
    stage.sleep(60)
    stage.watch(5)
    assert stage.said() == [("harmful", Reason.FIRST)]
    stage.watch(30)
    assert stage.said()[-1] == ("harmful", Reason.RESOLVED)


def low_acceptance(bound: float, **changes: object) -> Rule:
    enter = Limit(Figure.ACCEPTANCE_RATE, is_below=True, bound=bound, by=By.HIGH)
    rule = Rule("low", Condition(limits=(enter,)), Severity.WARNING, "$target is low")
    return replace(rule, **changes)  # type: ignore[arg-type]


def test_a_threshold_edited_while_it_fires_keeps_the_incident_and_counts_at_once() -> None:
    stage = Stage(baseline=None, rules=[low_acceptance(0.70)])
    stage.watch(20)
    assert stage.said() == [("low", Reason.FIRST)]
    incident = stage.told[0].incident
    stage.rules = [low_acceptance(0.68, summary="other words")]
    stage.watch(10)
    assert stage.states["low"].incident == incident
    assert len(stage.told) == 1
    stage.rules = [low_acceptance(0.30)]
    stage.watch(5)
    assert [(m.reason, m.incident) for m in stage.told[1:]] == [(Reason.RESOLVED, incident)]


def test_another_severity_is_told_once_and_a_removed_rule_says_so() -> None:
    stage = Stage(baseline=None, rules=[low_acceptance(0.70)])
    stage.watch(20)
    stage.rules = [low_acceptance(0.70, severity=Severity.CRITICAL)]
    stage.watch(20)
    assert [m.reason for m in stage.told] == [Reason.FIRST, Reason.SEVERITY]
    assert stage.told[1].sentence.startswith("now critical, before warning: ")
    stage.rules = []
    stage.watch(1)
    assert stage.told[-1].reason is Reason.RESOLVED
    assert "its rule is no longer in force" in stage.told[-1].sentence
    assert stage.states == {}


def test_reminders_come_ever_later() -> None:
    stage = Stage().only("harmful")
    stage.watch(20)
    stage.server.step = 0.060
    stage.watch(30 * HOUR)
    times = [m.at for m in stage.told]
    gaps = [round((b - a) / 3600.0) for a, b in pairwise(times)]
    assert gaps == [4, 8, 16]


# -- properties --------------------------------------------------------------------------

ALLOWED = {
    (State.INACTIVE, State.INACTIVE),
    (State.INACTIVE, State.PENDING),
    (State.INACTIVE, State.FIRING),
    (State.PENDING, State.INACTIVE),
    (State.PENDING, State.PENDING),
    (State.PENDING, State.FIRING),
    (State.FIRING, State.FIRING),
    (State.FIRING, State.RESOLVED),
    (State.RESOLVED, State.RESOLVED),
    (State.RESOLVED, State.INACTIVE),
    (State.RESOLVED, State.PENDING),
    (State.RESOLVED, State.FIRING),
}
verdicts = st.sampled_from(list(Verdict))
looks = st.tuples(
    verdicts,
    st.sampled_from([None, Cause.DRAFTER_DEAD, Cause.WEAK_DRAFTER, Cause.ENGINE_OUTLIER]),
    st.floats(0.0, 1.0),
    st.booleans(),
    st.sampled_from([15.0, 15.0, 15.0, 60.0, 4000.0]),
    st.integers(1, 8),
)


def names(told: Sequence[Notification]) -> list[tuple[str, int]]:
    """What receivers tell messages apart by."""
    return [(message.incident, message.sequence) for message in told]


def facts_of(look: tuple[Verdict, Cause | None, float, bool, float, int], now: float) -> Facts:
    verdict, cause, rate, fresh, _seconds, _times = look
    assessment = Assessment(
        "t",
        now,
        verdict,
        cause,
        Action.NONE,
        "a sentence",
        window=Window(now - 60.0, now, Counts(drafts=500.0, requests=20.0)),
        acceptance_rate=Estimate(rate, rate - 0.03, rate + 0.03),
        acceptance_length=Estimate(1.0 + 3.0 * rate, 0.95 + 3.0 * rate, 1.05 + 3.0 * rate),
        baseline=BaselineMatch("b", matches=rate > 0.1, running_range=(1.0, 64.0)),
    )
    alarms = (Alarm.DROP,) if rate < 0.2 else ()
    return Facts(assessment, "s", fresh=fresh, alarms=alarms, threshold_is_set=rate < 0.9)


@settings(max_examples=50)
@given(st.lists(looks, min_size=1, max_size=25))
def test_whatever_happens_states_move_as_drawn_and_every_incident_ends_at_most_once(
    series: list[tuple[Verdict, Cause | None, float, bool, float, int]],
) -> None:
    states: dict[str, AlertState] = {}
    told: list[Notification] = []
    now = 1_790_000_000.0
    for look in series:
        for _ in range(look[-1]):
            now += look[-2]
            facts = facts_of(look, now)
            after, messages = step(applying(DEFAULTS, facts), states, facts, now, INTERVAL)
            for rule in DEFAULTS:
                old, new = states.get(rule.id), after.get(rule.id)
                move = (
                    old.state if old else State.INACTIVE,
                    new.state if new else State.INACTIVE,
                )
                assert move in ALLOWED, (rule.id, move)
            # The same look once more is no news.
            again, echo = step(applying(DEFAULTS, facts), after, facts, now, INTERVAL)
            assert (again, echo) == (after, ())
            # A crash before the states were stored repeats messages under their old names.
            assert names(
                step(applying(DEFAULTS, facts), states, facts, now, INTERVAL)[1]
            ) == names(messages)
            # What is stored is what goes on.
            assert {n: AlertState.from_json(s.to_json()) for n, s in after.items()} == after
            states, told = after, [*told, *messages]
    assert len({*names(told)}) == len(told)
    for incident in {m.incident for m in told}:
        mine = [m for m in told if m.incident == incident]
        assert [m.sequence for m in mine] == list(range(1, len(mine) + 1))
        assert mine[0].reason in (Reason.FIRST, Reason.FLAPPING)
        ends = [m.reason is Reason.RESOLVED for m in mine]
        assert sum(ends[:-1]) == 0
        still = [s for s in states.values() if s.incident == incident]
        open_ = any(s.state is State.FIRING for s in still)
        assert ends[-1] != open_


UNINFORMED = [
    Verdict.IDLE,
    Verdict.INSUFFICIENT,
    Verdict.DOWN,
    Verdict.UNRECOGNISED,
    Verdict.MISREPORTED,
    Verdict.OFF,
    Verdict.NOT_DRAFTING,
]


@settings(max_examples=20)
@given(st.lists(st.sampled_from(UNINFORMED), min_size=1, max_size=10), st.integers(1, 200))
def test_verdicts_without_information_never_end_what_fires(
    series: list[Verdict], minutes: int
) -> None:
    now = 1_790_000_000.0
    states: dict[str, AlertState] = {}
    open_ = {"harmful", "acceptance_below_threshold", "dropped"}
    for _ in range(30):
        now += INTERVAL
        facts = facts_of((Verdict.HARMFUL, None, 0.15, True, 0.0, 1), now)
        states, _ = step(applying(DEFAULTS, facts), states, facts, now, INTERVAL)
    firing = {name for name, state in states.items() if state.state is State.FIRING}
    assert open_ <= firing
    for verdict in series:
        for _ in range(minutes):
            now += 60.0
            facts = facts_of((verdict, None, 0.9, True, 0.0, 1), now)
            facts = facts._replace(alarms=())
            states, messages = step(applying(DEFAULTS, facts), states, facts, now, 60.0)
            assert not any(m.rule in open_ and m.reason is Reason.RESOLVED for m in messages)
    assert all(states[name].state is State.FIRING for name in open_)
