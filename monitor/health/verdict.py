"""From the figures of a window to a verdict: ordered rules, the first that applies decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from monitor.health import words
from monitor.health.diagnose import Diagnosis, cause_of_loss, diagnose
from monitor.health.figures import Acceptance, acceptance, load, positions
from monitor.health.judging import JudgeSettings
from monitor.health.ledger import Block
from monitor.health.past import Past
from monitor.health.speedup import break_even, quick_speedup, speedup
from monitor.model import (
    Action,
    BreakEven,
    Cause,
    Counts,
    EngineVerdict,
    Estimate,
    Evidence,
    Load,
    Position,
    Speculation,
    Verdict,
    Window,
)

DEAD_LENGTH = 1.05
"""Below this acceptance length a drafter is dead: no saved step can pay for the drafts."""
STILL_DEAD_LENGTH = 1.10
"""A drafter that was dead is alive again only above this."""
DEAD_DRAFTS = 200
LEAST_REQUESTS = 5
"""Fewer requests are too few samples, however many tokens they hold."""
LEAST_SAMPLES = 20.0
WIDEST_HALF = 0.15
"""Half-width of the acceptance interval above which nothing is decided."""
STALL_SECONDS = 120.0
BYPASS_COVERAGE = 0.02
"""Below this share of decode steps with a draft the engine is not drafting."""
BYPASS_STEPS = 100.0
MOST_DRAFTS = 2.0
"""Drafts per decode step; more than one cannot be, and pages are not read in one instant."""
MEASURED_TOKENS = 1000.0
"""Tokens after which SGLang's acceptance gauge would be measured if speculation were on."""
SUSPICIOUS_RATE = 0.95
UNHEALTHY_SHARE = 0.95
"""Share of its normal below which acceptance, with its upper limit, is unhealthy."""
CONTRADICTION = 0.02
"""Relative difference of two figures that should be equal, above which they contradict."""


_THIN = frozenset({Verdict.INSUFFICIENT, Verdict.IDLE})
"""Verdicts that rest on too little to be one."""

Said = tuple[Verdict, Cause | None, Action]
"""Verdict, cause and action of a tick."""


class Finding(NamedTuple):
    """What a rule found."""

    verdict: Verdict
    cause: Cause | None
    action: Action
    sentence: str


WITHOUT_ACCEPTANCE = frozenset(
    {
        Verdict.IDLE,
        Verdict.OFF,
        Verdict.NOT_DRAFTING,
        Verdict.UNRECOGNISED,
        Verdict.DOWN,
        Verdict.MISREPORTED,
        Verdict.STALLED,
    }
)
"""Verdicts beside which an acceptance figure would be wrong or old."""


class Facts(NamedTuple):
    """Everything the rules look at, for one window of one target or engine."""

    window: Window
    speculation: Speculation
    settings: JudgeSettings
    accepted: Acceptance
    load: Load
    speedup: Estimate | None
    baseline_matches: bool
    previous: Said | None = None
    """What was said before, which stands while the figures still point its way."""
    past: Past = Past()

    @property
    def counts(self) -> Counts:
        """The sums of the window."""
        return self.window.counts

    @property
    def table(self) -> tuple[Position, ...]:
        """Acceptance by draft position."""
        return positions(self.counts)

    @property
    def break_even(self) -> BreakEven | None:
        """From where speculation would pay; None without a comparison."""
        gain, load = self.speedup, self.load
        if gain is None or gain.value <= 0.0 or load.tokens_per_step is None:
            return None
        return break_even(gain.value, load.tokens_per_step, load.coverage, self.accepted.k)

    @property
    def conclusive(self) -> bool:
        """Whether there is evidence enough to decide anything about acceptance."""
        return self.too_little is None

    @property
    def too_little(self) -> str | None:
        """Why the evidence is too thin, or None where it is not."""
        accepted = self.accepted
        if accepted.requests is not None and accepted.requests < LEAST_REQUESTS:
            return f"{words.number(accepted.requests, 'request')}, {LEAST_REQUESTS} are needed"
        if accepted.samples < LEAST_SAMPLES:
            return (
                f"{words.count(self.counts.draft_tokens or self.counts.drafts)} draft tokens"
                f" are worth {accepted.samples:.0f} independent samples,"
                f" {LEAST_SAMPLES:.0f} are needed"
            )
        rate = accepted.rate
        if rate is not None and rate.low is not None and rate.high is not None:
            half = (rate.high - rate.low) / 2.0
            if half > WIDEST_HALF:
                return f"the acceptance rate is only known to ±{words.percent(half)}"
        return None


