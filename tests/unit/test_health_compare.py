"""Same or different: golden values of the equivalence test, and where speculation pays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.health.baseline import BaselinePoint
from monitor.health.compare import Side, difference, suspects_integration
from monitor.health.curve import bin_of, fit, monotone
from monitor.health.pays import by_load, crossover
from monitor.model import Counts


@pytest.mark.parametrize(
    ("second", "effect", "p", "equivalent"),
    [
        (1105.0, 1.0, 1.645e-6, True),
        (1105.0, 4.0, 0.010011, True),
        (1105.0, 10.0, 0.070640, False),
        (1400.0, 4.0, 0.763386, False),
    ],
)
def test_equivalence(second: float, effect: float, p: float, equivalent: bool) -> None:
    found = difference(Side(1119.0, 7190.0, effect), Side(second, 7190.0, effect))
    assert found.p_equivalent == pytest.approx(p, rel=1e-3)
    assert found.equivalent is equivalent


def test_interval_of_the_difference() -> None:
    found = difference(Side(1105.0, 7190.0, 4.0), Side(1119.0, 7190.0, 4.0))
    assert (found.estimate.low, found.estimate.high) == pytest.approx(
        (-0.017893, 0.021787), abs=2e-6
    )
    assert not found.different


def test_two_equally_bad_drafters_point_at_the_integration() -> None:
    bad, as_bad = Side(1119.0, 7190.0), Side(1105.0, 7190.0)
    assert suspects_integration(bad, as_bad, difference(bad, as_bad))
    good, as_good = Side(5000.0, 7190.0), Side(5010.0, 7190.0)
    assert not suspects_integration(good, as_good, difference(good, as_good))
    assert not suspects_integration(bad, good, difference(bad, good))


@pytest.mark.parametrize(
    ("load", "middle"),
    [
        (1.0, 1.0),
        (1.3, 1.0),
        (1.5, 2.0),
        (3.0, 4.0),
        (15.6, 16.0),
        (70.0, 64.0),
        (90.0, 96.0),
        (256.0, 256.0),
        (280.0, 256.0),
        (300.0, 320.0),
        (1000.0, 1024.0),
    ],
)
def test_bins(load: float, middle: float) -> None:
    assert bin_of(load) == middle


def test_curve_takes_the_means_of_what_was_seen() -> None:
    def at(load: float, tpot: float) -> Counts:
        return Counts(
            seconds=60.0,
            decode_seconds=60.0 * load,
            decode_tokens=60.0 * load / tpot,
            requests=10.0,
            prompt_tokens=5000.0,
            prefix_queries=5000.0,
            prefix_hits=1000.0,
        )

    points = fit([at(3.9, 0.0116), at(4.1, 0.0118), at(15.6, 0.0233), Counts(seconds=60.0)])
    assert [round(point.running, 2) for point in points] == [4.0, 15.6]
    assert points[0].tpot == pytest.approx(0.0117, rel=1e-3)
    assert points[0].spread == pytest.approx(0.0085, rel=0.02)
    assert (points[0].requests, points[0].context) == (20.0, 500.0)
    assert points[0].prefix_hit_share == pytest.approx(0.2)


def test_a_bin_with_little_behind_it_is_no_point() -> None:
    little = Counts(seconds=10.0, decode_seconds=10.0, decode_tokens=900.0)
    assert fit([little]) == ()
    assert len(fit([little] * 3)) == 1


@given(
    st.lists(st.tuples(st.floats(1, 500), st.floats(1e-3, 0.2), st.floats(1, 1e4)), max_size=20)
)
def test_monotone_curve_never_falls_and_keeps_the_weighted_mean(
    raw: list[tuple[float, float, float]],
) -> None:
    given_points = [BaselinePoint(*point) for point in raw]
    points = monotone(given_points)
    tpots = [point.tpot for point in points]
    assert tpots == sorted(tpots)
    mass = sum(point.tpot * point.seconds for point in given_points)
    assert sum(point.tpot * point.seconds for point in points) == pytest.approx(mass)


def test_crossover_lies_between_the_bins_that_pay_and_those_that_do_not() -> None:
    def at(load: float, gain: float) -> Counts:
        used = 60.0 * load
        return Counts(
            seconds=60.0,
            decode_seconds=used,
            decode_tokens=100.0,
            baseline_seconds=gain * used,
            compared_seconds=used,
            drafts=100.0,
            draft_tokens=300.0,
            accepted_tokens=150.0,
        )

    bins = by_load([at(4.0, 1.35), at(4.0, 1.35), at(64.0, 0.67), at(16.0, 1.1)])
    assert [round(b.running) for b in bins] == [4, 16, 64]
    assert [round(b.speedup.value, 2) for b in bins] == [1.35, 1.1, 0.67]
    assert bins[0].acceptance_rate == 0.5
    assert sum(b.share for b in bins) == pytest.approx(1.0)
    at_one = crossover(bins)
    assert at_one == pytest.approx(16.0 + 48.0 * 0.1 / 0.43)
    assert crossover(bins[:2]) is None
