"""The rules for Prometheus say what the daemon's rules say, on Prometheus itself."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from promtool import name_of, needs_promtool, run_tests

from monitor.alerting import rules as machine
from monitor.alerting.rules import Facts, Rule
from monitor.alerting.ruleset import load_rules
from monitor.model import (
    Action,
    Alarm,
    Assessment,
    BaselineMatch,
    Cause,
    Counts,
    Estimate,
    Load,
    Verdict,
    Window,
)
from monitor.prometheus import promql
from monitor.prometheus.pack import alert_name, pack_group
from monitor.prometheus.rule_file import render
from monitor.web.metrics import MonitorCollector
from monitor.web.view import Health, TargetView

pytestmark = needs_promtool

OWN_RULES = """
rules:
  - id: slow_at_load
    when: {speedup: {below: 0.95, by: high}, running: {above: 32}}
    leave: {speedup: {above: 1.0, by: low}}
    severity: warning
    summary: "$service $target $speedup $running $cause $baseline"
    only: {services: ["chat-*", "a.b?"], roles: [speculative, baseline]}
  - id: no_way_out
    when: {acceptance_rate: {below: 0.5, by: low}, speedup: {below: 1.0}}
    severity: info
    summary: "$target"
    evidence: {drafts: 500, requests: 20}
  - id: too_high
    when: {acceptance_rate: {above: threshold, margin: 0.1}, alarm: rise}
    severity: info
    summary: "$target"