def gather(
    window: Window,
    blocks: Sequence[Block],
    speculation: Speculation,
    settings: JudgeSettings,
    *,
    baseline_matches: bool = True,
    previous: Said | None = None,
    learnt_effect: float | None = None,
    past: Past | None = None,
) -> Facts:
    """Computes all figures of a window once."""
    accepted = acceptance(window, learnt_effect)
    gain = _gain(window.counts, blocks, settings, baseline_matches=baseline_matches)
    return Facts(
        window=window,
        speculation=speculation,
        settings=settings,
        accepted=accepted,
        load=load(window),
        speedup=gain,
        baseline_matches=baseline_matches,
        previous=previous,
        past=past or Past(),
    )


def _gain(
    counts: Counts, blocks: Sequence[Block], settings: JudgeSettings, *, baseline_matches: bool
) -> Estimate | None:
    if settings.speeds is not None:
        return quick_speedup(settings.speeds)
    if settings.baseline is None or not baseline_matches:
        return None
    return speedup(counts, blocks)


def decide(facts: Facts) -> Finding:
    """The verdict on one window."""
    for rule in _RULES:
        finding = rule(facts)
        if finding is not None:
            return finding
    return _unproven(facts)


def unseen(facts: Facts) -> Finding | None:
    """What ``decide`` finds before it looks at acceptance, or None, for less work."""
    return next((found for rule in _BEFORE_ACCEPTANCE if (found := rule(facts))), None)


def trace(facts: Facts) -> Iterator[tuple[str, Finding | None]]:
    """Each rule by name with what it found, up to the one that decides as in ``decide``.

    For explanations only: ``decide`` is called with every page and keeps no record.
    """
    for rule in _RULES:
        finding = rule(facts)
        yield rule.__name__.removeprefix("_"), finding
        if finding is not None:
            return
    yield "unproven", _unproven(facts)


def inconclusive(finding: Finding, facts: Facts) -> bool:
    """Whether a longer window might tell more."""
    if finding.verdict in _THIN:
        return not facts.window.warming_up
    if finding.verdict is not Verdict.UNPROVEN:
        return False
    rate, threshold = facts.accepted.rate, facts.settings.threshold
    near = rate is not None and rate.low is not None and rate.low < threshold
    return facts.speedup is not None or near


def with_engines(finding: Finding, engines: tuple[EngineVerdict, ...]) -> Finding:
    """Makes a sick engine among healthy ones decide, and names it."""
    if not engines:
        return finding
    sick = [e for e in engines if e.verdict in (Verdict.DEGRADED, Verdict.HARMFUL)]
    fixed = (Verdict.MISREPORTED, Verdict.STALLED)
    if not sick or len(sick) == len(engines) or finding.verdict in fixed:
        return finding
    verdict = finding.verdict if finding.verdict is Verdict.HARMFUL else Verdict.DEGRADED
    others = [e for e in engines if e not in sick]
    return Finding(
        verdict,
        Cause.ENGINE_OUTLIER,
        Action.RESTART,
        words.outlier(sick, others, len(engines)),
    )


def _misreported(facts: Facts) -> Finding | None:
    counts = facts.counts
    if facts.window.alternating:
        return Finding(
            Verdict.MISREPORTED,
            Cause.MIXED_WORKERS,
            Action.FIX_MONITORING,
            "several workers answer the scrape in turns, each with counters of its own;"
            " scrape each worker, or a page that adds them up",
        )
    sized = counts.draft_tokens > 0.0 and counts.unsized_drafts <= 0.0
    if sized and counts.accepted_tokens > counts.draft_tokens * (1.0 + CONTRADICTION / 10.0):
        return _contradiction(
            f"the page claims {words.count(counts.accepted_tokens)} accepted of"
            f" {words.count(counts.draft_tokens)} draft tokens, which cannot be"
        )
    if counts.decode_steps >= BYPASS_STEPS and counts.drafts > MOST_DRAFTS * counts.decode_steps:
        return _contradiction(
            f"the page claims {words.count(counts.drafts)} drafts in"
            f" {words.count(counts.decode_steps)} decode steps, which cannot be"
        )
    covered = abs(counts.position_drafts - counts.drafts) <= CONTRADICTION * counts.drafts
    if counts.drafts > 0.0 and covered:
        by_position = 1.0 + sum(counts.positions) / counts.position_drafts
        by_sum = 1.0 + counts.accepted_tokens / counts.drafts
        if abs(by_position - by_sum) > CONTRADICTION * by_sum:
            return _contradiction(
                f"accepted tokens per position add up to a length of {by_position:.2f},"
                f" the totals to {by_sum:.2f}"
            )
    return None


