"""Windows as differences of running totals equal the sums of the intervals in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.health.combine import balanced, combine
from monitor.health.ledger import Ledger, add
from monitor.model import Counts, Reading

INTERVAL = 15.0


def test_empty_ledger_has_no_window() -> None:
    assert Ledger(INTERVAL).window(60.0) is None
    assert Ledger(INTERVAL).compared_blocks(60.0, 10) == []


def test_window_sums_the_intervals_inside() -> None:
    ledger = Ledger(INTERVAL)
    for index in range(10):
        ledger.append(15.0 * index, 15.0 * index + 15.0, Counts(seconds=15.0, drafts=2.0**index))
    window = ledger.window(60.0)
    assert window is not None
    start, end, counts = window
    assert (start, end) == (90.0, 150.0)
    assert counts.drafts == 2.0**6 + 2.0**7 + 2.0**8 + 2.0**9
    assert counts.seconds == 60.0


def test_interval_over_a_gap_is_not_part_of_a_shorter_window() -> None:
    ledger = Ledger(INTERVAL)
    ledger.append(0.0, 15.0, Counts(seconds=15.0, drafts=1.0))
    ledger.append(15.0, 615.0, Counts(seconds=600.0, drafts=1000.0))
    ledger.append(615.0, 630.0, Counts(seconds=15.0, drafts=5.0))
    window = ledger.window(60.0)
    assert window is not None
    assert (window[0], window[2].drafts) == (615.0, 5.0)
    longer = ledger.window(900.0)
    assert longer is not None
    assert longer[2].drafts == 1006.0


def test_unobserved_time_separates_windows() -> None:
    ledger = Ledger(INTERVAL)
    ledger.append(0.0, 15.0, Counts(seconds=15.0, drafts=1.0))
    ledger.append(300.0, 315.0, Counts(seconds=15.0, drafts=7.0))
    window = ledger.window(60.0)
    assert window is not None
    assert (window[0], window[2].drafts) == (300.0, 7.0)


def test_day_of_scrapes_keeps_few_boundaries_and_exact_sums() -> None:
    ledger = Ledger(INTERVAL)
    scrapes = 3 * 5760
    for index in range(scrapes):
        counts = Counts(seconds=15.0, drafts=1.0, positions=(1.0, 0.5))
        ledger.append(15.0 * index, 15.0 * index + 15.0, counts)
    assert sum(len(tier.times) for tier in ledger._tiers) < 300
    for seconds in (60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0):
        window = ledger.window(seconds)
        assert window is not None
        start, end, counts = window
        assert end - start == 15.0 * counts.drafts
        assert counts.positions == (counts.drafts, counts.drafts / 2)
        assert seconds - 600.0 < end - start <= seconds


def test_blocks_cut_a_window_into_parts_that_add_up() -> None:
    ledger = Ledger(INTERVAL)
    for index in range(60):
        ledger.append(
            15.0 * index,
            15.0 * index + 15.0,
            Counts(seconds=15.0, baseline_seconds=float(index), compared_seconds=2.0),
        )
    blocks = ledger.compared_blocks(900.0, 10)
    assert len(blocks) == 10
    assert sum(block.baseline_seconds for block in blocks) == sum(range(60))
    assert {block.compared_seconds for block in blocks} == {12.0}


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 50)), min_size=1, max_size=200),
    st.sampled_from([60.0, 300.0, 900.0]),
)
def test_window_equals_brute_force(intervals: list[tuple[int, int]], seconds: float) -> None:
    ledger, at, kept = Ledger(INTERVAL), 0.0, []
    for length, drafts in intervals:
        ledger.append(at, at + length, Counts(seconds=float(length), drafts=float(drafts)))
        kept.append((at, at + length, drafts))
        at += length
    window = ledger.window(seconds)
    assert window is not None
    start, end, counts = window
    assert end == at
    assert start >= at - seconds - INTERVAL / 2
    assert counts.drafts == sum(drafts for begin, _, drafts in kept if begin >= start)
    if at <= 900.0:
        inside = [b for b, _, _ in kept if b >= at - seconds - INTERVAL / 2] or [at]
        assert start == min(inside)


def test_adding_fills_up_positions() -> None:
    total = add(Counts(drafts=1.0, positions=(3.0,)), Counts(drafts=2.0, positions=(1.0, 4.0)))
    assert total == Counts(drafts=3.0, positions=(4.0, 4.0))


def test_drafts_counted_for_all_ranks_are_not_added_to_those_of_the_ranks() -> None:
    parts = {
        "": Counts(seconds=15.0, drafts=90.0, accepted_tokens=160.0, requests=3.0),
        "0": Counts(seconds=15.0, drafts=50.0, gauge_drafts=50.0, output_tokens=140.0),
        "1": Counts(seconds=15.0, drafts=50.0, gauge_drafts=50.0, output_tokens=110.0),
    }
    ranks = [Reading("0"), Reading("1")]
    counted = [Reading("", {"drafts": 9000.0}), *ranks]
    kept = balanced(parts, counted)
    assert kept["1"].drafts == 50.0
    total = combine(kept)
    assert (total.drafts, total.gauge_drafts, total.accepted_tokens) == (90.0, 0.0, 160.0)
    assert (total.output_tokens, total.seconds) == (250.0, 15.0)
    silent = parts | {"": Counts(seconds=15.0)}
    assert combine(balanced(silent, counted)).drafts == 0.0
    assert combine(balanced(silent, [Reading(""), *ranks])).drafts == 100.0
