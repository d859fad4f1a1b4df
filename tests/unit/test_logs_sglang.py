"""SGLang's log lines against what the servers of the same run really did."""

from __future__ import annotations

import pytest
from engine_pages import truth
from log_lines import increments, read

from monitor.engines.logs.draft_size import DraftSize
from monitor.model import Increment, Speculation

LINE = (
    "[2026-09-21 14:13:{:02d}{}] Decode batch, #running-req: 16, #token: 9539, token usage: 0.02,"
    " accept len: 2.85, accept rate: {}, cuda graph: True, gen throughput (token/s): 1822.00,"
    " #queue-req: 0"
)


def length(counted: list[Increment]) -> float:
    drafts = sum(i.counts.drafts for i in counted)
    return 1.0 + sum(i.counts.accepted_tokens for i in counted) / drafts


def phase(counted: list[Increment], start: float, end: float) -> list[Increment]:
    return [i for i in counted if i.start >= start and i.end <= end and i.counts.drafts]


@pytest.mark.parametrize("run", ["v0.4.6.post5-tp1", "v0.5.5-tp1", "v0.5.8-tp2-allsched"])
def test_lengths_and_tokens_are_those_of_the_run(run: str) -> None:
    counted = increments(read(f"sglang-{run}"))
    shots = {shot["phase"]: shot for shot in truth(run)["snapshots"]}
    begin = truth(run)["snapshots"][0]["unix"]
    healthy, collapsed = phase(counted, begin, begin + 32), phase(counted, begin + 52, begin + 90)
    group = shots["healthy"]["groups"][0]
    assert length(healthy) == pytest.approx(group["true_accept_length"], rel=0.01)
    assert length(collapsed) == pytest.approx(
        shots["collapsed"]["groups"][0]["true_accept_length"], rel=0.01
    )
    seconds = sum(i.counts.seconds for i in healthy)
    tokens = sum(i.counts.output_tokens for i in healthy)
    assert tokens / seconds == pytest.approx(group["tok_per_s"], rel=0.02)


@pytest.mark.parametrize(
    ("run", "size"), [("v0.5.5-tp1", 3.0), ("v0.5.12-dp2", 3.0), ("v0.5.8-tp2-allsched", 3.0)]
)
def test_the_draft_size_follows_from_length_and_rate_from_the_first_window_on(
    run: str, size: float
) -> None:
    for increment in increments(read(f"sglang-{run}")):
        counts = increment.counts
        assert counts.unsized_drafts == 0
        assert counts.draft_tokens == pytest.approx(counts.drafts * size)


def test_only_the_sick_rank_is_sick() -> None:
    counted = increments(read("sglang-v0.5.12-dp2"))
    begin = truth("v0.5.12-dp2")["snapshots"][0]["unix"]
    sick = phase(counted, begin + 32, begin + 72)
    assert length([i for i in sick if i.label == "0"]) == pytest.approx(2.9, abs=0.05)
    assert length([i for i in sick if i.label == "1"]) == pytest.approx(1.15, abs=0.01)


def test_copies_of_a_rank_are_counted_once() -> None:
    both = increments(read("sglang-v0.5.8-tp2-allsched"))
    assert {i.label for i in both} == {""}
    seconds = sum(i.counts.seconds for i in both if i.counts.drafts)
    assert sum(i.counts.output_tokens for i in both) / seconds < 1900


def test_a_size_that_changes_is_followed() -> None:
    counted = increments(read("sglang-v0.5.23-adaptive"))
    sizes = [i.counts.draft_tokens / i.counts.drafts for i in counted if i.counts.drafts]
    assert sizes[0] == pytest.approx(3.0)
    assert sizes[4] == pytest.approx(1.0)


def test_a_server_without_speculation_is_off() -> None:
    samples = read("sglang-v0.5.23-nospec-baseline")
    assert samples[-1].readings[0].speculation is Speculation.ABSENT
    counted = increments(samples)
    assert sum(i.counts.output_tokens for i in counted) / sum(
        i.counts.seconds for i in counted
    ) == pytest.approx(888.89, rel=1e-3)


def test_the_figures_are_weak_evidence() -> None:
    counted = increments(read("sglang-v0.5.12-dp2"))
    assert all(i.counts.gauge_drafts == i.counts.drafts for i in counted)


def test_lines_of_one_second_share_it() -> None:
    spread = [LINE.format(second, "", "0.62").encode() for second in range(40)]
    doubled = [line for line in spread for _ in range(2)]
    once, twice = increments(read(spread)), increments(read(doubled))
    tokens = [sum(i.counts.output_tokens for i in found) for found in (once, twice)]
    assert tokens[1] == pytest.approx(tokens[0], rel=0.05)


def test_phantom_batches_and_damaged_lines_count_nothing() -> None:
    good = [LINE.format(second, " DP0 TP0", "0.62").encode() for second in range(30)]
    phantom = LINE.replace("1822.00", "0.12").format(30, " DP0 TP0", "0.62").encode()
    torn = [line[: line.index(b"1822") + 3] for line in good[10:12]]
    assert increments(read([*good, phantom])) == increments(read(good))
    counted = increments(read([*good[:10], *torn, *good[12:]]))
    assert all(i.counts.output_tokens <= 1822.0 * 13 for i in counted)


@pytest.mark.parametrize(
    ("figures", "size"),
    [
        ([(2.85, 0.71), (2.97, 0.74), (2.92, 0.73), (1.15, 0.29)], 3.0),
        ([(2.85, 0.62), (2.97, 0.66), (2.92, 0.64), (1.15, 0.05)], 3.0),
        ([(1.72, 0.72), (1.70, 0.70), (1.33, 0.33), (1.61, 0.61)], 1.0),
    ],
    ids=["length over n", "accepted over n - 1", "one draft token"],
)
def test_both_meanings_of_the_rate_are_told_apart(
    figures: list[tuple[float, float]], size: float
) -> None:
    finder = DraftSize()
    for _ in range(3):
        for figure in figures:
            finder.vote(*figure)
    assert finder.of(*figures[0]) == size
