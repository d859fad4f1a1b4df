"""The detector: golden path, cap, clear rule, scaling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.health.detect import (
    CAP,
    CLEAR_SECONDS,
    THRESHOLD,
    Cusum,
    Scrape,
    Shape,
    rate_variance,
    shape_for,
)

SHAPE = Shape(drop=0.10, tolerance=0.03)


def test_golden_path() -> None:
    cusum, seen = Cusum(), []
    scrapes = [(150, 2, 0.70), (150, 2, 0.60), (1500, 16, 0.60), None, (15000, 159, 0.60)]
    for index, scrape in enumerate([*scrapes, (150, 2, 0.15), (150, 2, 0.72)]):
        if scrape is not None:
            drafts, requests, rate = scrape
            variance = rate_variance(Scrape(requests, drafts, 3.0, 0.156 * 9), 0.018, 1.3)
            cusum.add(15.0 * index, 15.0 * index + 15.0, 0.67 - rate, variance, SHAPE)
        seen.append(cusum.evidence)
    expected = [0.0, 0.1199, 0.8430, 0.8430, 4.8430, 7.6602, 7.0608]
    assert seen == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("rate", "by_hour", "drop", "tolerance"),
    [(0.70, True, 0.10, 0.03), (0.70, False, 0.10, 0.06), (0.30, True, 0.05, 0.02)],
)
def test_constants_scale_with_the_reference(
    rate: float, by_hour: bool, drop: float, tolerance: float
) -> None:
    shape = shape_for(rate, by_hour=by_hour)
    assert shape.drop == pytest.approx(drop)
    assert shape.tolerance == pytest.approx(tolerance)


def test_alarm_remembers_when_the_change_came() -> None:
    cusum = Cusum()
    for index in range(10):
        cusum.add(15.0 * index, 15.0 * index + 15.0, -0.03, 1e-3, SHAPE)
    for index in range(10, 14):
        cusum.add(15.0 * index, 15.0 * index + 15.0, 0.27, 1e-3, SHAPE)
    assert cusum.alarm_at == 195.0
    assert cusum.changed_at == 150.0


def test_alarm_clears_after_a_quiet_quarter_of_an_hour_and_a_normal_window() -> None:
    cusum = Cusum(evidence=12.0, rising_since=0.0, alarm_at=30.0, changed_at=0.0)
    cusum.add(30.0, 45.0, -0.5, 1e-3, SHAPE)
    assert cusum.evidence == 0.0
    assert not cusum.clear_if(45.0 + CLEAR_SECONDS - 1.0, normal_again=True)
    assert not cusum.clear_if(45.0 + CLEAR_SECONDS, normal_again=False)
    assert cusum.clear_if(45.0 + CLEAR_SECONDS, normal_again=True)
    assert cusum == Cusum()


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(1e-5, 1.0)), max_size=200))
def test_evidence_is_never_negative_and_one_scrape_adds_at_most_the_cap(
    scrapes: list[tuple[float, float]],
) -> None:
    cusum = Cusum()
    for index, (shortfall, variance) in enumerate(scrapes):
        before = cusum.evidence
        cusum.add(float(index), index + 1.0, shortfall, variance, SHAPE)
        assert 0.0 <= cusum.evidence <= before + CAP
        assert (cusum.alarm_at is not None) or cusum.evidence < THRESHOLD