def _contradiction(what: str) -> Finding:
    return Finding(
        Verdict.MISREPORTED, Cause.CONTRADICTION, Action.FIX_MONITORING, f"{what}; not judged"
    )


def _no_traffic(facts: Facts) -> Finding | None:
    counts = facts.counts
    if facts.window.stalled_seconds >= STALL_SECONDS:
        return Finding(
            Verdict.STALLED,
            None,
            Action.RESTART,
            f"{words.number(facts.window.running_now, 'request')} running and no token for"
            f" {words.duration(facts.window.stalled_seconds)}",
        )
    if facts.speculation is Speculation.ABSENT:
        return Finding(Verdict.OFF, None, Action.NONE, words.off(facts.load))
    # Requests that finish with the last tokens of before move counters of drafts as well.
    drafted = counts.drafts > 0.0 or counts.uncounted_draft_tokens > 0.0
    excerpt = drafted and counts.requests <= 0.0
    if excerpt or any((counts.output_tokens, counts.decode_steps, counts.first_tokens)):
        return None
    if facts.window.warming_up:
        return None
    if facts.window.running_now > 0.0:
        return Finding(
            Verdict.INSUFFICIENT,
            None,
            Action.NONE,
            f"{words.number(facts.window.running_now, 'request')} running, no token yet",
        )
    return Finding(Verdict.IDLE, None, Action.NONE, f"no traffic for {words.span(facts.window)}")


def _unknown_names(facts: Facts) -> Finding | None:
    if facts.speculation is not Speculation.UNKNOWN_NAMES:
        return None
    return Finding(
        Verdict.UNRECOGNISED,
        Cause.NAMES_CHANGED,
        Action.FIX_MONITORING,
        "the page speaks of speculation under names this monitor does not know:"
        " neither off nor healthy can be said",
    )


def _not_drafting(facts: Facts) -> Finding | None:
    counts = facts.counts
    if facts.speculation is Speculation.UNMEASURED:
        if counts.output_tokens >= MEASURED_TOKENS:
            return Finding(Verdict.OFF, None, Action.NONE, words.off(facts.load))
        return Finding(
            Verdict.INSUFFICIENT,
            None,
            Action.NONE,
            "speculation is off or not measured yet; the page cannot tell the two apart",
        )
    if facts.speculation is Speculation.DISABLED:
        return _bypass("the engine has switched drafting down to zero steps by itself")
    # Where decode steps are not counted, more than one token a request shows that there were.
    worked = counts.decode_steps >= BYPASS_STEPS or (
        counts.decode_steps <= 0.0 and counts.output_tokens > 2.0 * counts.requests > 0.0
    )
    coverage = counts.drafts / counts.decode_steps if counts.decode_steps > 0.0 else counts.drafts
    known = counts.uncounted_draft_tokens <= 0.0 and not facts.window.drafts_pending
    if worked and known and coverage < BYPASS_COVERAGE:
        drafts = words.number(counts.drafts, "draft") if counts.drafts else "not one draft"
        return _bypass(
            f"{words.count(counts.output_tokens)} tokens came with {drafts}:"
            " the engine bypasses speculation, or it is broken"
        )
    return None


def _bypass(sentence: str) -> Finding:
    return Finding(Verdict.NOT_DRAFTING, Cause.ENGINE_BYPASS, Action.CHECK_CONFIG, sentence)


def _warming_up(facts: Facts) -> Finding | None:
    if not facts.window.warming_up:
        return None
    return Finding(
        Verdict.INSUFFICIENT,
        Cause.WARMING_UP,
        Action.NONE,
        "the server has just started; its first minute and first requests do not count",
    )


