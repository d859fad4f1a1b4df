"""Steps and slides are told apart, and dated."""

from __future__ import annotations

import random

import pytest

from monitor.health.shape import Kind, Point, find_change

MINUTE = 60.0


def series(rates: list[float], length: float = MINUTE) -> list[Point]:
    return [Point(i * length, (i + 1) * length, r, 1000.0) for i, r in enumerate(rates)]


def noisy(rates: list[float], seed: int = 1, error: float = 0.01) -> list[float]:
    rng = random.Random(seed)
    return [rate + rng.gauss(0.0, error) for rate in rates]


def test_a_step_is_dated_between_the_points_around_it() -> None:
    change = find_change(series(noisy([0.70] * 12 + [0.40] * 8)))
    assert change is not None
    assert change.kind is Kind.STEP
    assert change.at == 12 * MINUTE
    assert change.error == MINUTE
    assert (change.before, change.after) == pytest.approx((0.70, 0.40), abs=0.02)


def test_a_slide_over_hours_is_no_step() -> None:
    rates = noisy([0.85 - 0.6 * i / 33 for i in range(34)])
    change = find_change(series(rates, length=1000.0))
    assert change is not None
    assert change.kind is Kind.SLIDE
    assert (change.before, change.after) == pytest.approx((0.85, 0.25), abs=0.03)


def test_a_slide_of_minutes_is_not_called_one() -> None:
    assert find_change(series([0.85 - 0.02 * i for i in range(20)])) is None


def test_a_rise_is_a_change_too() -> None:
    change = find_change(series(noisy([0.031] * 10 + [0.062] * 10, error=0.0005)))
    assert change is not None
    assert change.relative == pytest.approx(1.0, abs=0.05)


def test_time_without_traffic_counts_nothing() -> None:
    points = series(noisy([0.70] * 10 + [0.40] * 10))
    silent = [Point(p.start, p.end, 0.0, 0.0) for p in series([0.0] * 20)]
    assert find_change([*silent, *points]) == find_change(points)


@pytest.mark.parametrize(
    "rates",
    [noisy([0.7] * 30), [0.7, 0.2, 0.7, 0.2, 0.7, 0.2, 0.7, 0.2], [0.7, 0.1], [0.7] * 20],
    ids=["noise", "zigzag", "short", "constant"],
)
def test_no_change(rates: list[float]) -> None:
    assert find_change(series(rates)) is None
