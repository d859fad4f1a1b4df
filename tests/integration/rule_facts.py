"""Facts about targets as a daemon shows them in its metrics, for tests of rules outside of it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from promtool import name_of

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
from monitor.web.metrics import MetricsPage
from monitor.web.view import Health, TargetView

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


def verdict(word: Verdict, *, alarms: tuple[Alarm, ...] = (), **other: Any) -> Facts:
    return Facts(WELL._replace(verdict=word, **other), "s", alarms=alarms)


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


def metrics(facts: Sequence[Facts]) -> Iterator[tuple[str, float]]:
    """What a daemon shows that knows these facts."""
    for family in text_string_to_metric_families(MetricsPage(Fleet(facts)).render("")[0].decode()):
        for sample in family.samples:
            yield name_of(sample.name, sample.labels), sample.value


def own_rules(folder: Path) -> Sequence[Rule]:
    (folder / "own.yaml").write_text(OWN_RULES)
    return load_rules([folder / "own.yaml"]).rules


def about(facts: Facts) -> Mapping[str, str]:
    return {"service": facts.service, "target": facts.assessment.target}
