"""From cumulative readings to additive counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.health.window import Step, Track
from monitor.model import Counts, Reading, Speculation

INTERVAL = 15.0
LONGEST = 2.5 * INTERVAL


def reading(
    *,
    birth: float | None = 100.0,
    positions: tuple[float, ...] = (),
    running: float | None = None,
    waiting: float | None = None,
    accept_length: float | None = None,
    draft_size: float | None = None,
    speculation: Speculation = Speculation.CONFIGURED,
    **counters: float,
) -> Reading:
    return Reading(
        label="0",
        counters=counters,
        positions=positions,
        birth=birth,
        running=running,
        waiting=waiting,
        accept_length=accept_length,
        draft_size=draft_size,
        speculation=speculation,
    )


def spec(drafts: float, *, birth: float | None = 100.0, **other: float) -> Reading:
    counters = {"drafts": drafts, "draft_tokens": 4 * drafts, "accepted_tokens": 2 * drafts}
    return Reading("0", {**counters, **other}, birth=birth, speculation=Speculation.CONFIGURED)


def feed(track: Track, *readings: Reading, start: float = 1000.0) -> list[Step | None]:
    return [track.advance(r, start + INTERVAL * i, LONGEST) for i, r in enumerate(readings)]


def counts(step: Step | None) -> Counts:
    assert step is not None
    return step.counts


def test_first_reading_is_an_origin_only() -> None:
    assert feed(Track(), spec(5000.0)) == [None]


def test_second_reading_gives_the_difference() -> None:
    _, step = feed(Track(), spec(100.0, output_tokens=300.0), spec(150.0, output_tokens=450.0))
    got = counts(step)
    assert (got.drafts, got.draft_tokens, got.accepted_tokens) == (50.0, 200.0, 100.0)
    assert (got.output_tokens, got.seconds, got.resets) == (150.0, 15.0, 0.0)


def test_restart_with_a_new_birth_counts_from_zero_even_if_the_counter_grew() -> None:
    _, step = feed(Track(), spec(100.0), spec(160.0, birth=1010.0))
    assert step is not None
    assert step.restarted
    assert (counts(step).drafts, counts(step).resets) == (160.0, 1.0)


def test_fall_without_a_birth_time_is_a_restart_and_a_new_origin() -> None:
    steps = feed(Track(), spec(100.0, birth=None), spec(40.0, birth=None), spec(90.0, birth=None))
    assert steps[1] is not None
    assert steps[1].restarted
    assert counts(steps[1]).drafts == 0.0
    assert counts(steps[1]).resets == 1.0
    assert counts(steps[2]).drafts == 50.0


def test_fall_after_the_engine_had_vanished_counts_from_zero() -> None:
    track = Track()
    feed(track, spec(100.0, birth=None))
    track.vanished = True
    step = track.advance(spec(30.0, birth=None), 1030.0, LONGEST)
    assert counts(step).drafts == 30.0
    assert counts(step).resets == 1.0


def test_a_process_older_than_the_last_look_is_another_worker() -> None:
    steps = feed(
        Track(),
        spec(1000.0, birth=500.0),
        spec(90_000.0, birth=200.0),
        spec(1100.0, birth=500.0),
        spec(90_100.0, birth=200.0),
    )
    assert [step is not None and step.other_worker for step in steps] == [False, True, True, True]
    assert all(step is None or step.counts.drafts == 0.0 for step in steps)


def test_workers_born_within_one_second_are_told_apart() -> None:
    steps = feed(
        Track(),
        spec(1000.0, birth=500.0),
        spec(90_000.0, birth=500.2),
        spec(1100.0, birth=500.0),
        spec(90_100.0, birth=500.2),
    )
    assert [step is not None and step.other_worker for step in steps] == [False, True, True, True]


def test_a_restart_of_a_server_whose_clock_is_behind_is_no_other_worker() -> None:
    behind = 600.0
    steps = feed(
        Track(),
        spec(1000.0, birth=500.0 - behind),
        spec(1100.0, birth=500.0 - behind),
        spec(40.0, birth=1020.0 - behind),
        spec(90.0, birth=1020.0 - behind),
    )
    assert [step is not None and step.other_worker for step in steps] == [False] * 4
    assert [counts(step).drafts for step in steps[1:]] == [100.0, 40.0, 50.0]


def test_what_rounding_leaves_of_zero_is_zero() -> None:
    _, step = feed(
        Track(), spec(100.0, decode_seconds=1.0), spec(100.0, decode_seconds=1.0 + 1e-12)
    )
    assert counts(step).decode_seconds == 0.0


def test_workers_in_turns_without_birth_times_are_seen_by_their_sawtooth() -> None:
    steps = feed(Track(), *(spec(d, birth=None) for d in (1000.0, 400.0, 1020.0, 420.0, 1040.0)))
    assert sum(step is not None and step.other_worker for step in steps) == 2
    assert all(step is None or step.counts.drafts == 0.0 for step in steps)


def test_counter_that_falls_while_the_process_lives_is_not_counted() -> None:
    _, step, after = feed(
        Track(),
        spec(100.0, output_tokens=300.0),
        spec(90.0, output_tokens=400.0),
        spec(130.0, output_tokens=500.0),
    )
    assert counts(step).drafts == 0.0
    assert counts(step).output_tokens == 100.0
    assert counts(step).resets == 0.0
    assert counts(after).drafts == 30.0


def test_fall_that_stays_while_the_process_lives_is_a_new_origin() -> None:
    steps = feed(Track(), *(spec(d) for d in (100.0, 90.0, 95.0, 99.0)))
    assert [counts(step).drafts for step in steps[1:]] == [0.0, 0.0, 4.0]


def test_group_with_a_missing_field_waits_and_catches_up() -> None:
    damaged = reading(drafts=150.0, draft_tokens=600.0, output_tokens=450.0)
    steps = feed(
        Track(), spec(100.0, output_tokens=300.0), damaged, spec(200.0, output_tokens=600.0)
    )
    assert counts(steps[1]).drafts == 0.0
    assert counts(steps[1]).output_tokens == 150.0
    assert counts(steps[2]).drafts == 100.0
    assert counts(steps[2]).accepted_tokens == 200.0


def test_field_that_stays_away_makes_its_group_begin_anew() -> None:
    short = [reading(drafts=d, draft_tokens=4 * d) for d in (150.0, 200.0, 250.0)]
    steps = feed(Track(), spec(100.0), *short)
    assert [counts(step).drafts for step in steps[1:]] == [0.0, 0.0, 50.0]


def test_gap_is_bridged_only_with_an_unchanged_birth_time() -> None:
    for birth, expected in ((100.0, 50.0), (None, 0.0)):
        track = Track()
        track.advance(spec(100.0, birth=birth), 1000.0, LONGEST)
        step = track.advance(spec(150.0, birth=birth), 1300.0, LONGEST)
        assert counts(step).drafts == expected
        assert counts(step).seconds == 300.0


def test_gauge_is_weighted_by_the_tokens_that_flowed() -> None:
    first = reading(birth=None, gauge_tokens=1000.0, accept_length=2.0, draft_size=3.0)
    second = reading(birth=None, gauge_tokens=1500.0, accept_length=2.5, draft_size=3.0)
    got = counts(feed(Track(), first, second)[1])
    assert got.drafts == pytest.approx(200.0)
    assert got.accepted_tokens == pytest.approx(300.0)
    assert got.draft_tokens == pytest.approx(600.0)
    assert got.gauge_drafts == got.drafts


def test_gauge_of_an_idle_server_counts_nothing() -> None:
    same = [reading(birth=None, gauge_tokens=1000.0, accept_length=2.9, draft_size=3.0)] * 3
    for step in feed(Track(), *same)[1:]:
        assert counts(step).drafts == 0.0
        assert step is not None
        assert not step.active


def test_gauge_does_not_speak_for_a_gap() -> None:
    track = Track()
    stale = {"accept_length": 2.9, "draft_size": 3.0}
    track.advance(reading(gauge_tokens=0.0, **stale), 1000.0, LONGEST)  # type: ignore[arg-type]
    step = track.advance(reading(gauge_tokens=9e5, **stale), 4600.0, LONGEST)  # type: ignore[arg-type]
    assert counts(step).drafts == 0.0


def test_draft_size_fills_in_what_a_release_does_not_count() -> None:
    first = reading(draft_tokens=0.0, accepted_tokens=0.0, draft_size=5.0)
    second = reading(draft_tokens=7190.0, accepted_tokens=1119.0, draft_size=5.0)
    got = counts(feed(Track(), first, second)[1])
    assert got.drafts == 1438.0
    assert got.uncounted_draft_tokens == 0.0


def test_without_a_draft_size_the_unknown_part_is_marked() -> None:
    first = reading(draft_tokens=0.0, accepted_tokens=0.0)
    second = reading(draft_tokens=7190.0, accepted_tokens=1119.0)
    assert counts(feed(Track(), first, second)[1]).uncounted_draft_tokens == 7190.0
    first = reading(drafts=0.0, accepted_tokens=0.0)
    second = reading(drafts=100.0, accepted_tokens=50.0)
    assert counts(feed(Track(), first, second)[1]).unsized_drafts == 100.0


def test_positions_are_counted_only_when_all_are_on_both_pages() -> None:
    pages = [
        reading(drafts=100.0, positions=(70.0, 40.0)),
        reading(drafts=200.0, positions=(140.0, 80.0)),
        reading(drafts=300.0),
        reading(drafts=400.0, positions=(280.0, 160.0)),
    ]
    steps = feed(Track(), *pages)
    assert counts(steps[1]).positions == (70.0, 40.0)
    assert counts(steps[1]).position_drafts == 100.0
    assert counts(steps[2]).positions == ()
    assert counts(steps[2]).position_drafts == 0.0
    assert counts(steps[3]).positions == (140.0, 80.0)
    assert counts(steps[3]).position_drafts == 200.0


def test_positions_begin_anew_with_another_worker_or_a_restart() -> None:
    for birth, vanished in ((None, False), (200.0, False), (1012.0, False), (None, True)):
        track = Track()
        old = reading(birth=birth and 500.0, drafts=9000.0, positions=(6000.0, 4000.0))
        feed(track, old)
        track.vanished = vanished
        new = reading(birth=birth, drafts=100.0, positions=(70.0, 40.0))
        newer = reading(birth=birth, drafts=200.0, positions=(140.0, 80.0))
        track.advance(new, 1015.0, LONGEST)
        step = track.advance(newer, 1030.0, LONGEST)
        assert counts(step).positions == (70.0, 40.0)
        assert counts(step).position_drafts == 100.0


@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.booleans(), st.sampled_from([15.0, 15.0, 15.0, 600.0])),
        min_size=1,
        max_size=40,
    )
)
def test_with_birth_times_nothing_is_lost_or_counted_twice(
    moves: list[tuple[int, bool, float]],
) -> None:
    """Whatever restarts and gaps come, the deltas add up to what was really drafted."""
    track, at, birth, drafts, truth, total = Track(), 1000.0, 900.0, 7000.0, 0.0, 0.0
    track.advance(spec(drafts, birth=birth), at, LONGEST)
    for grown, restart, wait in moves:
        if restart:
            birth, drafts = at + wait / 2, 0.0
        at += wait
        drafts += grown
        truth += grown
        step = track.advance(spec(drafts, birth=birth), at, LONGEST)
        total += counts(step).drafts
        assert counts(step).drafts >= 0.0
    assert total == truth


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=40))
def test_without_birth_times_no_delta_is_ever_negative(values: list[int]) -> None:
    for step in feed(Track(), *(spec(float(v), birth=None) for v in values)):
        assert step is None or min(step.counts[:-1]) >= 0.0
