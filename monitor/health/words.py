"""The one English sentence of a verdict: what was decided, on which figures."""

from __future__ import annotations

from typing import NamedTuple

from monitor.health.baseline import Baseline
from monitor.health.figures import Acceptance
from monitor.model import Action, BreakEven, Counts, EngineVerdict, Estimate, Load, Window

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


def count(value: float) -> str:
    """A whole number with thousands separated."""
    return f"{value:,.0f}"


def number(value: float, noun: str) -> str:
    """A number and its noun, in the plural where it must be."""
    return f"{count(value)} {noun}" if round(value) == 1 else f"{count(value)} {noun}s"


def percent(share: float) -> str:
    """A share in per cent, with a decimal where the whole number would say nothing."""
    value = 100.0 * share
    return f"{value:.0f} %" if value >= 10.0 or value == 0.0 else f"{value:.1f} %"  # noqa: PLR2004


def running(load: float) -> str:
    """Running requests; with a decimal where 3.6 and 4.2 would read the same."""
    return f"{load:.0f}" if load >= 10.0 else f"{load:.1f}".removesuffix(".0")  # noqa: PLR2004


def covered(baseline: Baseline) -> str:
    """The loads that a baseline knows."""
    low, high = (running(load) for load in baseline.running_range)
    loads = low if low == high else f"{low}–{high}"
    return f"the baseline {baseline.name} covers {loads} running requests"


def duration(seconds: float) -> str:
    """A span of time as a person would say it."""
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= 2.0 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def clock(at: float) -> str:
    """Time of day, UTC, to the minute."""
    minutes = int(at // _MINUTE)
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d} UTC"


def since(at: float, error: float) -> str:
    """When something changed, with its uncertainty."""
    return f"since {clock(at)} ± {duration(max(error, 1.0))}"


def span(window: Window) -> str:
    """How long a window is."""
    return duration(window.end - window.start) if window.end > window.start else "now"


def times(estimate: Estimate) -> str:
    """A speedup with its interval."""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f}x"
    return f"{estimate.value:.2f}x ({estimate.low:.2f}–{estimate.high:.2f})"


def gain(speedup: Estimate, load: Load, accepted: Acceptance, pays_from: BreakEven | None) -> str:
    """Speed, load and acceptance against what is needed, as one clause each."""
    parts = [f"{times(speedup)} of plain decoding" + at_load(load)]
    if accepted.rate is not None:
        needed = pays_from.acceptance_rate if pays_from is not None else None
        parts.append(f"{percent(accepted.rate.value)} of draft tokens accepted{_needed(needed)}")
    elif accepted.length is not None and pays_from is not None:
        parts.append(
            f"acceptance length {accepted.length.value:.2f},"
            f" it pays from {pays_from.acceptance_length:.2f}"
        )
    return "; ".join(parts)


def _needed(rate: float | None) -> str:
    """The break-even rate as a clause; beyond 0–100 % it needs other words."""
    if rate is None or rate <= 0.0:
        return ""
    if rate >= 1.0:
        return ", and accepting all of them would not pay"
    return f", it pays from {percent(rate)}"


def at_load(load: Load) -> str:
    """The load in words, with a leading space, or nothing where it is unknown."""
    if load.running is None or load.running <= 0.0:
        return ""
    return f" at {load.running:.0f} running request" + ("" if round(load.running) == 1 else "s")


def off(load: Load) -> str:
    """The sentence for a server without speculation."""
    speed = f"; {1000.0 * load.tpot:.1f} ms per token{at_load(load)}" if load.tpot else ""
    return f"no speculation on this server{speed}"


def dead(length: float, counts: Counts, speedup: Estimate | None) -> str:
    """The sentence for a drafter that is never right."""
    cost = f", decoding runs at {times(speedup)} of plain" if speedup is not None else ""
    return (
        f"the drafter is dead: {length:.2f} tokens per draft over {count(counts.drafts)} drafts,"
        f" no saved step can pay for the drafting{cost}"
    )


def low_acceptance(
    rate: Estimate, threshold: float, length: Estimate | None, speedup: Estimate | None
) -> str:
    """The sentence for acceptance below the threshold without a proven gain."""
    tokens = f" ({length.value:.2f} tokens per draft)" if length is not None else ""
    proof = (
        f"the speedup of {times(speedup)} proves no gain"
        if speedup is not None
        else "no baseline proves a gain"
    )
    return (
        f"{percent(rate.value)} of draft tokens accepted{tokens}, below the threshold of"
        f" {percent(threshold)}; {proof}"
    )


