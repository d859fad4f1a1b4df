"""The detector: golden path, cap, clear rule, scaling."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.health import memory
from monitor.health.detect import (
    CAP,
    CLEAR_SECONDS,
    LEAST_FRESH,
    THRESHOLD,
    Cusum,
    Freshness,
    Scrape,
    Shape,
    rate_variance,
    shape_for,
)
from monitor.health.judging import JudgeSettings
from monitor.health.target import TargetState
from monitor.pipeline import state_text

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


@pytest.mark.parametrize(
    ("error", "tolerance"), [(0.005, 0.03), (0.01, 0.03), (0.015, 0.035), (0.02, 0.04)]
)
def test_a_profile_of_few_requests_is_tolerated_for_its_error(
    error: float, tolerance: float
) -> None:
    assert shape_for(0.70, by_hour=True, error=error).tolerance == pytest.approx(tolerance)
    assert shape_for(0.70, by_hour=False, error=error).tolerance == 0.06


def test_a_request_that_goes_on_tells_ever_less() -> None:
    """All it tells is less than two scrapes of new requests, until it is at its least."""
    freshness = Freshness()
    seen = [freshness.take(15.0 * n, 15.0 * n + 15.0, 1.0, 1.0) for n in range(5)]
    assert seen == [1.0, 0.5, 0.25, 0.125, 0.0625]
    later = [freshness.take(15.0 * n, 15.0 * n + 15.0, 1.0, 1.0) for n in range(5, 2000)]
    assert set(later[1:]) == {LEAST_FRESH}


def test_new_requests_beside_old_ones_are_fresh() -> None:
    freshness = Freshness()
    assert freshness.take(0.0, 15.0, 2.0, 2.0) == 1.0
    # One of the two has ended and two have come: half of the two old ones' 1 is told again.
    assert freshness.take(15.0, 30.0, 4.0, 3.0) == pytest.approx((2.0 + 0.5 * 2.0) / 4.0)
    assert freshness.take(30.0, 45.0, 4.0, 3.0) == pytest.approx((1.0 + 0.5 * 0.75 * 3.0) / 4.0)


def test_short_requests_and_those_after_a_gap_are_all_fresh() -> None:
    freshness = Freshness()
    assert [freshness.take(15.0 * n, 15.0 * n + 15.0, 3.0, 0.0) for n in range(4)] == [1.0] * 4
    freshness.take(60.0, 75.0, 3.0, 3.0)
    assert freshness.take(600.0, 615.0, 3.0, 3.0) == 1.0


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), max_size=100))
def test_freshness_is_a_share(scrapes: list[tuple[float, float]]) -> None:
    freshness = Freshness()
    for index, (finished, running) in enumerate(scrapes):
        share = freshness.take(float(index), index + 1.0, finished + running, running)
        assert LEAST_FRESH <= share <= 1.0


def test_freshness_survives_a_restart_of_the_monitor() -> None:
    """Else the requests that ran before it would tell all they told once more."""
    state = TargetState("t", 15.0, JudgeSettings())
    state.memory.watch.freshness = Freshness(150.0, 2.0, 0.25)
    text = state_text(state)
    after = TargetState("t", 15.0, JudgeSettings())
    memory.restore(after, text, ())
    assert after.memory.watch.freshness == Freshness(150.0, 2.0, 0.25)
    document = json.loads(text)
    del document["watch"]["freshness"]
    memory.restore(after, json.dumps(document), ())
    assert after.memory.watch.freshness == Freshness()


def test_variance_counts_only_what_is_fresh() -> None:
    once = rate_variance(Scrape(1.0, 450.0, 3.0, 1.4), 0.017, 1.2)
    again = rate_variance(Scrape(1.0, 450.0, 3.0, 1.4, fresh=0.25), 0.017, 1.2)
    assert again == pytest.approx(4.0 * once)


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
