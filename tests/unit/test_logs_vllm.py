"""vLLM's log lines against the pages of the same servers, and lines that went wrong."""

from __future__ import annotations

from collections import Counter

import pytest
from engine_pages import page
from hypothesis import given
from hypothesis import strategies as st
from log_lines import LOGS, increments, read

from monitor.engines.logs.drafts import count_drafts
from monitor.engines.reader import PageReader
from monitor.model import Engine, Speculation

STAMP = "(APIServer pid=7) INFO 11-29 12:{:02d}:{:02d} [loggers.py:335] "
SPEED = (
    "Engine {:03d}: Avg prompt throughput: 71.6 tokens/s, Avg generation throughput: 100.0"
    " tokens/s, Running: 2 reqs, Waiting: 1 reqs, GPU KV cache usage: 0.1%, Prefix cache hit"
    " rate: 24.8%"
)
DRAFTS = (
    "SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 60.00 tokens/s,"
    " Drafted throughput: 120.00 tokens/s, Accepted: 600 tokens, Drafted: 1200 tokens,"
    " Per-position acceptance rate: 0.800, 0.500, 0.200, Avg Draft acceptance rate: 50.0%"
)


def lines(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


def pair(second: int, engine: int = 0, drafts: str = DRAFTS) -> list[bytes]:
    stamp = STAMP.format(second // 60, second % 60)
    return lines(stamp + SPEED.format(engine), stamp + drafts)


@pytest.mark.parametrize("run", [("vllm-struct", "11-struct-2"), ("vllm-preempt", "12-preempt-2")])
def test_a_log_tells_the_very_counters_that_the_page_shows_in_the_end(
    run: tuple[str, str],
) -> None:
    log, last = run
    shown = PageReader().read(page(f"vllm/{last}.prom"), 1.0).readings[0]
    told = read(log)[-1].readings[0]
    for name in ("drafts", "draft_tokens", "accepted_tokens"):
        assert told.counters[name] == pytest.approx(shown.counters[name], abs=1e-6)
    assert told.counters["output_tokens"] == pytest.approx(shown.counters["output_tokens"], abs=2)
    assert told.positions == pytest.approx(shown.positions, abs=1.0)
    assert told.label == shown.label


def test_a_window_is_as_long_as_its_drafts_at_their_rate() -> None:
    (increment,) = increments(read(pair(0)))
    assert increment.counts.seconds == pytest.approx(10.0)
    assert increment.counts.output_tokens == 1000
    assert increment.counts.drafts == 400
    assert increment.counts.positions == pytest.approx((320, 200, 80))


def test_a_server_without_speculation_is_off() -> None:
    samples = read("vllm-plain")
    assert samples[-1].readings[0].speculation is Speculation.ABSENT
    assert samples[-1].identity.method is None
    assert samples[-1].identity.engine_version == "0.32.0"
    assert samples[-1].identity.model == "tiny-py-llama"


def test_a_window_without_drafts_counts_none_though_speculation_is_configured() -> None:
    later = lines(STAMP.format(0, 10) + SPEED.format(0))
    counted = increments(read([*pair(0), *later, *pair(20)]))
    assert [increment.counts.drafts for increment in counted] == [400, 0, 400]
    assert [increment.counts.output_tokens for increment in counted] == [1000, 1000, 1000]


def test_engines_are_told_apart_by_the_line_before() -> None:
    both = [*pair(0, 0), *pair(0, 1, DRAFTS.replace("Accepted: 600", "Accepted: 0"))]
    damaged = increments(read(both))
    assert {i.label: i.counts.drafts for i in damaged} == {"0": 400}, "nothing fits 0 accepted"
    good = DRAFTS.replace("Drafted: 1200", "Drafted: 1100").replace("120.00", "110.00")
    counted = increments(read([*pair(0, 0), *pair(0, 1, good)]))
    assert {i.label: i.counts.draft_tokens for i in counted} == {"0": 1200, "1": 1100}


@pytest.mark.parametrize("name", ["vllm-restart", "vllm-struct", "vllm-preempt"])
def test_a_log_that_is_given_twice_is_counted_once(name: str) -> None:
    log = (LOGS / f"{name}.log").read_bytes().splitlines()
    assert read([*log, *log])[-1].readings[0].counters == read(log)[-1].readings[0].counters


def test_windows_that_come_again_where_files_overlap_are_counted_once() -> None:
    windows = [line for second in range(10, 310, 10) for line in pair(second)]
    skipped = Counter[str]()
    again = read([*windows, *windows, *pair(310)], skipped=skipped)
    once = read([*windows, *pair(310)])
    assert again[-1].readings == once[-1].readings
    assert skipped["window that is there twice"] > 0


def test_a_restart_is_counted_once_and_nothing_is_lost_on_either_side() -> None:
    samples = read("vllm-restart")
    counted = increments(samples)
    assert sum(i.counts.resets for i in counted) == 1
    assert sum(i.counts.drafts for i in counted) == pytest.approx(23_000, abs=2_000)
    birth = samples[-1].readings[0].birth
    assert birth is not None
    assert samples[-1].identity.method == "draft_model"


def test_v0_prints_totals_of_which_the_differences_count() -> None:
    counted = increments(read("vllm-v0"))
    drafts = [round(i.counts.drafts) for i in counted]
    assert drafts[:3] == [1, 597, 593]
    assert sum(drafts) == 13_612 // 4
    emitted = sum(i.counts.output_tokens for i in counted)
    assert emitted == 9926
    accepted = sum(i.counts.accepted_tokens for i in counted)
    assert accepted == pytest.approx(9926 - 13_612 / 4)


@pytest.mark.parametrize(
    ("text", "drafts"),
    [
        ("Speculative metrics: Draft acceptance rate: 0.500, Number of accepted tokens: 66,"
         " Number of draft tokens: 132, ", 33),
        ("SpecDecoding metrics: Draft acceptance rate: 50.0%, Accepted: 66 tokens,"
         " Drafted: 132 tokens", 33),
        ("SpecDecoding metrics: Draft acceptance rate: 50.0%, Mean acceptance length: 2.00,"
         " Accepted: 66 tokens, Drafted: 132 tokens, Per-position acceptance rate: 0.909,"
         " 0.606, 0.303, 0.182", 33),
    ],
    ids=["0.8.3", "0.8.4", "0.8.5"],
)  # fmt: skip
def test_older_forms_are_understood(text: str, drafts: float) -> None:
    counted = increments(read(pair(0, drafts=text), draft_size=4.0))
    assert [i.counts.drafts for i in counted] == [drafts]


@pytest.mark.parametrize("cut", range(20, 200, 9))
def test_half_a_line_never_becomes_a_number(cut: int) -> None:
    torn = DRAFTS[: len(DRAFTS) - cut]
    for increment in increments(read([*pair(0, drafts=torn), *pair(10)])):
        assert increment.counts.accepted_tokens in {0.0, 600.0}
        assert increment.counts.draft_tokens in {0.0, 1200.0}


def test_windows_far_apart_leave_the_time_between_unknown() -> None:
    counted = increments(read([*pair(0), *pair(600)]))
    assert sum(i.counts.drafts for i in counted) == 800
    assert sum(i.counts.running_seconds for i in counted) == pytest.approx(2 * 2 * 10.0)


def test_lines_of_another_source_are_counted_and_left_out() -> None:
    skipped = Counter[str]()
    tagged = [b"a-1  | " + line for line in pair(0)] + [b"b-1  | " + line for line in pair(0)]
    assert len(increments(read(tagged, skipped=skipped))) == 1
    assert skipped == {"line of another source than a-1": 2}


def test_the_engine_is_known_from_the_first_line() -> None:
    assert read(pair(0))[0].identity.engine is Engine.VLLM


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=400),
    st.sampled_from([0.0, 1.0]),
)
def test_the_number_of_drafts_is_found_behind_rounded_figures(
    accepted: list[int], bonus: float
) -> None:
    """Each number is what one full-size draft of five tokens had accepted."""
    total, count = sum(accepted), len(accepted)
    rates = [round(sum(a > position for a in accepted) / count, 3) for position in range(5)]
    found = count_drafts(total, 5 * count, round(bonus + total / count, 2), rates)
    if total and bonus:
        assert found == count
    elif total:
        assert found is not None
    else:
        assert found == count


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=5, max_size=300))
def test_drafts_of_changing_size_come_out_near_the_truth(drafts: list[tuple[int, int]]) -> None:
    drafts = [(size, min(size, accepted)) for size, accepted in drafts]
    total, count = sum(a for _, a in drafts), len(drafts)
    if not total:
        return
    rates = [round(sum(a > position for _, a in drafts) / count, 3) for position in range(4)]
    found = count_drafts(total, sum(s for s, _ in drafts), round(1 + total / count, 2), rates)
    assert found is not None
    assert 1 + total / found == pytest.approx(1 + total / count, abs=0.0101)