def below_normal(rate: Estimate, expected: float, speedup: Estimate | None) -> str:
    """The sentence for acceptance below its own normal."""
    proof = f"; {times(speedup)} of plain decoding" if speedup is not None else ""
    now, then = percent(rate.value), percent(expected)
    return f"{now} of draft tokens accepted where {then} is normal{proof}"


def slower(before: float, after: float, accepted: Acceptance) -> str:
    """The sentence for steps that take longer than before."""
    rate = (
        f" while acceptance stays at {percent(accepted.rate.value)}"
        if accepted.rate is not None
        else ""
    )
    return (
        f"a step takes {1000.0 * after:.1f} ms instead of {1000.0 * before:.1f} at the same load"
        f"{rate}: the engine is slow, not the drafter"
    )


def slower_than_normal(speedup: Estimate | None, normal: float, accepted: Acceptance) -> str:
    """The sentence for a speedup below its own normal, which acceptance does not explain."""
    now = times(speedup) if speedup is not None else "less"
    rate = (
        f" while acceptance stays at {percent(accepted.rate.value)}"
        if accepted.rate is not None
        else ""
    )
    return (
        f"{now} of plain decoding where {normal:.2f}x is normal at this load{rate}:"
        " the engine is slow, not the drafter"
    )


def in_line(rate: Estimate, normal: float, hours: int) -> str:
    """The sentence for acceptance as it always is."""
    when = "" if hours >= 24 else " at this hour"  # noqa: PLR2004
    return (
        f"{percent(rate.value)} of draft tokens accepted, as is normal{when}"
        f" ({percent(normal)}); no baseline to say whether it pays"
    )


def outlier(sick: list[EngineVerdict], others: list[EngineVerdict], total: int) -> str:
    """The sentence for one of several engines being sick."""
    names = ", ".join(e.label for e in sick)
    theirs = _lengths(sick)
    rest = _lengths(others)
    who = f"engine {names}, one of {total}, is" if len(sick) == 1 else f"engines {names} are"
    return f"{who} sick: {theirs} tokens per draft, the others {rest}"


def _lengths(engines: list[EngineVerdict]) -> str:
    known = [e.acceptance_length.value for e in engines if e.acceptance_length is not None]
    if not known:
        return "unknown"
    low, high = min(known), max(known)
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f}–{high:.2f}"


class Unproven(NamedTuple):
    """What is known when nothing is proven."""

    acceptance: Acceptance
    speedup: Estimate | None
    dead_band: float
    load: Load
    baseline: Baseline | None
    baseline_matches: bool
    outside: bool
    weak: bool


def unproven(facts: Unproven, action: Action) -> str:
    """The sentence when acceptance is known and nothing tells whether it pays."""
    parts = [_acceptance(facts.acceptance), _why_unproven(facts)]
    if action is Action.CHECK_OUTPUT:
        parts.append("nearly everything is accepted, which loops in the output also do")
    if facts.weak:
        parts.append("the figures are gauges of the last batches")
    return "; ".join(parts)


def _acceptance(accepted: Acceptance) -> str:
    if accepted.rate is None and accepted.length is None:
        return "drafts flow, acceptance is unknown"
    tokens = f"{accepted.length.value:.2f} tokens per draft" if accepted.length else ""
    if accepted.rate is None:
        return f"{tokens}; the draft size is unknown, so acceptance cannot be judged"
    return f"{percent(accepted.rate.value)} of draft tokens accepted" + (
        f" ({tokens})" if tokens else ""
    )


def _why_unproven(facts: Unproven) -> str:
    if facts.speedup is not None:
        return f"whether it pays is open: {times(facts.speedup)} of plain decoding"
    if facts.baseline is None:
        return "no baseline to say whether it pays"
    if not facts.baseline_matches:
        return f"the baseline {facts.baseline.name} was measured on another kind of server"
    if facts.outside:
        load = "this many" if facts.load.running is None else running(facts.load.running)
        return f"{covered(facts.baseline)}, not {load}"
    return "the page has no latency to compare with the baseline"
