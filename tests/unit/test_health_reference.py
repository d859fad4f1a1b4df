"""What the reference gives between the hours, and what it takes for correlation."""

from __future__ import annotations

import json
import math
import random

import orjson
import pytest

from monitor.health.detect import CEILING, CLEAR_SECONDS, Cusum, Shape
from monitor.health.reference import (
    DEFAULT_CORRELATION,
    LEAST_RUNS,
    MEMORY_RUNS,
    HourSums,
    Reference,
)
from monitor.health.watch import Watch
from monitor.model import Counts, Engine, Identity

IDENTITY = Identity(Engine.VLLM, "1", "m", "eagle", 3)


def daily(hour: float) -> float:
    return 0.70 + 0.05 * math.sin(2.0 * math.pi * (hour - 9.0) / 24.0)


def learnt(requests: float, idle: tuple[int, ...] = ()) -> Reference:
    """A reference that has seen the true profile without any noise."""
    hours = []
    for hour in range(24):
        tokens = 0.0 if hour in idle else 360.0 * requests
        rate = sum(daily(hour + part / 10.0 + 0.05) for part in range(10)) / 10.0
        hours.append(HourSums(rate * tokens, tokens, requests if tokens else 0.0))
    return Reference(hours=hours)


@pytest.mark.parametrize(("requests", "error"), [(400.0, 0.001), (150.0, 0.002), (60.0, 0.0075)])
def test_the_profile_is_read_without_steps_and_without_lag(requests: float, error: float) -> None:
    """Also hours that are read together with neighbours are off by no more than their curve."""
    reference = learnt(requests)
    for quarter in range(96):
        normal = reference.normal(900.0 * quarter)
        assert normal is not None
        assert normal.rate == pytest.approx(daily(quarter / 4.0), abs=error)


def test_an_hour_without_traffic_does_not_pull_its_neighbours() -> None:
    reference = learnt(400.0, idle=(3, 4))
    late = reference.normal(2.9 * 3600.0)
    middle = reference.normal(2.5 * 3600.0)
    assert late == middle
    assert reference.normal(3.5 * 3600.0) is not None


def test_few_requests_give_one_mean_for_the_day() -> None:
    normal = learnt(5.0).normal(15.0 * 3600.0)
    assert normal is not None
    assert normal.hours == 24
    assert normal.rate == pytest.approx(0.70, abs=1e-6)


def watched(minutes: int, wander: float) -> Reference:
    """Scrapes whose rate is normal on average, with noise and a wander of half an hour."""
    noise, watch = random.Random(1), Watch()
    for scrape in range(4 * minutes):
        start = 15.0 * scrape
        slow = wander * math.sin(2.0 * math.pi * start / 7200.0)
        rate = min(max(0.70 + slow + noise.gauss(0.0, 0.016), 0.0), 1.0)
        counts = Counts(
            seconds=15.0,
            requests=125.0,
            drafts=15_000.0,
            draft_tokens=45_000.0,
            accepted_tokens=45_000.0 * rate,
            decode_seconds=500.0,
        )
        watch.take(IDENTITY, start, start + 15.0, counts, healthy=True)
    return watch.reference(IDENTITY)


def test_a_slow_wander_is_not_taken_for_correlation_of_scrapes() -> None:
    calm, moved = watched(1500, 0.0), watched(1500, 0.015)
    margin = 1.0 + 4.0 * math.sqrt(2.0 / calm.runs)
    assert calm.correlation == pytest.approx(margin, rel=0.1)
    assert moved.correlation <= 1.5 * margin


@pytest.mark.parametrize(
    ("runs", "correlation"), [(31, 2.0 * 2.024), (200, 2.0 * 1.42), (100_000, 2.0 * 1.179)]
)
def test_the_margin_on_the_correlation_shrinks_with_what_is_behind_it(
    runs: int, correlation: float
) -> None:
    """Four standard errors of a mean of squares; what has faded is no longer behind it."""
    reference = Reference()
    for run in range(runs):
        assert run >= LEAST_RUNS or reference.correlation == DEFAULT_CORRELATION
        reference.learn_run(difference=20.0, number=200.0)
    assert reference.runs <= MEMORY_RUNS
    assert reference.correlation == pytest.approx(correlation, rel=0.01)


def test_a_reference_of_a_release_that_counted_no_runs_is_read() -> None:
    document = json.loads(learnt(400.0).to_text(orjson.dumps))
    del document["runs"]
    assert Reference.from_json(document).correlation == DEFAULT_CORRELATION


def test_hours_of_low_acceptance_spread_more() -> None:
    reference = learnt(400.0)
    assert reference.spread_at(0.70) == pytest.approx(reference.spread, rel=1e-3)
    assert reference.spread_at(0.65) == pytest.approx(reference.spread * 0.2275 / 0.21, rel=1e-3)
    assert reference.spread_at(0.75) == pytest.approx(reference.spread * 0.1875 / 0.21, rel=1e-3)
    assert 0.0 < reference.spread_at(1.0) < reference.spread
    assert Reference(pinned=0.6).spread_at(0.6) == Reference().spread


def test_a_group_of_seven_hours_is_a_profile_from_a_quarter_of_the_requests() -> None:
    """Its error is then twice as large, which the tolerance of the detector follows."""
    few, fewer = learnt(13.0).normal(12.5 * 3600.0), learnt(12.0).normal(12.5 * 3600.0)
    assert few is not None
    assert fewer is not None
    assert (few.hours, fewer.hours) == (7, 24)
    assert few.error == pytest.approx(0.0193, abs=1e-4)


SHAPE = Shape(drop=0.10, tolerance=0.03)


def test_evidence_does_not_grow_without_end() -> None:
    """An alarm that stood for a day ends soon after the fault has."""
    cusum = Cusum()
    for index in range(5760):
        cusum.add(15.0 * index, 15.0 * index + 15.0, 0.30, 1e-3, SHAPE)
    assert cusum.evidence == CEILING
    assert cusum.alarm_at is not None
    for index in range(5760, 5765):
        cusum.add(15.0 * index, 15.0 * index + 15.0, -0.03, 1e-3, SHAPE)
    assert cusum.evidence == 0.0


def test_an_alarm_clears_though_noise_keeps_evidence_from_being_zero_for_long() -> None:
    cusum = Cusum(evidence=12.0, rising_since=0.0, alarm_at=30.0, changed_at=0.0)
    cusum.add(30.0, 45.0, -0.5, 1e-3, SHAPE)
    for index in range(3, 70):
        # Every fifth scrape looks a little like a fault.
        shortfall = 0.07 if index % 5 == 0 else -0.03
        cusum.add(15.0 * index, 15.0 * index + 15.0, shortfall, 1e-3, SHAPE)
        if cusum.clear_if(15.0 * index + 15.0, normal_again=True):
            assert 15.0 * index + 15.0 == 45.0 + CLEAR_SECONDS
            return
    pytest.fail("the alarm did not clear")


def test_an_alarm_stays_while_evidence_comes_back() -> None:
    cusum = Cusum(evidence=12.0, rising_since=0.0, alarm_at=30.0, changed_at=0.0)
    cusum.add(30.0, 45.0, -0.5, 1e-3, SHAPE)
    for index in range(3, 200):
        cusum.add(15.0 * index, 15.0 * index + 15.0, 0.08 if index % 10 else -0.5, 1e-3, SHAPE)
        assert not cusum.clear_if(15.0 * index + 15.0, normal_again=True)
