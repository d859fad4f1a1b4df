"""What another draft size would give: best k, and how much of the draft work is wasted.

From per-position acceptance the tokens per step at a smaller k are known exactly for a chain
drafter: τ(k') = 1 + Σ p_i over the first k' positions. What a draft token costs is not: one k
gives only bounds, 0 ≤ c ≤ (step − base) / k. The answer is given when both bounds agree, or
when two k have been seen and c follows from their difference (docs/statistics.md). Expect the
prefix formula to be 4 % off.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from monitor.health.verdict import Facts
from monitor.model import Position, WhatIf

_SAME_K = 0.01
"""Relative difference of effective and configured k above which drafts vary in length."""


_SAME_LOAD = 1.25
"""Ratio of two loads at which steps of different draft sizes may still be compared."""
_OTHER_K = 0.5


class StepCost(NamedTuple):
    """What a step costs now and what a plain one would, in seconds, at the same load."""

    k: float
    step: float
    plain: float


def marginal_cost(one: StepCost, other: StepCost) -> float | None:
    """Seconds for one more draft token, from steps at two draft sizes at the same load."""
    if one.k == other.k:
        return None
    return max((one.step - other.step) / (one.k - other.k), 0.0)


def cost_bounds(now: StepCost) -> tuple[float, float]:
    """The least and the most a draft token can cost when only one draft size was seen."""
    return 0.0, max(now.step - now.plain, 0.0) / now.k


def tpots(rates: Sequence[float], now: StepCost, cost: float) -> list[float]:
    """Seconds per token with 0, 1, … k draft tokens; 0 is decoding without speculation."""
    times = [now.plain]
    for k, tokens in enumerate(accumulate(rates), start=1):
        times.append((now.step - cost * (now.k - k)) / (1.0 + tokens))
    return times


def best_k(tpots: Sequence[float]) -> int:
    """The draft size with the least time per token among 0 … k."""
    return tpots.index(min(tpots))


def what_if(
    table: Sequence[Position],
    effective_k: float,
    now: StepCost,
    cost: float | None = None,
) -> WhatIf | None:
    """The best draft size, or None where positions do not allow the question.

    ``cost`` is the marginal cost of a draft token where two draft sizes have been seen.
    """
    if not table or abs(effective_k - len(table)) > _SAME_K * len(table):
        return None
    rates = [position.rate for position in table]
    wasted = max(1.0 - sum(rates) / len(rates), 0.0)
    least, most = (cost, cost) if cost is not None else cost_bounds(now)
    cheap, dear = tpots(rates, now, least), tpots(rates, now, most)
    low, high = best_k(cheap), best_k(dear)
    current = now.plain / cheap[-1]
    if low != high:
        note = (
            f"undecided: k = {low} if draft tokens cost nothing, k = {high} if they cost all of"
            " the difference to a plain step; a run with another k would tell"
        )
        return WhatIf(None, None, note, wasted)
    if low == len(rates):
        return WhatIf(low, current, f"k = {low} is the best draft size up to {low}", wasted)
    if low == 0:
        note = f"no draft size pays; plain decoding is {1.0 / current:.2f} times as fast"
        return WhatIf(0, 1.0, note, wasted)
    gains = [now.plain / cheap[low], now.plain / dear[high]]
    gain = sum(gains) / 2.0
    spread = "" if cost is not None else "at least " if gains[0] < gains[1] else "about "
    note = f"k = {low} would give {spread}{min(gains):.2f}x instead of {current:.2f}x"
    return WhatIf(low, gain, note, wasted)


def best_size(
    facts: Facts,
    table: Sequence[Position],
    seen: MutableMapping[str, tuple[StepCost, float]],
) -> WhatIf | None:
    """The best draft size, where a baseline and counters per position are there.

    ``table`` is that of ``facts``. ``seen`` keeps what a step cost and at which load, by draft
    size, and learns from ``facts``.
    """
    now = _step_cost(facts)
    if now is None or not facts.conclusive:
        return None
    running = facts.load.running or 1.0
    seen[str(round(now.k))] = (now, running)
    cost = None
    for other, load in seen.values():
        close = _SAME_LOAD > load / running > 1.0 / _SAME_LOAD
        if close and abs(other.k - now.k) > _OTHER_K:
            cost = marginal_cost(now, other)
    return what_if(table, now.k, now, cost)


def _step_cost(facts: Facts) -> StepCost | None:
    k, step, gain = facts.accepted.k, facts.load.step, facts.speedup
    if k is None or step is None or gain is None or facts.load.tpot is None:
        return None
    return StepCost(k, step, gain.value * facts.load.tpot)