def dead_below(facts: Facts) -> float:
    """The acceptance length below which the drafter is dead: higher for one that was."""
    was_dead = facts.previous is not None and facts.previous[1] is Cause.DRAFTER_DEAD
    return STILL_DEAD_LENGTH if was_dead else DEAD_LENGTH


def _dead(facts: Facts) -> Finding | None:
    length, requests = facts.accepted.length, facts.accepted.requests
    if length is None or facts.counts.drafts < DEAD_DRAFTS or length.value >= dead_below(facts):
        return None
    if requests is not None and requests < LEAST_REQUESTS:
        return None
    sentence = words.dead(length.value, facts.counts, facts.speedup)
    return Finding(Verdict.HARMFUL, Cause.DRAFTER_DEAD, Action.ROLL_BACK, sentence + _when(facts))


def _too_little(facts: Facts) -> Finding | None:
    reason = facts.too_little
    if reason is None:
        return None
    return Finding(
        Verdict.INSUFFICIENT, None, Action.NONE, f"too little traffic to judge: {reason}"
    )


def _by_speedup(facts: Facts) -> Finding | None:
    gain, band = facts.speedup, facts.settings.dead_band
    if gain is None or gain.low is None or gain.high is None:
        return None
    if gain.low > 1.0 + band or _still(facts, Verdict.HEALTHY, gain.value - 1.0, gain.low - 1.0):
        said = f"speculation pays: {_gain_in_words(facts, gain)}"
        return Finding(Verdict.HEALTHY, None, _watch(facts), said)
    if gain.high < 1.0 - band or _still(facts, Verdict.HARMFUL, 1.0 - gain.value, 1.0 - gain.high):
        return _loss(facts, gain)
    if gain.low >= 1.0 - band and gain.high <= 1.0 + band:
        said = f"speculation neither pays nor costs: {_gain_in_words(facts, gain)}"
        return Finding(Verdict.NEUTRAL, None, Action.NONE, said)
    return None


def _gain_in_words(facts: Facts, gain: Estimate) -> str:
    return words.gain(gain, facts.load, facts.accepted, facts.break_even)


def _still(facts: Facts, verdict: Verdict, value: float, limit: float) -> bool:
    """Whether the verdict before stands: its value is clear, and most of its interval agrees.

    Without this a target whose interval touches the edge of the dead-band would change its
    verdict with every other page.
    """
    if facts.previous is None or facts.previous[0] is not verdict:
        return False
    return value > facts.settings.dead_band and limit > -value


def _loss(facts: Facts, gain: Estimate) -> Finding:
    """Too few accepted tokens, or too dear a step although enough are accepted."""
    rate = facts.accepted.rate
    enough = rate is not None and rate.value >= facts.settings.threshold
    found = cause_of_loss(facts.table, facts.past, accepts_enough=enough)
    cost = words.percent(1.0 - gain.value)
    action = found.action if found.cause in _NOT_BY_ROLLBACK else Action.ROLL_BACK
    return Finding(
        Verdict.HARMFUL,
        found.cause,
        action,
        f"speculation costs {cost} of decode speed: {_gain_in_words(facts, gain)}"
        + _why(facts, found),
    )


def _why(facts: Facts, found: Diagnosis) -> str:
    """The clauses about the cause, and since when."""
    return f"; {found.because}{_when(facts)}"


def _when(facts: Facts) -> str:
    past = facts.past
    if past.since is None or not past.has_fallen:
        return ""
    return f"; {words.since(*past.since)}"


def _below_threshold(facts: Facts) -> Finding | None:
    rate, threshold = facts.accepted.rate, facts.settings.threshold
    if rate is None or rate.high is None or rate.high >= threshold:
        return None
    said = words.low_acceptance(rate, threshold, facts.accepted.length, facts.speedup)
    found = diagnose(facts.table, facts.past)
    return Finding(Verdict.DEGRADED, found.cause, found.action, said + _why(facts, found))


