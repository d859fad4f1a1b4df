"""Does it pay? Time per token against the stored baseline at the same load.

Tokens per second cannot answer: below saturation they equal the arrival rate whatever the
truth, and vLLM's inter-token latency is per step, not per token. The speedup here is the time
the plain server would have needed for the same tokens at the same number of running requests,
over the time used: S = Σ base(n)·T / Σ decode time (docs/statistics.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, sqrt

from monitor.health.baseline import Baseline, QuickSpeeds
from monitor.health.interval import t_quantile
from monitor.health.ledger import Block
from monitor.model import BreakEven, Counts, Estimate

BLOCKS = 6
"""Parts of a window for the spread between them. More parts would be shorter than the time for
which step times wander, and the interval too narrow (``benchmarks/speedup.py``)."""
LEAST_BLOCKS = 5
"""With fewer blocks the spread between them says nothing."""
BASELINE_ERROR = 0.03
"""Relative standard error of one point of a measured baseline."""
UNMEASURED_HALF_WIDTH = 0.25
"""Relative half-width that is assumed while there are too few looks to measure the spread."""


def running(counts: Counts) -> float | None:
    """Mean number of requests that decoded together; below one means one.

    The decode batch per engine step where the page counts steps, because idle time does not
    dilute it; else Little's law over wall time; else the gauge.
    """
    if counts.engine_steps > 0.0 and counts.batched_steps > 0.0:
        return max(counts.batched_steps / counts.engine_steps, 1.0)
    if counts.seconds <= 0.0:
        return None
    if counts.decode_seconds > 0.0:
        return max(counts.decode_seconds / counts.seconds, 1.0)
    return counts.running_seconds / counts.seconds


def compare(counts: Counts, baseline: Baseline) -> Counts:
    """Adds to one interval's counts what the baseline would have needed for its tokens."""
    if counts.decode_tokens <= 0.0 or counts.decode_seconds <= 0.0:
        return counts
    load = running(counts)
    plain = baseline.tpot(load) if load is not None else None
    if plain is None:
        return counts._replace(uncompared_seconds=counts.decode_seconds)
    return counts._replace(
        baseline_seconds=plain * counts.decode_tokens, compared_seconds=counts.decode_seconds
    )


def speedup(counts: Counts, blocks: Sequence[Block]) -> Estimate | None:
    """Speedup of a window with its 95 % interval; None where nothing could be compared.

    The variance is that of the ratio over blocks (delta method), the baseline's own error is
    added in quadrature. Where more decode time lies outside the baseline's range than inside,
    there is no honest answer.
    """
    if counts.compared_seconds <= 0.0 or counts.uncompared_seconds > counts.compared_seconds:
        return None
    value = counts.baseline_seconds / counts.compared_seconds
    used = [block for block in blocks if block.compared_seconds > 0.0]
    if len(used) < LEAST_BLOCKS:
        half = UNMEASURED_HALF_WIDTH * value
    else:
        residuals = (b.baseline_seconds - value * b.compared_seconds for b in used)
        spread = sqrt(sum(r * r for r in residuals) * len(used) / (len(used) - 1))
        error = hypot(spread / counts.compared_seconds, BASELINE_ERROR * value)
        half = t_quantile(len(used) - 1) * error
    return Estimate(value, max(value - half, 0.0), value + half)


def quick_speedup(speeds: QuickSpeeds) -> Estimate:
    """Speedup from two single-stream speeds; each is taken to be right to 3 %."""
    value = speeds.with_speculation / speeds.without_speculation
    half = 1.96 * hypot(BASELINE_ERROR, BASELINE_ERROR) * value
    return Estimate(value, value - half, value + half)


def break_even(
    speedup_value: float, tokens_per_step: float, coverage: float | None, k: float | None
) -> BreakEven:
    """Acceptance length and rate at which speculation would just pay.

    The cost of a step in plain steps is r = tokens per step / S, and speculation pays once a
    step yields more than r tokens: τ* = r, rate* = (r − 1) / k. Where only a share of the
    steps carries a draft, that share alone has to earn it.
    """
    needed = tokens_per_step / speedup_value
    if coverage is not None and 0.0 < coverage < 1.0:
        needed = 1.0 + (needed - 1.0) / coverage
    return BreakEven(needed, (needed - 1.0) / k if k else None)
