"""What an alert rule asks of an assessment, and the three answers: yes, no, not known.

A verdict without information answers "not known". Such an answer neither raises an alert nor
ends one: a server that is idle or cannot be reached has not recovered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, NamedTuple

from monitor.alerting.model import Severity
from monitor.model import Action, Alarm, Assessment, Cause, Estimate, Verdict

SPECULATIVE = "speculative"
EVERYTHING = "all"
"""Stands for all other rules in ``Rule.mutes``."""


class Figure(StrEnum):
    """The numbers that a rule can set limits to."""

    ACCEPTANCE_RATE = "acceptance_rate"
    ACCEPTANCE_LENGTH = "acceptance_length"
    SPEEDUP = "speedup"
    RUNNING = "running"


class By(StrEnum):
    """Which part of an interval must cross a limit."""

    VALUE = "value"
    LOW = "low"
    HIGH = "high"


class BaselineState(StrEnum):
    """What can be wrong about the baseline."""

    MISSING = "missing"
    MISMATCHED = "mismatched"


class Limit(NamedTuple):
    """A bound on one figure; exactly one of ``below`` and ``above`` tells the side."""

    figure: Figure
    is_below: bool
    bound: float | None
    """None: the acceptance threshold of the service."""
    by: By
    margin: float = 0.0
    """Moves the threshold of the service away from where the alert fires."""


@dataclass(frozen=True, slots=True)
class Condition:
    """All parts that are given must hold together."""

    verdicts: tuple[Verdict, ...] = ()
    causes: tuple[Cause, ...] = ()
    except_causes: tuple[Cause, ...] = ()
    """Another rule is about these; they keep this one from firing, but do not end it."""
    actions: tuple[Action, ...] = ()
    limits: tuple[Limit, ...] = ()
    alarm: Alarm | None = None
    baseline: BaselineState | None = None


class Repeat(NamedTuple):
    """Reminders: each waits twice as long as the one before, up to a ceiling."""

    every: float
    at_most: float


@dataclass(frozen=True, slots=True)
class Matcher:
    """Which targets a rule is about; patterns with ``*`` and ``?``, empty is any."""

    services: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    roles: tuple[str, ...] = (SPECULATIVE,)
    labels: tuple[tuple[str, str], ...] = ()

    def matches(self, facts: Facts) -> bool:
        """Whether the rule is about this target."""
        return (
            _any(self.services, facts.service)
            and _any(self.targets, facts.assessment.target)
            and facts.role in self.roles
            and all(fnmatchcase(facts.labels.get(k, ""), pattern) for k, pattern in self.labels)
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """One alert rule, complete and checked."""

    id: str
    when: Condition
    severity: Severity
    summary: str
    leave: Condition | None = None
    """When the alert ends; None: as soon as one part of ``when`` is known not to hold."""
    hold_seconds: float = 0.0
    hold_windows: int = 1
    """Fresh windows for which the condition must have held, besides the time."""
    keep_firing: float = 0.0
    no_data_after: float = 1800.0
    least_drafts: float = 0.0
    least_requests: float = 0.0
    labels: tuple[tuple[str, str], ...] = ()
    runbook: str | None = None
    votes_for_rollback: bool = False
    repeat: Repeat | None = None
    only: Matcher = field(default_factory=Matcher)
    mutes: tuple[str, ...] = ()

    @property
    def asks_for_baseline(self) -> bool:
        """Whether its alerts only say that there is nothing to compare with."""
        return self.when.baseline is not None


class Facts(NamedTuple):
    """What the rules look at: one assessment and what surrounds it."""

    assessment: Assessment
    service: str
    role: str = SPECULATIVE
    labels: Mapping[str, str] = MappingProxyType({})
    fresh: bool = True
    """False where the assessment only repeats an earlier one because a page is missing."""
    alarms: tuple[Alarm, ...] = ()
    threshold: float = 0.40
    threshold_is_set: bool = False
    """Whether somebody set the threshold for this very service."""
    moving: bool = False
    """Whether a rollback moves traffic now, which speaks for the rules that voted for it."""
    document: Callable[[], Mapping[str, Any]] = dict
    """Makes the document of the assessment; only called where a notification carries it."""


DECIDED = frozenset({Verdict.HEALTHY, Verdict.NEUTRAL, Verdict.DEGRADED, Verdict.HARMFUL})
MEASURED = DECIDED | {Verdict.UNPROVEN}
"""Verdicts beside which acceptance is known well enough to be believed."""

_DRAFTS = MEASURED | {Verdict.NOT_DRAFTING}
ENDS: Mapping[Verdict, frozenset[Verdict]] = {
    # Any page at all shows that a server is not down; but no page shows that it is well.
    Verdict.DOWN: frozenset(Verdict) - {Verdict.DOWN},
    Verdict.STALLED: _DRAFTS,
    Verdict.UNRECOGNISED: _DRAFTS,
    Verdict.IDLE: _DRAFTS | {Verdict.INSUFFICIENT, Verdict.STALLED},
    Verdict.OFF: _DRAFTS,
    Verdict.MISREPORTED: MEASURED,
    Verdict.NOT_DRAFTING: MEASURED,
    Verdict.INSUFFICIENT: MEASURED,
}
"""Which verdicts prove that another one is over; the judgements end only each other."""
TOLD_AT_ONCE = frozenset({Cause.SUSPICIOUS_OUTPUT, Cause.ENGINE_OUTLIER})
"""Causes that would be named with any judged verdict; without them they are known to be gone."""


def may_enter(rule: Rule, facts: Facts) -> bool:
    """Whether ``enters`` could be True: the quick look that suffices for most rules."""
    when, assessment = rule.when, facts.assessment
    return (
        (not when.verdicts or assessment.verdict in when.verdicts)
        and (not when.causes or assessment.cause in when.causes)
        and (not when.actions or assessment.action in when.actions)
        and (when.alarm is None or when.alarm in facts.alarms)
        and (when.baseline is None or when.baseline is _baseline(assessment))
    )


def enters(rule: Rule, facts: Facts) -> bool | None:
    """Whether the condition of ``rule`` holds; None where that is not known."""
    if facts.assessment.cause in rule.when.except_causes:
        return False
    if _too_little(rule, facts):
        return None
    return _all(_parts(rule.when, facts))


def leaves(rule: Rule, facts: Facts) -> bool | None:
    """Whether an alert of ``rule`` is known to be over."""
    if _too_little(rule, facts):
        return None
    if rule.leave is not None:
        return _all(_parts(rule.leave, facts, leaving=True))
    over = [_not(answer) for answer in _parts(rule.when, facts, limits=False)]
    over += [_holds_limit(_opposite(limit), facts, leaving=True) for limit in rule.when.limits]
    return _not(_all(map(_not, over)))


def _too_little(rule: Rule, facts: Facts) -> bool:
    if rule.least_drafts <= 0.0 and rule.least_requests <= 0.0:
        return False
    window = facts.assessment.window
    drafts = window.counts.drafts if window is not None else 0.0
    requests = window.counts.requests if window is not None else 0.0
    return drafts < rule.least_drafts or requests < rule.least_requests


def _parts(
    condition: Condition, facts: Facts, *, leaving: bool = False, limits: bool = True
) -> Iterator[bool | None]:
    assessment = facts.assessment
    if condition.verdicts:
        yield _holds_verdict(condition.verdicts, assessment.verdict)
    if condition.causes:
        weak = TOLD_AT_ONCE.issuperset(condition.causes)
        yield _holds_word(condition.causes, assessment.cause, assessment, weak=weak)
    if condition.actions:
        yield _holds_word(condition.actions, assessment.action, assessment, weak=True)
    if condition.alarm is not None:
        yield _if_measured(condition.alarm in facts.alarms, assessment)
    if condition.baseline is not None:
        yield _if_measured(_baseline(assessment) is condition.baseline, assessment)
    if limits:
        for limit in condition.limits:
            yield _holds_limit(limit, facts, leaving=leaving)


def _holds_verdict(asked: Sequence[Verdict], verdict: Verdict) -> bool | None:
    if verdict in asked:
        return True
    return False if all(verdict in ENDS.get(v, DECIDED) for v in asked) else None


def _holds_word(
    asked: Sequence[Cause] | Sequence[Action],
    word: Cause | Action | None,
    assessment: Assessment,
    *,
    weak: bool,
) -> bool | None:
    """``weak``: verdicts that prove nothing about speed answer as well."""
    if word in asked:
        return True
    known = MEASURED if weak else DECIDED
    return False if assessment.verdict in known else None


def _if_measured(answer: bool, assessment: Assessment) -> bool | None:  # noqa: FBT001
    # The detector and the baseline are only looked at while there is traffic to compare.
    return answer if answer or assessment.verdict in MEASURED else None


def _baseline(assessment: Assessment) -> BaselineState | None:
    if assessment.verdict not in MEASURED:
        return None
    if assessment.baseline is None:
        return BaselineState.MISSING
    return None if assessment.baseline.matches else BaselineState.MISMATCHED


def _holds_limit(limit: Limit, facts: Facts, *, leaving: bool) -> bool | None:
    verdict = facts.assessment.verdict
    if leaving and limit.figure is Figure.SPEEDUP and verdict not in DECIDED:
        # A speedup that proves nothing does not prove that a loss is over.
        return None
    # The general threshold only colours the verdict: a proven gain stands above it.
    coloured = limit.bound is None and not facts.threshold_is_set
    if coloured and verdict in (Verdict.HEALTHY, Verdict.NEUTRAL):
        return not limit.is_below
    value = _value(limit, facts)
    if value is None:
        return None
    bound = limit.bound
    if bound is None:
        bound = facts.threshold + (-limit.margin if limit.is_below else limit.margin)
    return value < bound if limit.is_below else value > bound


def _value(limit: Limit, facts: Facts) -> float | None:
    assessment = facts.assessment
    if limit.figure is Figure.RUNNING:
        return assessment.load.running
    if assessment.verdict not in MEASURED:
        return None
    estimate: Estimate | None = getattr(assessment, limit.figure.value)
    if estimate is None:
        return None
    by: float | None = getattr(estimate, limit.by.value)
    return by


def _opposite(limit: Limit) -> Limit:
    """The limit behind which an interval lies wholly on the good side."""
    turned = {By.HIGH: By.LOW, By.LOW: By.HIGH, By.VALUE: By.VALUE}
    return limit._replace(is_below=not limit.is_below, by=turned[limit.by])


def _any(patterns: Sequence[str], text: str) -> bool:
    return not patterns or any(fnmatchcase(text, pattern) for pattern in patterns)


def _all(answers: Iterable[bool | None]) -> bool | None:
    known: bool | None = True
    for answer in answers:
        if answer is False:
            return False
        known = known if answer else None
    return known


def _not(answer: bool | None) -> bool | None:  # noqa: FBT001
    return None if answer is None else not answer
