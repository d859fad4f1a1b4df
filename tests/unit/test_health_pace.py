"""The detector of a falling speedup: quiet while nothing is wrong, quick when it falls."""

from __future__ import annotations

import math

import pytest

from benchmarks.pace import DAY, STEP, Traffic
from monitor.health.pace import LEAST_TOKENS
from monitor.model import Counts, Estimate


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_found_in_ten_days_of_harmless_traffic(seed: int) -> None:
    traffic = Traffic(seed)
    assert traffic.run(10.0) == []
    assert traffic.pace.expected_speedup == pytest.approx(math.exp(0.31), rel=0.1)


@pytest.mark.parametrize(("loss", "within"), [(0.20, 900.0), (0.40, 120.0)])
def test_a_fall_is_found_and_dated(loss: float, within: float) -> None:
    traffic = Traffic(7)
    assert traffic.run(2.0) == []
    fell = traffic.at
    traffic.loss = loss
    found = traffic.run(0.25)
    assert found
    assert found[0] - fell <= within
    changed = traffic.pace.fall.changed_at
    assert changed is not None
    assert abs(changed - fell) <= within


def test_the_fault_is_not_learnt_while_it_lasts() -> None:
    traffic = Traffic(3)
    traffic.run(2.0)
    before = {load: sums[0] / sums[1] for load, sums in traffic.pace.loads.items()}
    traffic.loss = 0.3
    traffic.run(1.0)
    after = {load: sums[0] / sums[1] for load, sums in traffic.pace.loads.items()}
    assert after == pytest.approx(before, abs=0.02)


def test_little_traffic_is_gathered_until_it_says_something() -> None:
    traffic = Traffic(1, tokens=LEAST_TOKENS / 4.0)
    traffic.run(3.5 * STEP / DAY)
    assert traffic.pace.pending.tokens == 0.75 * LEAST_TOKENS
    traffic.run(STEP / DAY)
    assert traffic.pace.pending.start is None


def test_restarts_and_loads_without_a_baseline_begin_an_observation_anew() -> None:
    for counts in (
        Counts(resets=1.0),
        Counts(compared_seconds=1.0, baseline_seconds=1.0, uncompared_seconds=1.0),
    ):
        traffic = Traffic(1, tokens=LEAST_TOKENS / 4.0)
        traffic.run(STEP / DAY)
        assert traffic.pace.pending.tokens > 0.0
        traffic.pace.take(15.0, 30.0, counts, healthy=True)
        assert traffic.pace.pending.tokens == 0.0


def test_an_alarm_clears_when_the_speedup_is_normal_again() -> None:
    traffic = Traffic(7)
    traffic.run(2.0)
    traffic.loss = 0.4
    traffic.run(0.05)
    pace = traffic.pace
    assert pace.fall.alarm_at is not None
    traffic.loss = 0.0
    traffic.run(0.05)
    normal = pace.expected_speedup
    assert normal is not None
    pace.clear(traffic.at, Estimate(0.5 * normal, 0.4 * normal, 0.6 * normal))
    assert pace.fall.alarm_at is not None
    pace.clear(traffic.at, Estimate(normal, 0.9 * normal, 1.1 * normal))
    assert pace.fall.alarm_at is None
