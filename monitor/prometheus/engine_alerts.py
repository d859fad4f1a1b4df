"""Alerts from vLLM's and SGLang's own metrics, for people without the daemon.

Each is one of the daemon's rules, with its severity, times and runbook, as far as the figures of
a single Prometheus can tell. Whether speculation pays takes a baseline: that is the daemon's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from monitor.alerting.rules import Figure, Rule
from monitor.health.judging import JudgeSettings
from monitor.health.past import LEAST_FALL, LEAST_RELATIVE
from monitor.health.verdict import (
    BYPASS_COVERAGE,
    BYPASS_STEPS,
    CONTRADICTION,
    DEAD_DRAFTS,
    DEAD_LENGTH,
    LEAST_REQUESTS,
    STILL_DEAD_LENGTH,
    SUSPICIOUS_RATE,
)
from monitor.prometheus import promql
from monitor.prometheus.engine_records import MODEL, RANK, SEEN, engine_records, slow_group
from monitor.prometheus.pack import alert_labels, escaped
from monitor.prometheus.rule_file import Alerting, Group

INSTANCE = "job, instance"
_MODEL = "model:specdec_"
_INTERVAL = 30.0
_WHERE = "{{ $labels.model_name }} on {{ $labels.instance }}"
_SICK_SHARE = 0.5
"""A rank is sick that accepts less than this share of what the best of its server accepts."""


@dataclass(frozen=True, slots=True)
class _Signs:
    """What shows that an alert of the daemon's rule ``id`` begins, and that it is over."""

    id: str
    enters: str
    over: str
    summary: str
    by: str = MODEL
    present: str = "model:specdec_running:sum"
    """A series of everything that is watched, idle or not."""


def engine_groups(rules: Iterable[Rule]) -> list[Group]:
    """Recordings and alerts, with severity and times of those of ``rules`` with the same id."""
    known = {rule.id: rule for rule in rules}
    found = [_alerting(signs, known[signs.id]) for signs in _signs(known) if signs.id in known]
    return [slow_group(), Group("engine", [*engine_records(), *found, _NOTHING], _INTERVAL)]


def alert_name(rule: str) -> str:
    """``EngineDrafterDead`` of ``drafter_dead``."""
    return "Engine" + "".join(word.capitalize() for word in rule.split("_"))


def _alerting(signs: _Signs, rule: Rule) -> Alerting:
    name, by = alert_name(rule.id), signs.by
    firing = f'max by ({by}) (ALERTS{{alertname="{name}", alertstate="firing"}})'
    present = f"max by ({by}) (last_over_time({signs.present}[30m]))"
    held = promql.but_not(promql.all_of([firing, present], by), signs.over, by)
    runbook = {"runbook": escaped(rule.runbook)} if rule.runbook else {}
    return Alerting(
        name=name,
        expr=promql.any_of([signs.enters, held], by),
        hold=rule.hold_seconds,
        keep_firing=rule.keep_firing,
        labels=alert_labels(rule),
        annotations={"summary": signs.summary, **runbook},
    )


def _signs(rules: Mapping[str, Rule]) -> list[_Signs]:
    return [
        _target_down(),
        _stalled(),
        _drafter_dead(),
        _below_threshold(rules),
        _dropped(),
        _rank_outlier(),
        _not_drafting(),
        _too_good(),
        _misreported(),
        _unrecognised(),
    ]


def _target_down() -> _Signs:
    return _Signs(
        "target_down",
        f"max by ({INSTANCE}) (up) == 0\nand on ({INSTANCE})\nlast_over_time({SEEN}[10m])",
        f"max by ({INSTANCE}) (up) == 1",
        "{{ $labels.instance }} cannot be reached",
        INSTANCE,
        "up",
    )


def _stalled() -> _Signs:
    tokens = f"{_MODEL}output_tokens:increase2m"
    return _Signs(
        "stalled",
        f"min_over_time({_MODEL}running:sum[2m]) > 0\nand on ({MODEL})\n{tokens} == 0",
        f"{tokens} > 0",
        f"{_WHERE}: requests are running and no token comes",
    )


def _drafter_dead() -> _Signs:
    length = f"{_MODEL}acceptance_length:ratio5m"
    drafts = f"{_MODEL}drafts:increase5m >= {DEAD_DRAFTS}"
    few = f"{_MODEL}requests:increase5m < {LEAST_REQUESTS}"
    enters = promql.all_of([f"{length} < {DEAD_LENGTH}", drafts], MODEL)
    return _Signs(
        "drafter_dead",
        promql.but_not(enters, few, MODEL),
        promql.all_of([f"{length} > {STILL_DEAD_LENGTH}", drafts], MODEL),
        f"{_WHERE}: the drafter is dead",
    )


def _below_threshold(rules: Mapping[str, Rule]) -> _Signs:
    threshold, margin = JudgeSettings().threshold, 0.0
    rule = rules.get("acceptance_below_threshold")
    for limit in rule.leave.limits if rule is not None and rule.leave is not None else ():
        margin = limit.margin if limit.figure is Figure.ACCEPTANCE_RATE else margin
    return _Signs(
        "acceptance_below_threshold",
        f"{_MODEL}acceptance_rate_high:ratio5m < {threshold}",
        f"{_MODEL}acceptance_rate_low:ratio5m > {round(threshold + margin, 6)}",
        f"{_WHERE}: acceptance rate is below {threshold:.0%}",
    )


