"""The quotients that people read, each from sums of one window."""

from __future__ import annotations

from typing import NamedTuple

from monitor.health.interval import (
    acceptance_interval,
    accepted_variance,
    combined_design_effect,
    default_design_effect,
)
from monitor.health.speedup import running
from monitor.model import Counts, Estimate, Evidence, Load, Position, Window

GAUGE_SHARE = 0.05
"""Above this share of drafts from gauges the whole window counts as weak evidence."""


class Acceptance(NamedTuple):
    """Acceptance of a window with the evidence behind it."""

    rate: Estimate | None
    length: Estimate | None
    k: float | None
    """Effective k: draft tokens per draft."""
    samples: float
    """Independent samples: draft tokens over the design effect."""
    requests: float | None
    """Requests that took part: finished ones and those still running; None is unknown."""
    evidence: Evidence | None


def acceptance(window: Window, learnt_effect: float | None = None) -> Acceptance:
    """Rate and length with intervals; None for each part the page cannot give.

    ``learnt_effect`` is the design effect of this target's healthy history, if there is one.
    """
    counts = window.counts
    drafts, tokens = counts.drafts, counts.draft_tokens
    requests = counts.requests + window.running_now if counts.requests > 0.0 else None
    evidence = _evidence(counts)
    sized = tokens > 0.0 and counts.unsized_drafts <= 0.0
    counted = drafts > 0.0 and counts.uncounted_draft_tokens <= 0.0
    k = tokens / drafts if sized and counted else None
    # A difference of two counters that move apart for a moment may dip below zero.
    accepted = max(counts.accepted_tokens, 0.0)
    length = 1.0 + accepted / drafts if counted else None
    if not sized:
        estimate = Estimate(length) if length is not None else None
        return Acceptance(None, estimate, None, drafts, requests, evidence)
    effect = _design_effect(window, k, requests, learnt_effect)
    rate = acceptance_interval(accepted, tokens, effect)
    return Acceptance(rate, _length(length, rate, k), k, tokens / effect, requests, evidence)


def _length(length: float | None, rate: Estimate, k: float | None) -> Estimate | None:
    if length is None:
        return None
    if k is None or rate.low is None or rate.high is None:
        return Estimate(length)
    return Estimate(length, min(1.0 + k * rate.low, length), max(1.0 + k * rate.high, length))


def _design_effect(
    window: Window, k: float | None, requests: float | None, learnt: float | None
) -> float:
    """The learnt or assumed effect, but never less than the spread between positions shows."""
    counts = window.counts
    stored = learnt or default_design_effect(counts.draft_tokens, requests or 0.0)
    return combined_design_effect(stored, None, 1, spread_between_positions(counts, k))


def spread_between_positions(counts: Counts, k: float | None) -> float:
    """The least design effect that the counters per position allow; 1 without them."""
    variance = accepted_variance(counts.position_drafts, counts.positions)
    rate = min(max(counts.accepted_tokens / counts.draft_tokens, 0.0), 1.0)
    spread = (k or 0.0) * rate * (1.0 - rate)
    return variance / spread if variance is not None and spread > 0.0 else 1.0


def _evidence(counts: Counts) -> Evidence | None:
    if counts.drafts <= 0.0 and counts.draft_tokens <= 0.0:
        return None
    weak = counts.gauge_drafts > GAUGE_SHARE * counts.drafts
    return Evidence.GAUGE if weak else Evidence.COUNTER


def positions(counts: Counts) -> tuple[Position, ...]:
    """Acceptance by draft position; the first position is 0.

    ``rate`` falls along the positions, because a token counts only if all before it were
    accepted; ``conditional`` is the drafter's quality at that position. A position that was
    never reached has no conditional rate, which is not the same as zero.
    """
    if counts.position_drafts <= 0.0:
        return ()
    before = counts.position_drafts
    table = []
    for index, accepted in enumerate(counts.positions):
        conditional = accepted / before if before > 0.0 else None
        table.append(Position(index, accepted / counts.position_drafts, conditional))
        before = accepted
    return tuple(table)


def load(window: Window) -> Load:
    """How busy the server was and what a step cost and gave.

    Tokens per step come from output tokens and decode steps, because 1 + accepted / drafts
    overstates them when some steps carry no draft.
    """
    counts = window.counts
    seconds, tokens, steps = counts.decode_seconds, counts.decode_tokens, counts.decode_steps
    tpot = seconds / tokens if tokens > 0.0 and seconds > 0.0 else None
    per_step = tokens / steps if steps > 0.0 and tokens > 0.0 else _accepted_per_step(counts)
    step = seconds / steps if steps > 0.0 and seconds > 0.0 else None
    if step is None and tpot is not None and per_step is not None:
        step = tpot * per_step
    return Load(
        running=running(counts),
        waiting=counts.waiting_seconds / counts.seconds if counts.seconds > 0.0 else None,
        tpot=tpot,
        step=step,
        tokens_per_step=per_step,
        coverage=counts.drafts / steps if steps > 0.0 else None,
    )


def _accepted_per_step(counts: Counts) -> float | None:
    if counts.drafts <= 0.0 or counts.uncounted_draft_tokens > 0.0:
        return None
    return 1.0 + counts.accepted_tokens / counts.drafts
