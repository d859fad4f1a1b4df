"""Golden values of intervals and speedups, from published figures and worked cases."""

from __future__ import annotations

import pytest

from monitor.health.baseline import Baseline, BaselinePoint, QuickSpeeds
from monitor.health.interval import (
    acceptance_interval,
    accepted_variance,
    combined_design_effect,
    default_design_effect,
    t_quantile,
    wilson,
)
from monitor.health.ledger import Block
from monitor.health.speedup import break_even, compare, quick_speedup, running, speedup
from monitor.model import Counts, Engine, Identity

MT_BENCH = (0.74, 0.54, 0.41, 0.30, 0.22, 0.16, 0.12, 0.08, 0.05, 0.02)
CURVE = Baseline(
    "plain", tuple(BaselinePoint(n, t) for n, t in ((1.0, 0.010), (4.0, 0.013), (8.0, 0.021)))
)


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [(1, 12.7062), (2, 4.30265), (4, 2.77645), (9, 2.26216), (20, 2.08596), (29, 2.04523)],
)
def test_t_quantile(degrees: int, expected: float) -> None:
    assert t_quantile(degrees) == pytest.approx(expected, rel=5e-4)


@pytest.mark.parametrize(
    ("accepted", "tokens", "effect", "expected"),
    [
        (700, 1000, 1, (0.670876, 0.727593)),
        (700, 1000, 4, (0.640519, 0.753428)),
        (0, 30, 1, (0.0, 0.113513)),
        (7, 10, 1, (0.396778, 0.892209)),
        (1119, 7190, 1, (0.147438, 0.164196)),
        (12208, 33712, 1, (0.357012, 0.367272)),
    ],
)
def test_wilson(accepted: int, tokens: int, effect: int, expected: tuple[float, float]) -> None:
    got = wilson(accepted / tokens, tokens / effect, 1.959964)
    assert got == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("accepted", "tokens", "stored", "window", "blocks", "effect", "expected"),
    [
        (3500, 5000, 110, 90.0, 10, 103.7931, (0.553509, 0.814533)),
        (1119, 7190, 60, None, 1, 60.0, (0.098778, 0.236620)),
        (12208, 33712, 60, 40.0, 10, 53.7931, (0.323895, 0.402186)),
        (42, 60, 52, None, 1, 52.0, (0.104913, 0.978925)),
    ],
)
def test_recommended_interval(
    accepted: int,
    tokens: int,
    stored: float,
    window: float | None,
    blocks: int,
    effect: float,
    expected: tuple[float, float],
) -> None:
    got = combined_design_effect(stored, window, blocks)
    assert got == pytest.approx(effect, abs=1e-4)
    estimate = acceptance_interval(accepted, tokens, got, blocks)
    assert (estimate.low, estimate.high) == pytest.approx(expected, abs=2e-6)


def test_variance_of_the_accepted_length() -> None:
    assert accepted_variance(1.0, MT_BENCH) == pytest.approx(7.2704)
    assert accepted_variance(1.0, ()) is None


def test_design_effect_before_history() -> None:
    assert default_design_effect(7190.0, 0.0) == 100.0
    assert default_design_effect(600.0 * 12, 12.0) == pytest.approx(100.0)
    assert default_design_effect(5.0, 5.0) == 1.0


@pytest.mark.parametrize(
    ("length", "base", "tpot", "k", "gain", "needed", "rate"),
    [
        (1.778164, 1 / 82.5, 1 / 54.6, 5, 0.661818, 2.686786, 0.337357),
        (3.08, 7.07, 4.05, 4, 1.745679, 1.764356, 0.191089),
        (3.54, 7.07, 4.29, 7, 1.648019, 2.148034, 0.164005),
        (2.47, 7.07, 5.20, 7, 1.359615, 1.816690, 0.116670),
    ],
)
def test_speedup_and_break_even(
    length: float, base: float, tpot: float, k: float, gain: float, needed: float, rate: float
) -> None:
    assert base / tpot == pytest.approx(gain, abs=1e-6)
    point = break_even(base / tpot, length, 1.0, k)
    assert point.acceptance_length == pytest.approx(needed, abs=1e-5)
    assert point.acceptance_rate == pytest.approx(rate, abs=1e-5)


