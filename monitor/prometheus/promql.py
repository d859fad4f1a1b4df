"""PromQL over the daemon's own metrics that asks what an alert rule asks.

A rule is answered with yes, no or not known (``alerting.rules``). A query has no third answer, so
each part of a condition is written twice: the targets for which it is known to hold, and those
for which it is known not to. Of a target that is in neither, nothing is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from monitor.alerting.rules import (
    DECIDED,
    ENDS,
    MEASURED,
    TOLD_AT_ONCE,
    BaselineState,
    By,
    Condition,
    Figure,
    Limit,
    Matcher,
    Rule,
)
from monitor.model import ConfigError, Verdict
from monitor.prometheus.rule_file import span

BY = "service, target"
_COLOURED = frozenset({Verdict.HEALTHY, Verdict.NEUTRAL})
"""Verdicts that stand above the general threshold."""
_SUFFIXES = {By.LOW: "_low", By.HIGH: "_high", By.VALUE: ""}


class _Answer(NamedTuple):
    """One part of a condition as two queries."""

    yes: str
    no: str


def enters(rule: Rule) -> str:
    """The targets for which the condition of ``rule`` is known to hold.

    Raises:
        ConfigError: the rule asks for what the metrics do not show.
    """
    parts = [answer.yes for answer in _answers(rule.when)]
    parts += [_limit(limit, leaving=False) for limit in rule.when.limits]
    expr = all_of([*parts, *_evidence(rule), watched(rule.only)])
    excepted = rule.when.except_causes
    return but_not(expr, _decided(causes=excepted)) if excepted else expr


def over(rule: Rule) -> str:
    """The targets for which an alert of ``rule`` is known to be over."""
    if rule.leave is not None:
        parts = [answer.yes for answer in _answers(rule.leave)]
        known = all_of([*parts, *(_limit(limit, leaving=True) for limit in rule.leave.limits)])
    else:
        parts = [answer.no for answer in _answers(rule.when)]
        parts += [_limit(_opposite(limit), leaving=True) for limit in rule.when.limits]
        known = any_of(parts)
    return all_of([known, *_evidence(rule)])


def watched(only: Matcher, during: float | None = None) -> str:
    """The targets a rule is about that are watched, now or within ``during`` seconds.

    Raises:
        ConfigError: it tells targets apart by what the metrics do not show.
    """
    if only.labels:
        raise ConfigError("only.labels is not possible: the metrics carry no labels of targets")
    matchers = [f"role{_one_of(only.roles)}"]
    for label, patterns in (("service", only.services), ("target", only.targets)):
        if patterns:
            matchers.append(f"{label}=~{quoted('|'.join(map(_regex, patterns)))}")
    series = f"monitor_target_info{{{', '.join(matchers)}}}"
    if during is None:
        return _most(series)
    return _most(f"last_over_time({series}[{span(during)}])")


def all_of(parts: Sequence[str], by: str = BY) -> str:
    """What is in all of ``parts``, by the labels ``by``."""
    return _joined("and", parts, by)


def any_of(parts: Sequence[str], by: str = BY) -> str:
    """What is in one of ``parts``, by the labels ``by``."""
    return _joined("or", parts, by)


def but_not(expr: str, without: str, by: str = BY) -> str:
    """What is in ``expr`` and not in ``without``, by the labels ``by``."""
    return _joined("unless", [expr, without], by)


def _joined(operator: str, parts: Sequence[str], by: str) -> str:
    if len(parts) == 1:
        return parts[0]
    return f"\n{operator} on ({by})\n".join(map(_bracketed, parts))


def _bracketed(expr: str) -> str:
    """What has operators of its own, and so several lines, in brackets and further right."""
    if "\n" not in expr:
        return expr
    inner = "\n".join(f"  {line}" for line in expr.splitlines())
    return f"(\n{inner}\n)"


def quoted(text: str) -> str:
    """A string of PromQL."""
    return json.dumps(text, ensure_ascii=False)


def _answers(condition: Condition) -> list[_Answer]:
    answers = []
    if condition.verdicts:
        asked = frozenset(condition.verdicts)
        # As in the rules: what ends every one of the verdicts that are asked for.
        ends = frozenset(Verdict).intersection(*(ENDS.get(v, DECIDED) for v in asked)) - asked
        answers.append(_Answer(_decided(asked), _decided(ends)))
    if condition.causes:
        known = MEASURED if TOLD_AT_ONCE.issuperset(condition.causes) else DECIDED
        yes, no = _decided(causes=condition.causes), _decided(known, not_causes=condition.causes)
        answers.append(_Answer(yes, no))
    if condition.actions:
        yes = _decided(actions=condition.actions)
        answers.append(_Answer(yes, _decided(MEASURED, not_actions=condition.actions)))
    if condition.alarm is not None:
        alarm = _most(f"monitor_alarm{{alarm={quoted(condition.alarm.value)}}}")
        calm = all_of([f"{alarm} == 0", _decided(MEASURED)])
        answers.append(_Answer(f"{alarm} == 1", calm))
    if condition.baseline is not None:
        answers.append(_baseline(condition.baseline))
    return answers


def _baseline(asked: BaselineState) -> _Answer:
    measured, compared = _decided(MEASURED), _most("monitor_baseline_matches")
    if asked is BaselineState.MISSING:
        return _Answer(but_not(measured, compared), all_of([measured, compared]))
    wrong = f"{compared} == 0"
    return _Answer(all_of([measured, wrong]), but_not(measured, wrong))


def _limit(limit: Limit, *, leaving: bool) -> str:
    """The targets whose figure lies beyond a limit."""
    figure, sign = limit.figure, "<" if limit.is_below else ">"
    series = "running_requests" if figure is Figure.RUNNING else figure.value
    series = f"monitor_{series}{_SUFFIXES[limit.by]}"
    # Of several daemons that watch the same target, the one that says less counts.
    value = f"{'max' if limit.is_below else 'min'} by ({BY}) ({series})"
    if figure is Figure.RUNNING:
        return f"{value} {sign} {limit.bound}"
    trusted = DECIDED if leaving and figure is Figure.SPEEDUP else MEASURED
    if limit.bound is not None:
        return all_of([f"{value} {sign} {limit.bound}", _decided(trusted)])
    margin = f" {'-' if limit.is_below else '+'} {limit.margin}" if limit.margin else ""
    threshold = f"{_most('monitor_acceptance_threshold')}{margin}"
    beyond = all_of([f"{value} {sign} on ({BY}) ({threshold})", _decided(MEASURED)])
    # Where nobody set the threshold for this very service, a proven gain stands above it.
    coloured = all_of([_decided(_COLOURED), f"{_most('monitor_acceptance_threshold_own')} == 0"])
    return but_not(beyond, coloured) if limit.is_below else any_of([beyond, coloured])


def _opposite(limit: Limit) -> Limit:
    turned = {By.HIGH: By.LOW, By.LOW: By.HIGH, By.VALUE: By.VALUE}
    return limit._replace(is_below=not limit.is_below, by=turned[limit.by])


def _evidence(rule: Rule) -> list[str]:
    least = (("drafts", rule.least_drafts), ("requests", rule.least_requests))
    return [f"{_most(f'monitor_evidence_{name}')} >= {n:g}" for name, n in least if n > 0.0]


def _decided(
    verdicts: Iterable[str] = (),
    *,
    causes: Iterable[str] = (),
    not_causes: Iterable[str] = (),
    actions: Iterable[str] = (),
    not_actions: Iterable[str] = (),
) -> str:
    """The targets of which something is decided."""
    matchers = [
        name + _one_of(words, negative=negative)
        for name, words, negative in (
            ("verdict", verdicts, False),
            ("cause", causes, False),
            ("cause", not_causes, True),
            ("action", actions, False),
            ("action", not_actions, True),
        )
        if words
    ]
    return _most(f"monitor_decision_info{{{', '.join(matchers)}}}")


def _one_of(words: Iterable[str], *, negative: bool = False) -> str:
    known = sorted(str(word) for word in words)
    if len(known) == 1:
        return f"{'!=' if negative else '='}{quoted(known[0])}"
    return f"{'!~' if negative else '=~'}{quoted('|'.join(known))}"


def _most(series: str) -> str:
    return f"max by ({BY}) ({series})"


def _regex(pattern: str) -> str:
    """A pattern with ``*`` and ``?`` as the regular expression that PromQL anchors."""
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return "".join(parts)
