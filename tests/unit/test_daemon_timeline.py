from __future__ import annotations

import pytest

from monitor.clock import FakeClock
from monitor.daemon.timeline import SLOWEST, Timeline

NOON = 1_800_000_000.0


def test_time_follows_the_wall_clock() -> None:
    clock = FakeClock(NOON)
    timeline = Timeline(clock)
    for _ in range(3):
        assert timeline.now() == clock.utc()
        clock.advance(15)


def test_a_step_forward_is_followed_at_once() -> None:
    clock = FakeClock(NOON)
    timeline = Timeline(clock)
    clock.set_utc(NOON + 3600)
    assert timeline.now() == NOON + 3600


def test_a_step_back_makes_time_slower_until_the_clock_has_caught_up() -> None:
    clock = FakeClock(NOON)
    timeline = Timeline(clock)
    clock.set_utc(NOON - 3600)
    seen = []
    for _ in range(3):
        clock.advance(15)
        seen.append(timeline.now())
    assert seen == pytest.approx([NOON + SLOWEST * 15 * count for count in (1, 2, 3)])
    assert timeline.lead() == pytest.approx(3600 - 0.05 * 45)
    clock.advance(3600 / (1 - SLOWEST))
    assert timeline.now() == clock.utc()
    assert timeline.era == 0


def test_a_lead_of_more_than_a_day_begins_a_new_era() -> None:
    clock = FakeClock(NOON)
    timeline = Timeline(clock)
    clock.set_utc(NOON - 90_000)
    assert timeline.now() == NOON - 90_000
    assert timeline.era == 1


def test_time_begins_after_what_is_stored() -> None:
    clock = FakeClock(NOON)
    timeline = Timeline(clock, not_before=NOON + 100)
    clock.advance(15)
    assert timeline.now() == pytest.approx(NOON + 100 + SLOWEST * 15)