"""


def estimate(rng: random.Random, scale: float) -> Estimate | None:
    if rng.random() < 0.15:
        return None
    value = rng.uniform(0.0, scale)
    low, high = value - rng.uniform(0, 0.2), value + rng.uniform(0, 0.2)
    return Estimate(
        value, None if rng.random() < 0.1 else low, None if rng.random() < 0.1 else high
    )


def assessment(rng: random.Random, target: str) -> Assessment:
    baselines = (None, BaselineMatch("b", True, (1, 64)), BaselineMatch("b", False, (1, 64)))
    counts = Counts(drafts=rng.choice((0, 499, 500, 9000)), requests=rng.choice((3, 20, 50)))
    likely = rng.choice([facts.assessment for facts in BAD.values()])
    said = (rng.choice(list(Verdict)), rng.choice((None, *Cause)))
    word, cause = (likely.verdict, likely.cause) if rng.random() < 0.4 else said
    return Assessment(
        target=target,
        at=0.0,
        verdict=word,
        cause=cause,
        action=rng.choice(list(Action)),
        sentence="",
        window=None if rng.random() < 0.1 else Window(0.0, 60.0, counts),
        acceptance_rate=estimate(rng, 0.8),
        acceptance_length=estimate(rng, 2.0),
        speedup=estimate(rng, 2.0),
        load=Load(running=rng.choice((None, 1.0, 64.0))),
        baseline=rng.choice(baselines),
    )


def anything(size: int) -> list[Facts]:
    rng = random.Random(20261129)
    return [
        Facts(
            assessment(rng, f"t{number}"),
            service=rng.choice(("chat-large", "a.bc", "aXbc", "code")),
            role=rng.choice(("speculative", "baseline")),
            alarms=tuple(a for a in Alarm if rng.random() < 0.5),
            threshold=rng.choice((0.3, 0.4)),
            threshold_is_set=rng.random() < 0.5,
        )
        for number in range(size)
    ]


class Fleet:
    """A daemon that knows these facts."""

    def __init__(self, facts: Sequence[Facts]) -> None:
        self.facts = facts

    def targets(self) -> Sequence[TargetView]:
        return [
            TargetView(
                service=facts.service,
                target=facts.assessment.target,
                role=facts.role,
                assessment=facts.assessment,
                windows=dict,
                page_age=0.0,
                scrape_seconds=0.0,
                rounds=1,
                late=0,
                tick_errors=0,
                errors={},
                alarms=facts.alarms,
                threshold=facts.threshold,
                threshold_is_set=facts.threshold_is_set,
            )
            for facts in self.facts
        ]

    def health(self) -> Health:
        return Health(loop_age=0.0, loop_limit=1.0, waiting_for=None)

    def status(self) -> dict[str, Any]:
        return {}

    def reload(self) -> None:
        pass


STEP = 15.0
WELL = Assessment(
    "t",
    0.0,
    Verdict.HEALTHY,
    None,
    Action.NONE,
    "",
    acceptance_rate=Estimate(0.7, 0.65, 0.75),
    acceptance_length=Estimate(3.1, 2.9, 3.3),
    speedup=Estimate(1.5, 1.4, 1.6),
    baseline=BaselineMatch("b", True, (1, 64)),
)
IDLE = Assessment("t", 0.0, Verdict.IDLE, None, Action.NONE, "")


class Story:
    """What the metrics of one target show, phase by phase, and which alerts fire then."""

    def __init__(self) -> None:
        self.steps = 0
        self.phases: list[tuple[int, dict[str, float]]] = []
        self.questions: list[Mapping[str, Any]] = []

    def goes_on(self, seconds: float, facts: Facts | None) -> None:
        """None: there is no daemon."""
        shown = {} if facts is None else dict(metrics([facts]))
        count = round(seconds / STEP)
        self.steps += count
        self.phases.append((count, shown))

    def says(self, alert: str, *, fires: bool) -> None:
        self.questions.append(
            {
                "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                "eval_time": f"{(self.steps - 1) * STEP:.0f}s",
                "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
            }
        )

    def test(self) -> Mapping[str, Any]:
        names = {name for _, shown in self.phases for name in shown}
        return {
            "interval": f"{STEP:.0f}s",
            "input_series": [{"series": name, "values": self._values(name)} for name in names],
            "promql_expr_test": self.questions,
        }

    def _values(self, name: str) -> str:
        words = []
        for count, shown in self.phases:
            if not count:
                continue
            if name in shown:
                words.append(f"{shown[name]:.17g}x{count - 1}")
            else:
                words.append(f"stale _x{count - 1}" if count > 1 else "stale")
        return " ".join(words)


def verdict(word: Verdict, *, alarms: tuple[Alarm, ...] = (), **other: Any) -> Facts:
    return Facts(replace(WELL, verdict=word, **other), "s", alarms=alarms)


def metrics(facts: Sequence[Facts]) -> Iterator[tuple[str, float]]:
    """What a daemon shows that knows these facts."""
    for family in MonitorCollector(Fleet(facts)).collect():
        for sample in family.samples:
            yield name_of(sample.name, sample.labels), sample.value


def own_rules(folder: Path) -> Sequence[Rule]:
    (folder / "own.yaml").write_text(OWN_RULES)
    return load_rules([folder / "own.yaml"]).rules


def test_every_rule_answers_as_the_daemon_does(tmp_path: Path) -> None:
    fleet = anything(400)
    shown = metrics(fleet)
    series = [{"series": name, "values": f"{value:.17g}"} for name, value in shown]
    questions = []
    for rule in own_rules(tmp_path):
        entered = [f for f in fleet if rule.only.matches(f) and machine.enters(rule, f)]
        over = [f for f in fleet if machine.leaves(rule, f)]
        assert entered, rule.id
        assert over, rule.id
        for expr, found in ((promql.enters(rule), entered), (promql.over(rule), over)):
            questions.append(
                {
                    "expr": f"count by (service, target) ({expr})",
                    "eval_time": "0s",
                    "exp_samples": [
                        {"labels": name_of("", about(facts)), "value": 1} for facts in found
                    ],
                }
            )
    run_tests(tmp_path, [{"input_series": series, "promql_expr_test": questions}])


BAD: Mapping[str, Facts] = {
    "target_down": verdict(Verdict.DOWN),
    "stalled": verdict(Verdict.STALLED),
    "drafter_dead": verdict(
        Verdict.HARMFUL, cause=Cause.DRAFTER_DEAD, acceptance_length=Estimate(1.01, 1.0, 1.02)
    ),
    "harmful": verdict(Verdict.HARMFUL, cause=Cause.WEAK_DRAFTER),
    "acceptance_below_threshold": verdict(
        Verdict.UNPROVEN, acceptance_rate=Estimate(0.2, 0.15, 0.25)
    ),
    "dropped": verdict(Verdict.HEALTHY, alarms=(Alarm.DROP,)),
    "slower_steps": verdict(Verdict.DEGRADED, cause=Cause.STEP_COST),
    "rank_outlier": verdict(Verdict.DEGRADED, cause=Cause.ENGINE_OUTLIER),
    "not_drafting": verdict(Verdict.NOT_DRAFTING),
    "neutral_for_long": verdict(Verdict.NEUTRAL),
    "too_good": verdict(Verdict.HEALTHY, action=Action.CHECK_OUTPUT),
    "misreported": verdict(Verdict.MISREPORTED),
    "unrecognised": verdict(Verdict.UNRECOGNISED),
    "baseline_mismatched": verdict(Verdict.UNPROVEN, baseline=BaselineMatch("b", False, (1, 64))),
    "baseline_missing": verdict(Verdict.UNPROVEN, baseline=None),
}


@pytest.mark.parametrize("rule", load_rules([]).rules, ids=lambda rule: rule.id)
def test_an_alert_begins_holds_and_ends_as_the_daemon_has_it(rule: Rule, tmp_path: Path) -> None:
    file = tmp_path / "rules.yml"
    file.write_text(render([pack_group([rule])], ""))
    idle = Facts(IDLE, "s")
    story = Story()
    story.goes_on(600.0, Facts(WELL, "s"))
    story.goes_on(rule.hold_seconds / 2.0, BAD[rule.id])
    story.goes_on(120.0, Facts(WELL, "s"))
    story.says(alert_name(rule.id), fires=False)
    story.goes_on(rule.hold_seconds, BAD[rule.id])
    story.says(alert_name(rule.id), fires=False)
    story.goes_on(60.0, BAD[rule.id])
    story.says(alert_name(rule.id), fires=True)
    held = not machine.leaves(rule, idle)
    assert held is (rule.id != "target_down")
    if held:
        story.goes_on(7200.0, idle)
        story.says(alert_name(rule.id), fires=True)
    story.goes_on(900.0, None)
    story.goes_on(120.0, BAD[rule.id])
    story.says(alert_name(rule.id), fires=True)
    story.goes_on(max(rule.keep_firing - 30.0, 0.0), Facts(WELL, "s"))
    story.says(alert_name(rule.id), fires=True)
    story.goes_on(90.0, Facts(WELL, "s"))
    story.says(alert_name(rule.id), fires=False)
    run_tests(tmp_path, [story.test()], file)


def test_a_target_that_is_watched_no_more_is_let_go(tmp_path: Path) -> None:
    file = tmp_path / "rules.yml"
    rules = {rule.id: rule for rule in load_rules([]).rules}
    file.write_text(render([pack_group([rules["harmful"]])], ""))
    story = Story()
    story.goes_on(600.0, BAD["harmful"])
    story.goes_on(1500.0, None)
    story.says("SpeculationHarmful", fires=True)
    story.goes_on(300.0 + rules["harmful"].keep_firing + 60.0, None)
    story.says("SpeculationHarmful", fires=False)
    run_tests(tmp_path, [story.test()], file)


def about(facts: Facts) -> Mapping[str, str]:
    return {"service": facts.service, "target": facts.assessment.target}
