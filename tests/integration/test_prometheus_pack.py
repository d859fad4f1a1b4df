"""The rules for Prometheus say what the daemon's rules say, on Prometheus itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from promtool import name_of, needs_promtool, run_tests
from rule_facts import BAD, IDLE, WELL, about, anything, metrics, own_rules

from monitor.alerting import rules as machine
from monitor.alerting.rules import Facts, Rule
from monitor.alerting.ruleset import load_rules
from monitor.prometheus import promql
from monitor.prometheus.pack import alert_name, pack_group
from monitor.prometheus.rule_file import render

pytestmark = needs_promtool

STEP = 15.0


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
