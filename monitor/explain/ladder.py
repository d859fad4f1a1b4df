"""The rules in order, each with what it looked at and why it did not apply, in a short clause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from monitor.health import verdict, words
from monitor.health.detect import THRESHOLD
from monitor.health.past import LEAST_SLOWER
from monitor.health.verdict import Facts, Finding

Figures = dict[str, Any]


class Clause(NamedTuple):
    """Why a rule did not apply, and the figures of that."""

    because: str
    figures: Figures


@dataclass(frozen=True, slots=True)
class Case:
    """One judged window with what surrounds it."""

    facts: Facts
    learnt_effect: float | None = None
    evidence: float = 0.0
    """Of the detector of drops."""
    learnt_requests: float = 0.0
    """Behind the learnt normal."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One rule of the ladder."""

    rule: str
    asks: str
    """What the rule is about, as a question."""
    decided: bool
    because: str
    figures: Figures


def climb(case: Case) -> list[Rung]:
    """The rules up to the one that decides."""
    return [_rung(case, rule, finding) for rule, finding in verdict.trace(case.facts)]


def _rung(case: Case, rule: str, finding: Finding | None) -> Rung:
    asks, explain = RULES.get(rule, (f"{rule.replace('_', ' ')}?", _unexplained))
    clause = explain(case)
    because = clause.because if finding is None else finding.sentence
    return Rung(rule, asks, finding is not None, because, clause.figures)


def _misreported(case: Case) -> Clause:
    counts = case.facts.counts
    figures: Figures = {
        "accepted_tokens": counts.accepted_tokens,
        "draft_tokens": counts.draft_tokens,
        "alternating": case.facts.window.alternating,
    }
    said = []
    if counts.draft_tokens > 0.0:
        accepted, drafted = words.count(counts.accepted_tokens), words.count(counts.draft_tokens)
        said.append(f"{accepted} accepted of {drafted} draft tokens can be")
    if counts.position_drafts > 0.0 and counts.drafts > 0.0:
        by_position = 1.0 + sum(counts.positions) / counts.position_drafts
        by_sum = 1.0 + counts.accepted_tokens / counts.drafts
        figures |= {"length_by_positions": by_position, "length_by_sums": by_sum}
        said.append(f"the positions add up to a length of {by_position:.2f}, as the totals do")
    return Clause("; ".join(said) or "there are no figures that could contradict", figures)


def _no_traffic(case: Case) -> Clause:
    window, counts = case.facts.window, case.facts.counts
    figures: Figures = {
        "output_tokens": counts.output_tokens,
        "running": window.running_now,
        "stalled_seconds": window.stalled_seconds,
        "stalled_from": verdict.STALL_SECONDS,
    }
    flow = f"{words.count(counts.output_tokens)} tokens in {words.span(window)}"
    return Clause(f"{flow}, and speculation is there", figures)


def _unknown_names(_case: Case) -> Clause:
    return Clause("no speculative figure under an unknown name", {})


def _not_drafting(case: Case) -> Clause:
    counts = case.facts.counts
    coverage = counts.drafts / counts.decode_steps if counts.decode_steps > 0.0 else None
    figures: Figures = {
        "drafts": counts.drafts,
        "decode_steps": counts.decode_steps,
        "coverage": coverage,
        "bypassed_below": verdict.BYPASS_COVERAGE,
    }
    if coverage is None:
        return Clause(f"{words.number(counts.drafts, 'draft')} in the window", figures)
    share = words.percent(min(coverage, 1.0))
    if counts.decode_steps < verdict.BYPASS_STEPS:
        few = words.number(counts.decode_steps, "decode step")
        return Clause(f"{few} are too few to miss drafts in", figures)
    return Clause(f"{share} of the decode steps carried a draft", figures)


def _warming_up(_case: Case) -> Clause:
    return Clause("the server did not start just now", {})


def _dead(case: Case) -> Clause:
    facts = case.facts
    length, drafts, requests = facts.accepted.length, facts.counts.drafts, facts.accepted.requests
    limit = verdict.dead_below(facts)
    figures: Figures = {
        "acceptance_length": length.value if length is not None else None,
        "dead_below": limit,
        "drafts": drafts,
        "drafts_needed": verdict.DEAD_DRAFTS,
        "requests": requests,
    }
    if length is None:
        return Clause("the acceptance length is not known", figures)
    if length.value >= limit:
        least = f"a dead drafter has less than {limit:.2f}"
        return Clause(f"{length.value:.2f} tokens per draft; {least}", figures)
    if drafts < verdict.DEAD_DRAFTS:
        seen = words.number(drafts, "draft")
        return Clause(f"{seen} are too few to call it dead, {verdict.DEAD_DRAFTS} do", figures)
    return Clause(
        f"{words.number(requests or 0.0, 'request')} are too few to call it dead", figures
    )


def _too_little(case: Case) -> Clause:
    accepted = case.facts.accepted
    half = half_width(case.facts)
    figures: Figures = {
        "requests": accepted.requests,
        "requests_needed": verdict.LEAST_REQUESTS,
        "samples": accepted.samples,
        "samples_needed": verdict.LEAST_SAMPLES,
        "half_width": half,
        "half_width_allowed": verdict.WIDEST_HALF,
    }
    said = []
    if accepted.requests is not None:
        seen = words.number(accepted.requests, "request")
        said.append(f"{seen} ({verdict.LEAST_REQUESTS} needed)")
    said.append(f"{accepted.samples:,.0f} independent samples ({verdict.LEAST_SAMPLES:.0f})")
    if half is not None:
        allowed = words.percent(verdict.WIDEST_HALF)
        said.append(f"the rate known to ± {words.percent(half)} (± {allowed})")
    return Clause(", ".join(said), figures)


