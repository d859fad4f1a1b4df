"""What the alerts of a target leave behind with each tick."""

from __future__ import annotations

from monitor.alerting.machine import AlertState
from monitor.alerting.model import State
from monitor.alerting.ruleset import load_rules
from monitor.model import Action, Assessment, Verdict
from monitor.pipeline import Tick
from monitor.settings import TargetSettings
from monitor.store.standing import NO_NEWS
from monitor.turn.alerts import Alerts

NOW = 1_800_000_000.0
IDLE = Assessment("a", NOW, Verdict.IDLE, None, Action.NONE, "no traffic for 60 s")
RULES = load_rules([]).rules


def alerts(state: AlertState) -> Alerts:
    made = Alerts(TargetSettings("a", "chat", "http://a"), lambda: RULES)
    made.restore({state.rule: state.to_json()})
    return made


def tick(seconds: float) -> tuple[Tick, float]:
    return Tick((), IDLE._replace(at=NOW + seconds), changed=False), NOW + seconds


def test_what_fires_is_stored_with_each_tick() -> None:
    firing = AlertState("harmful", NOW, State.FIRING, NOW - 600.0, incident="i", told_at=NOW)
    made = alerts(firing)
    for seconds in (15.0, 30.0):
        seen, now = tick(seconds)
        (row,) = made.take(seen, (), now).rows
        assert AlertState.from_json(row.state).at == now


def test_what_has_ended_is_remembered_for_hours_but_stored_once() -> None:
    ended = AlertState("harmful", NOW, State.RESOLVED, ended_at=NOW, score=2.0, score_at=NOW)
    made = alerts(ended)
    for seconds in (15.0, 3600.0, 14_400.0):
        seen, now = tick(seconds)
        assert made.take(seen, (), now) is NO_NEWS
    seen, now = tick(86_400.0)
    assert made.take(seen, (), now).gone == (("harmful", "a"),)
