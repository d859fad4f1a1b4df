"""Spans side by side, where speculation pays, two curves, and how a plot looks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from baseline_pages import NOON, Server

from monitor.baselines.comparing import Comparison, compare_spans
from monitor.baselines.curves import compare_curves
from monitor.baselines.paying import Answer, answer, pays
from monitor.baselines.spans import (
    Interval,
    Span,
    blocks,
    compared,
    from_pages,
    summarise,
    totals,
)
from monitor.check import Look
from monitor.cli.plot import plot, plot_over_time
from monitor.health.baseline import Baseline, BaselinePoint
from monitor.model import Counts, Engine, Estimate, Identity, Increment, PageError
from monitor.pipeline import Page
from monitor.store.baseline_rows import Origin, Provenance, StoredBaseline

VLLM = Identity(engine=Engine.VLLM, model="kimi")
CURVE = Baseline("plain", (BaselinePoint(1.0, 0.010), BaselinePoint(64.0, 0.030)))


def counts(
    rate: float, *, requests: float = 40.0, load: float = 4.0, tpot: float = 0.008
) -> Counts:
    """A minute of drafts of three tokens at one acceptance rate."""
    drafts = 100.0 * requests
    accepted = 3.0 * drafts * rate
    return Counts(
        seconds=60.0,
        requests=requests,
        drafts=drafts,
        draft_tokens=3.0 * drafts,
        accepted_tokens=accepted,
        position_drafts=drafts,
        positions=(1.5 * rate * drafts, rate * drafts, 0.5 * rate * drafts),
        decode_seconds=60.0 * load,
        decode_tokens=60.0 * load / tpot,
        decode_steps=drafts,
    )


def intervals(*minutes: Counts) -> list[Interval]:
    return [
        Interval(NOON + 60 * index, NOON + 60 * (index + 1), entry)
        for index, entry in enumerate(minutes)
    ]


def span(name: str, rate: float, minutes: int = 10, **more: float) -> Span:
    found = summarise(name, VLLM, intervals(*[counts(rate, **more)] * minutes), CURVE)
    assert found is not None
    return found


def compare(first: Span, second: Span) -> Comparison:
    return compare_spans(first, second)


def test_engines_are_added_up_and_warm_up_is_left_out() -> None:
    part = counts(0.5)
    rows = [
        Increment("0", NOON, NOON + 60, part, warmup=True),
        Increment("0", NOON + 60, NOON + 120, part, warmup=False),
        Increment("1", NOON + 60, NOON + 120, part, warmup=False),
    ]
    (only,) = totals(rows)
    assert (only.start, only.end) == (NOON + 60, NOON + 120)
    assert only.counts.drafts == 2 * part.drafts
    assert only.counts.seconds == 60.0


def test_a_span_has_acceptance_load_and_speedup() -> None:
    found = span("a", 0.5)
    assert found.acceptance.rate is not None
    assert found.acceptance.rate.value == pytest.approx(0.5)
    assert found.load.running == pytest.approx(4.0)
    assert found.speedup is not None
    assert found.speedup.value == pytest.approx((0.010 + 3 / 63 * 0.020) / 0.008)
    assert found.baseline == "plain"
    assert summarise("a", VLLM, []) is None


def test_a_curve_of_another_server_is_not_used() -> None:
    other = replace(CURVE, identity=Identity(engine=Engine.SGLANG))
    found = summarise("a", VLLM, intervals(counts(0.5)), other)
    assert found is not None
    assert (found.speedup, found.baseline) == (None, None)
    assert "baseline mismatch: plain" in found.notes[0]


def test_without_a_curve_the_stored_comparison_stands() -> None:
    known = counts(0.5)._replace(baseline_seconds=120.0, compared_seconds=100.0)
    assert compared(intervals(known), None)[0].counts == known
    again = compared(intervals(known), CURVE)[0].counts
    assert again.compared_seconds == known.decode_seconds


@pytest.mark.parametrize(("number", "parts"), [(0, 0), (1, 1), (9, 9), (11, 11), (100, 10)])
def test_blocks(number: int, parts: int) -> None:
    one = Counts(baseline_seconds=2.0, compared_seconds=1.0)
    found = blocks(intervals(*[one] * number), 10)
    assert len(found) == parts
    assert sum(block.compared_seconds for block in found) == number


def test_two_drafters_that_accept_the_same() -> None:
    found = compare(span("a", 0.60, requests=100.0), span("b", 0.605, requests=100.0))
    assert found.acceptance is not None
    assert found.acceptance.equivalent
    assert found.sentence == "a and b accept the same: 60.0 % against 60.5 %, within 0.03"
    assert not found.integration
    assert found.notes == ()


def test_two_drafters_that_differ() -> None:
    found = compare(span("a", 0.60, requests=100.0), span("b", 0.40, requests=100.0))
    assert found.acceptance is not None
    assert found.acceptance.different
    assert found.sentence.startswith("b accepts less than a: 40.0 % against 60.0 % (-2")
    assert [pair.difference for pair in found.positions] == pytest.approx([-0.3, -0.2, -0.1])


def test_two_drafters_that_are_equally_bad() -> None:
    found = compare(span("own", 0.155, requests=100.0), span("published", 0.154, requests=100.0))
    assert found.integration
    assert "suspect the integration" in found.sentence


def test_few_requests_decide_nothing_and_are_named() -> None:
    found = compare(span("a", 0.60, 1), span("b", 0.57, 1))
    assert found.sentence.startswith("undecided: 60.0 % against 57.0 %")
    assert "a has 40 requests; below 300" in found.notes[0]
    assert "b has 40 requests" in found.notes[1]


def test_what_hampers_a_comparison_is_said() -> None:
    other = counts(0.6, requests=100.0)
    longer = other._replace(draft_tokens=other.drafts * 5)
    second = summarise("b", VLLM._replace(engine_version="2"), intervals(*[longer] * 10))
    first = summarise("a", VLLM._replace(engine_version="1"), intervals(*[other] * 10))
    assert first is not None
    assert second is not None
    notes = " | ".join(compare(first, second).notes)
    assert "the servers differ: engine version 1 and 2" in notes
    assert "draft sizes differ (3 and 5)" in notes


def test_a_side_without_drafts_cannot_be_compared() -> None:
    plain = summarise("b", VLLM, intervals(Counts(seconds=60.0, decode_seconds=9.0)))
    assert plain is not None
    found = compare(span("a", 0.5), plain)
    assert found.acceptance is None
    assert found.sentence == "nothing to compare: no acceptance rate of b"


def test_pages_give_a_span() -> None:
    server = Server(draft_length=2.5)
    looks = []
    for minute in range(4):
        server.advance(60.0)
        looks.append(Look(NOON + 60 * minute, Page(server.page()), name=f"{minute}"))
    looks.insert(2, Look(NOON + 90, Page(b"<html>"), name="bad"))
    identity, found, notes = from_pages(looks, "a")
    assert identity.model == "demo"
    assert len(found) == 3
    assert notes[0].startswith("page bad was skipped")
    with pytest.raises(PageError, match="a: at least two pages of one server are needed"):
        from_pages(looks[:1], "a")


def at_load(load: float, gain: float, hour: int = 12) -> Interval:
    plain = CURVE.tpot(load)
    assert plain is not None
    entry = counts(0.5, load=load, tpot=plain / gain)
    end = 1_800_000_000.0 - 1_800_000_000.0 % 86_400.0 + hour * 3600.0 + 60.0
    return compared([Interval(end - 60.0, end, entry)], CURVE)[0]


def test_where_speculation_pays() -> None:
    seen = [
        at_load(load, gain, hour)
        for load, gain, hour in (
            (1, 1.6, 3),
            (4, 1.4, 3),
            (16, 1.2, 9),
            (32, 0.8, 9),
            (48, 0.6, 9),
        )
        for _ in range(8)
    ]
    found = pays(seen, 0.05)
    assert [entry.running for entry in found.bins] == pytest.approx([1, 4, 16, 32, 48])
    assert [entry.speedup.value for entry in found.bins] == pytest.approx(
        [1.6, 1.4, 1.2, 0.8, 0.6]
    )
    assert found.crossover == pytest.approx(24.0)
    assert found.dead_band == pytest.approx((22.0, 26.0))
    assert found.sentence == ("speculation pays up to about 24 running requests and costs beyond")
    assert [hour.hour for hour in found.hours] == [3, 9]
    assert found.hours[0].speedup.value > 1.4
    assert found.hours[1].speedup.value < 0.8
    assert found.uncompared == 0.0


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (1.5, "speculation pays at every load seen, 4 to 4"),
        (0.5, "speculation costs at every load seen"),
        (0.96, "the speedup does not fall through 1"),
    ],
)
def test_one_load(gain: float, words: str) -> None:
    assert words in pays([at_load(4, gain)] * 8, 0.05).sentence


def test_nothing_compared_is_said() -> None:
    found = pays(intervals(counts(0.5)), 0.05)
    assert (found.bins, found.hours) == ((), ())
    assert found.sentence == "nothing was compared with a baseline in this time"


def test_loads_beyond_the_curve_are_told() -> None:
    outside = compared(intervals(counts(0.5, load=100.0)), CURVE)
    assert pays([*outside, at_load(4, 1.5)], 0.05).uncompared == pytest.approx(100 / 104)


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        ((1.1, 1.3), Answer.PAYS),
        ((0.6, 0.9), Answer.COSTS),
        ((0.97, 1.04), Answer.NEUTRAL),
        ((0.9, 1.2), Answer.UNDECIDED),
        ((None, None), Answer.UNDECIDED),
    ],
)
def test_answers(limits: tuple[float | None, float | None], word: Answer) -> None:
    assert answer(Estimate(1.0, *limits), 0.05) is word


def stored(version: int, *points: BaselinePoint, identity: Identity = VLLM) -> StoredBaseline:
    provenance = Provenance(Origin.IMPORT, "csv")
    return StoredBaseline(
        version, "chat", "plain", version, NOON, points, identity, provenance, None, None, False
    )


def test_two_curves() -> None:
    one = stored(1, BaselinePoint(1.0, 0.010, context=100), BaselinePoint(16.0, 0.025))
    two = stored(2, BaselinePoint(4.0, 0.013, context=900), BaselinePoint(32.0, 0.0325))
    found = compare_curves(one, two)
    assert [load.running for load in found.loads] == [4.0, 16.0]
    assert found.loads[0].difference == pytest.approx(0.0)
    assert "their prompts differ in length (100 and 900 tokens)" in found.notes[0]


def test_two_curves_without_a_load_in_common() -> None:
    one, two = stored(1, BaselinePoint(1.0, 0.01)), stored(2, BaselinePoint(8.0, 0.01))
    found = compare_curves(one, replace(two, identity=Identity(engine=Engine.SGLANG)))
    assert found.loads == ()
    assert found.notes == (
        "the curves share no load: plain covers 1 to 1, plain#2 8 to 8",
        "they were measured on different kinds of server",
    )


def test_times_below_a_plot_can_be_told_apart() -> None:
    for seconds, ends in ((60.0, ("00:00:00", "00:01:00")), (7200.0, ("00:00", "02:00"))):
        ticks = plot_over_time([(1.0, 0.5)], (0.0, seconds), unit="%").splitlines()[-1].split()
        assert (ticks[0], ticks[-1]) == ends
        assert len(set(ticks)) == 5


def test_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.cli.plot.is_plain_terminal", lambda: True)
    shown = plot([(1.0, 1.6), (4.0, 1.2), (16.0, 0.6)], unit="times", mark=1.0).splitlines()
    assert shown[0].strip() == "times"
    assert shown[1].split() == ["1.6", "|*......."] or shown[1].startswith("    1.6 |*")
    assert sum(line.count("*") for line in shown) == 3
    assert any(line.strip().startswith("1 |---") for line in shown)
    assert shown[-1].split() == ["1", "4", "16"]
    assert all(line.isascii() and len(line) < 80 for line in shown)
    assert plot([], unit="times") == ""
    assert "*" in plot([(1.0, 0.0)], unit="ms")