def test_only_the_drafted_steps_have_to_earn_the_cost() -> None:
    point = break_even(1.44, 2.12, 0.44, 3.9)
    assert point.acceptance_length == pytest.approx(1.0 + (2.12 / 1.44 - 1.0) / 0.44)


def test_quick_speedup_excludes_one_for_the_classic_figures() -> None:
    estimate = quick_speedup(QuickSpeeds(54.6, 82.5))
    assert estimate.value == pytest.approx(0.661818, abs=1e-6)
    assert estimate.high is not None
    assert estimate.high < 0.75


@pytest.mark.parametrize(
    ("load", "expected"),
    [(0.3, 0.010), (1.0, 0.010), (2.0, 0.011), (4.0, 0.013), (6.0, 0.017), (8.0, 0.021)],
)
def test_curve_is_linear_between_points_and_below_one_means_one(
    load: float, expected: float
) -> None:
    assert CURVE.tpot(load) == pytest.approx(expected)


def test_curve_is_never_stretched() -> None:
    assert CURVE.tpot(8.01) is None
    assert Baseline("late", (BaselinePoint(4.0, 0.01),)).tpot(1.0) is None


def test_mismatch_is_only_what_both_sides_know() -> None:
    known = Baseline("b", CURVE.points, Identity(engine=Engine.VLLM, model="a"))
    assert known.matches(Identity(engine=Engine.VLLM))
    assert known.matches(Identity(engine=Engine.VLLM, model="a", draft_size=3))
    assert not known.matches(Identity(engine=Engine.VLLM, model="b"))


def test_load_prefers_the_batch_per_step_over_littles_law() -> None:
    steps = Counts(seconds=60.0, decode_seconds=30.0, engine_steps=100.0, batched_steps=392.0)
    assert running(steps) == pytest.approx(3.92)
    assert running(Counts(seconds=60.0, decode_seconds=240.0)) == 4.0
    assert running(Counts(seconds=60.0, decode_seconds=20.0)) == 1.0
    assert running(Counts(seconds=60.0, running_seconds=120.0)) == 2.0
    assert running(Counts()) is None


def test_comparison_marks_what_lies_outside_the_curve() -> None:
    inside = compare(Counts(seconds=10.0, decode_seconds=40.0, decode_tokens=4000.0), CURVE)
    assert inside.baseline_seconds == pytest.approx(52.0)
    assert inside.compared_seconds == 40.0
    outside = compare(Counts(seconds=10.0, decode_seconds=90.0, decode_tokens=4000.0), CURVE)
    assert outside.compared_seconds == 0.0
    assert outside.uncompared_seconds == 90.0
    idle = Counts(seconds=10.0)
    assert compare(idle, CURVE) == idle


def test_speedup_interval_is_that_of_the_ratio_over_blocks() -> None:
    blocks = [Block(13.0 + wobble, 10.0) for wobble in (-1.0, 1.0) * 5]
    total = Counts(baseline_seconds=130.0, compared_seconds=100.0)
    estimate = speedup(total, blocks)
    assert estimate is not None
    assert estimate.value == pytest.approx(1.3)
    spread = (10.0 * 10.0 / 9.0) ** 0.5 / 100.0
    half = t_quantile(9) * (spread**2 + (0.03 * 1.3) ** 2) ** 0.5
    assert estimate.low == pytest.approx(1.3 - half)
    assert estimate.high == pytest.approx(1.3 + half)


def test_few_blocks_have_a_wide_assumed_interval() -> None:
    estimate = speedup(Counts(baseline_seconds=13.0, compared_seconds=10.0), [])
    assert estimate is not None
    assert (estimate.low, estimate.high) == pytest.approx((0.975, 1.625))


def test_no_speedup_when_most_of_the_time_lies_outside_the_curve() -> None:
    mostly = Counts(baseline_seconds=13.0, compared_seconds=10.0, uncompared_seconds=11.0)
    assert speedup(mostly, []) is None
    assert speedup(Counts(), []) is None
