"""Best draft size, against published runs of the same model with k = 2 … 7."""

from __future__ import annotations

import pytest

from monitor.health.whatif import (
    StepCost,
    best_k,
    cost_bounds,
    marginal_cost,
    tpots,
    what_if,
)
from monitor.model import Position

MT_BENCH = (0.74, 0.54, 0.41, 0.30, 0.22, 0.16, 0.12, 0.08, 0.05, 0.02)
PLAIN = 7.07
EAGLE_1 = ((0.66, 0.44, 0.19, 0.10, 0.04, 0.02, 0.02), (2.10 * 4.37, 2.47 * 5.20))
EAGLE_3 = ((0.74, 0.62, 0.43, 0.29, 0.24, 0.14, 0.08), (10.20, 15.1866))


def table(rates: tuple[float, ...]) -> tuple[Position, ...]:
    return tuple(Position(i, rate, None) for i, rate in enumerate(rates))


@pytest.mark.parametrize(
    ("k", "expected"), [(2, 2.28), (3, 2.69), (4, 2.99), (5, 3.21), (7, 3.49)]
)
def test_tokens_per_step_at_a_smaller_draft(k: int, expected: float) -> None:
    step = StepCost(10.0, 1.0, PLAIN)
    assert 1.0 / tpots(MT_BENCH, step, 0.0)[k] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rates", "steps", "best", "tpot"),
    [(EAGLE_1[0], EAGLE_1[1], 3, 4.328), (EAGLE_3[0], EAGLE_3[1], 4, 3.958)],
)
def test_two_seen_draft_sizes_give_the_true_best(
    rates: tuple[float, ...], steps: tuple[float, float], best: int, tpot: float
) -> None:
    now = StepCost(7.0, steps[1], PLAIN)
    cost = marginal_cost(StepCost(2.0, steps[0], PLAIN), now)
    assert cost is not None
    found = tpots(rates, now, cost)
    assert best_k(found) == best
    assert found[best] == pytest.approx(tpot, abs=0.02)


def test_one_seen_draft_size_bounds_the_cost() -> None:
    low, high = cost_bounds(StepCost(7.0, 15.1866, PLAIN))
    assert low == 0.0
    assert high == pytest.approx((15.1866 - PLAIN) / 7.0)
    assert marginal_cost(StepCost(3.0, 10.0, 7.0), StepCost(3.0, 11.0, 7.0)) is None


def test_undecided_when_the_bounds_disagree() -> None:
    answer = what_if(table(EAGLE_3[0]), 7.0, StepCost(7.0, 15.1866, PLAIN))
    assert answer is not None
    assert answer.best_k is None
    assert answer.note.startswith("undecided: k = 7 if draft tokens cost nothing, k = 3 if")
    assert answer.wasted == pytest.approx(1.0 - 2.54 / 7.0)


def test_two_sizes_decide_what_one_leaves_open() -> None:
    now = StepCost(7.0, 15.1866, PLAIN)
    cost = marginal_cost(StepCost(2.0, 10.20, PLAIN), now)
    answer = what_if(table(EAGLE_3[0]), 7.0, now, cost)
    assert answer is not None
    assert answer.best_k == 4
    assert answer.note == "k = 4 would give 1.79x instead of 1.65x"


def test_nothing_pays_when_every_size_is_slower_than_plain() -> None:
    answer = what_if(table((0.01, 0.0, 0.0)), 3.0, StepCost(3.0, 14.0, PLAIN))
    assert answer is not None
    assert answer.best_k == 0
    assert answer.note == "no draft size pays; plain decoding is 1.96 times as fast"


def test_a_cheap_and_good_drafter_is_best_as_it_is() -> None:
    answer = what_if(table((0.95, 0.90)), 2.0, StepCost(2.0, 7.2, PLAIN))
    assert answer is not None
    assert answer.best_k == 2
    assert answer.note == "k = 2 is the best draft size up to 2"


def test_drafts_of_varying_length_are_not_asked() -> None:
    assert what_if(table((0.9, 0.8)), 1.7, StepCost(1.7, 7.2, PLAIN)) is None
    assert what_if((), 2.0, StepCost(2.0, 7.2, PLAIN)) is None