def _below_normal(facts: Facts) -> Finding | None:
    """Acceptance below what is normal for this target, though above the threshold."""
    rate, past = facts.accepted.rate, facts.past
    expected = past.expected_rate
    if rate is None or rate.high is None or expected is None:
        return None
    if not past.has_fallen:
        return None
    if rate.high >= UNHEALTHY_SHARE * expected:
        return None
    said = words.below_normal(rate, expected, facts.speedup)
    found = diagnose(facts.table, past)
    return Finding(Verdict.DEGRADED, found.cause, found.action, said + _why(facts, found))


def _slower_steps(facts: Facts) -> Finding | None:
    """Steps that take much longer than before at the same load, with acceptance as it was."""
    past = facts.past
    step = past.changes.step
    if past.has_fallen:
        return None
    if step is None or not past.changes.is_slower:
        return _slower_than_normal(facts)
    return Finding(
        Verdict.DEGRADED,
        Cause.STEP_COST,
        Action.RESTART,
        words.slower(step.before, step.after, facts.accepted)
        + f"; {words.since(step.at, step.error)}",
    )


def _slower_than_normal(facts: Facts) -> Finding | None:
    """The same by the detector, which also finds what is small or came slowly."""
    past = facts.past
    if past.slow_alarm is None or past.slow_since is None or past.normal_speedup is None:
        return None
    rate, normal = facts.accepted.rate, past.normal
    if normal is not None and (rate is None or rate.value < UNHEALTHY_SHARE * normal.rate):
        # Acceptance that has sunk explains a lower speedup by itself.
        return None
    said = words.slower_than_normal(facts.speedup, past.normal_speedup, facts.accepted)
    error = (past.slow_alarm - past.slow_since) / 2.0
    return Finding(
        Verdict.DEGRADED,
        Cause.STEP_COST,
        Action.RESTART,
        f"{said}; {words.since(past.slow_since, error)}",
    )


def _in_line(facts: Facts) -> Finding | None:
    """Without a baseline, acceptance in line with its own learnt normal is healthy."""
    rate, normal = facts.accepted.rate, facts.past.normal
    if rate is None or normal is None or facts.speedup is not None:
        return None
    if rate.high is None or rate.high < UNHEALTHY_SHARE * normal.rate:
        return None
    if _watch(facts) is not Action.NONE:
        return None
    return Finding(
        Verdict.HEALTHY, None, Action.NONE, words.in_line(rate, normal.rate, normal.hours)
    )


def _watch(facts: Facts) -> Action:
    """Near-perfect or suddenly better acceptance may be a loop in the output: have a look."""
    rate, k, past = facts.accepted.rate, facts.accepted.k, facts.past
    if rate is None or k is None:
        return Action.NONE
    perfect = k > 1.5 and rate.value >= SUSPICIOUS_RATE  # noqa: PLR2004
    return Action.CHECK_OUTPUT if perfect or past.has_jumped else Action.NONE


def _unproven(facts: Facts) -> Finding:
    action = _watch(facts)
    cause = Cause.SUSPICIOUS_OUTPUT if action is Action.CHECK_OUTPUT else None
    return Finding(Verdict.UNPROVEN, cause, action, words.unproven(facts_of(facts), action))


def facts_of(facts: Facts) -> words.Unproven:
    """What the sentence of an unproven verdict needs."""
    return words.Unproven(
        acceptance=facts.accepted,
        speedup=facts.speedup,
        dead_band=facts.settings.dead_band,
        load=facts.load,
        baseline=facts.settings.baseline,
        baseline_matches=facts.baseline_matches,
        outside=facts.counts.uncompared_seconds > facts.counts.compared_seconds,
        weak=facts.accepted.evidence is Evidence.GAUGE,
    )


_NOT_BY_ROLLBACK = frozenset({Cause.LOAD_CROSSOVER, Cause.UPTIME_DECAY})
"""Causes of a loss that a rollback does not cure, or not for good."""

_Rule = Callable[[Facts], Finding | None]

_BEFORE_ACCEPTANCE: tuple[_Rule, ...] = (_misreported, _no_traffic, _unknown_names, _not_drafting)
"""The rules that find verdicts ``WITHOUT_ACCEPTANCE``."""

_RULES: tuple[_Rule, ...] = (
    *_BEFORE_ACCEPTANCE,
    _warming_up,
    _dead,
    _too_little,
    _by_speedup,
    _below_threshold,
    _below_normal,
    _slower_steps,
    _in_line,
)