def half_width(facts: Facts) -> float | None:
    """Half of the width of the interval of the acceptance rate."""
    rate = facts.accepted.rate
    if rate is None or rate.low is None or rate.high is None:
        return None
    return (rate.high - rate.low) / 2.0


def _by_speedup(case: Case) -> Clause:
    facts = case.facts
    gain, band = facts.speedup, facts.settings.dead_band
    figures: Figures = {
        "speedup": gain._asdict() if gain is not None else None,
        "dead_band": [1.0 - band, 1.0 + band],
    }
    if gain is None:
        return Clause(why_no_speedup(facts), figures)
    edges = f"{1.0 - band:.2f} and {1.0 + band:.2f}"
    return Clause(
        f"{words.times(gain)} of plain decoding is neither side of {edges} for sure", figures
    )


def why_no_speedup(facts: Facts) -> str:
    """Why there is no speedup to judge by."""
    baseline = facts.settings.baseline
    if baseline is None:
        return "no baseline to compare with"
    if not facts.baseline_matches:
        return f"the baseline {baseline.name} was measured on another kind of server"
    if facts.counts.uncompared_seconds > facts.counts.compared_seconds:
        return f"{words.covered(baseline)} only"
    return "no latency to compare with the baseline"


def _below_threshold(case: Case) -> Clause:
    rate, threshold = case.facts.accepted.rate, case.facts.settings.threshold
    high = rate.high if rate is not None else None
    figures: Figures = {"upper_limit": high, "threshold": threshold}
    if high is None:
        return Clause("the acceptance rate is not known", figures)
    limit, least = words.percent(high), words.percent(threshold)
    return Clause(f"its upper limit of {limit} is not below the threshold of {least}", figures)


def _below_normal(case: Case) -> Clause:
    rate, past = case.facts.accepted.rate, case.facts.past
    expected = past.expected_rate
    high = rate.high if rate is not None else None
    figures: Figures = {
        "upper_limit": high,
        "normal": expected,
        "unhealthy_share": verdict.UNHEALTHY_SHARE,
        "evidence": case.evidence,
        "evidence_needed": THRESHOLD,
        "fallen": past.has_fallen,
    }
    if expected is None or high is None:
        what = "acceptance rate is known" if high is None else "normal is learnt yet"
        return Clause(f"no {what}", figures)
    if not past.has_fallen:
        seen = f"evidence {case.evidence:.1f} of {THRESHOLD:.0f}"
        return Clause(
            f"no fall from the normal {words.percent(expected)} was found ({seen})", figures
        )
    bound = words.percent(verdict.UNHEALTHY_SHARE * expected)
    limit = words.percent(high)
    return Clause(
        f"its upper limit of {limit} is not below {bound}, 95 % of what is normal", figures
    )


def _slower_steps(case: Case) -> Clause:
    past = case.facts.past
    step = past.changes.step
    figures: Figures = {
        "before": step.before if step is not None else None,
        "after": step.after if step is not None else None,
        "relative": step.relative if step is not None else None,
        "slow_from": LEAST_SLOWER,
    }
    if past.slow_alarm is not None and past.normal is not None and not past.has_fallen:
        return Clause("the speedup has fallen, and lower acceptance explains it", figures)
    if step is None:
        return Clause("no change of the time of a step was found", figures)
    if not past.changes.is_slower:
        change = f"{100.0 * step.relative:+.0f} %"
        least = words.percent(LEAST_SLOWER)
        return Clause(f"the time of a step changed by {change}, slow is from {least} on", figures)
    return Clause("acceptance has fallen as well, so that steps are not what is wrong", figures)


def _in_line(case: Case) -> Clause:
    facts = case.facts
    rate, normal = facts.accepted.rate, facts.past.normal
    high = rate.high if rate is not None else None
    figures: Figures = {
        "upper_limit": high,
        "normal": normal.rate if normal is not None else None,
        "unhealthy_share": verdict.UNHEALTHY_SHARE,
    }
    if facts.speedup is not None:
        return Clause("there is a speedup to go by, so that being normal proves nothing", figures)
    if normal is None or high is None:
        what = "acceptance rate is known" if high is None else "normal is learnt yet"
        return Clause(f"no {what}", figures)
    if high < verdict.UNHEALTHY_SHARE * normal.rate:
        bound = words.percent(verdict.UNHEALTHY_SHARE * normal.rate)
        limit = words.percent(high)
        return Clause(f"its upper limit of {limit} is below {bound}, 95 % of normal", figures)
    return Clause("acceptance is suspiciously good, which wants a look at the output", figures)


def _unexplained(_case: Case) -> Clause:
    return Clause("it did not apply", {})


def _unproven(_case: Case) -> Clause:
    return Clause("nothing else applied", {})


RULES: dict[str, tuple[str, Callable[[Case], Clause]]] = {
    "misreported": ("do the figures contradict themselves?", _misreported),
    "no_traffic": ("no traffic, a stall, or no speculation?", _no_traffic),
    "unknown_names": ("unknown names?", _unknown_names),
    "not_drafting": ("tokens without drafts?", _not_drafting),
    "warming_up": ("warming up?", _warming_up),
    "dead": ("is the drafter dead?", _dead),
    "too_little": ("too little to judge?", _too_little),
    "by_speedup": ("does the speedup decide?", _by_speedup),
    "below_threshold": ("acceptance below the threshold?", _below_threshold),
    "below_normal": ("acceptance below its normal?", _below_normal),
    "slower_steps": ("steps slower than before?", _slower_steps),
    "in_line": ("acceptance as it always is?", _in_line),
    "unproven": ("what is left", _unproven),
}
"""What each rule asks, and what explains that it did not apply."""