def _dropped() -> _Signs:
    usual = f"{_MODEL}acceptance_rate:median1d"
    high, rate = f"{_MODEL}acceptance_rate_high:ratio5m", f"{_MODEL}acceptance_rate:ratio5m"
    limits = (f"{1.0 - LEAST_RELATIVE:g} * {usual}", f"{usual} - {LEAST_FALL}")
    return _Signs(
        "dropped",
        promql.all_of([f"{high} < on ({MODEL}) ({limit})" for limit in limits], MODEL),
        promql.any_of([f"{rate} >= on ({MODEL}) ({limit})" for limit in limits], MODEL),
        f"{_WHERE}: acceptance has dropped below what was usual for a day",
    )


def _rank_outlier() -> _Signs:
    drafts = f"rank:specdec_drafts:increase5m >= {DEAD_DRAFTS}"
    accepted = f"(rank:specdec_acceptance_length:ratio5m - 1 and on ({RANK}) {drafts})"
    best = f"{_SICK_SHARE} * max by ({MODEL}) {accepted}"
    return _Signs(
        "rank_outlier",
        f"{accepted}\n< on ({MODEL}) group_left\n{best}",
        f"{accepted}\n>= on ({MODEL}) group_left\n{best}",
        f"{_WHERE}: rank {{{{ $labels.rank }}}} accepts far less than the others",
        RANK,
        "rank:specdec_drafts:increase5m",
    )


def _not_drafting() -> _Signs:
    drafts, steps = f"{_MODEL}drafts:increase5m", f"{_MODEL}steps:increase5m"
    worked = f"({steps} >= {BYPASS_STEPS:g})"
    tokens = f"{_MODEL}output_tokens:increase5m >= {BYPASS_STEPS:g}"
    # Without a count of steps: requests finished, each with more than its first token.
    uncounted = promql.all_of(
        [
            f"{drafts} == 0",
            promql.but_not(tokens, steps, MODEL),
            f"{_MODEL}requests:increase5m >= {LEAST_REQUESTS}",
        ],
        MODEL,
    )
    return _Signs(
        "not_drafting",
        promql.any_of([f"{drafts} / on ({MODEL}) {worked} < {BYPASS_COVERAGE}", uncounted], MODEL),
        promql.any_of(
            [
                f"{drafts} / on ({MODEL}) {worked} >= {BYPASS_COVERAGE}",
                promql.but_not(f"{drafts} > 0", steps, MODEL),
            ],
            MODEL,
        ),
        f"{_WHERE}: tokens flow without drafts",
    )


def _too_good() -> _Signs:
    rate, samples = f"{_MODEL}acceptance_rate:ratio5m", f"{_MODEL}samples:sum5m"
    return _Signs(
        "too_good",
        promql.all_of([f"{rate} >= {SUSPICIOUS_RATE} <= {1.0 + CONTRADICTION}", samples], MODEL),
        promql.all_of([f"{rate} < {SUSPICIOUS_RATE}", samples], MODEL),
        f"{_WHERE}: acceptance is too good, look at the output",
    )


def _misreported() -> _Signs:
    rate = f"{_MODEL}acceptance_rate:ratio5m"
    drafts = f"{_MODEL}drafts:increase5m >= {DEAD_DRAFTS}"
    return _Signs(
        "misreported",
        promql.all_of([f"{rate} > {1.0 + CONTRADICTION}", drafts], MODEL),
        promql.all_of([f"{rate} <= {1.0 + CONTRADICTION}", drafts], MODEL),
        f"{_WHERE}: more tokens accepted than drafted",
    )


def _unrecognised() -> _Signs:
    """Names that look like speculation and are none that we know; or none at all any more."""
    looks = f'count by ({INSTANCE}) ({{__name__=~"(vllm|sglang)[:_].*spec_.*"}})'
    known = (
        f'count by ({INSTANCE}) ({{__name__=~"vllm:spec_decode_(num_draft_tokens_total|'
        'draft_acceptance_rate)|sglang:spec_(accept_length|verify_calls_total)"})'
    )
    gone = promql.but_not(
        f"last_over_time({SEEN}[10m])",
        "instance:specdec_models:count",
        INSTANCE,
    )
    vanished = promql.all_of([gone, f"max by ({INSTANCE}) (up) == 1"], INSTANCE)
    return _Signs(
        "unrecognised",
        promql.any_of([promql.but_not(looks, known, INSTANCE), vanished], INSTANCE),
        # While names look odd the alert begins anew, so any figures at all are enough here.
        "instance:specdec_models:count",
        "{{ $labels.instance }}: its page shows no figures of speculation that are known",
        INSTANCE,
        "up",
    )


_NOTHING = Alerting(
    name="EngineNothingScraped",
    expr="absent(instance:specdec_models:count)",
    hold=600.0,
    keep_firing=0.0,
    labels={"severity": "warning"},
    annotations={
        "summary": "Prometheus has no figures of any vLLM or SGLang server",
        "description": "The scrape configuration or the names of the metrics have changed.",
    },
)
