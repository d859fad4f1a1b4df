"""Whatever happens to a page, the numbers that come out later are right or are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from engine_pages import ALL, Shot, settings, sglang, ticks, vllm, vllm_names, widest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from monitor.engines.dialect import Dialect
from monitor.engines.reader import PageReader
from monitor.engines.sglang import SGLANG
from monitor.engines.vllm import VLLM
from monitor.model import PageError, Verdict
from monitor.pipeline import Page, TargetPipeline, Tick

QUICK = hypothesis_settings(max_examples=60, suppress_health_check=list(HealthCheck))
Figures = tuple[float | None, ...]

COUNTED: dict[str, tuple[Dialect, list[Shot]]] = {
    "vllm": (VLLM, vllm([f"03-draftgood-series-0{i}" for i in range(2, 7)])),
    "vllm without births": (VLLM, vllm(vllm_names("10-api2"))),
    "sglang counters": (SGLANG, sglang("v0.5.23-tp2")[1:6]),
    "sglang ranks": (SGLANG, sglang("v0.5.23-dp2")[1:6]),
}
"""Series whose acceptance comes from counters, so that a lost page costs nothing."""


def _figures(tick: Tick) -> Figures:
    answer = tick.assessment
    rate, length = answer.acceptance_rate, answer.acceptance_length
    window = answer.window
    return (
        rate.value if rate is not None else None,
        length.value if length is not None else None,
        *((window.counts.drafts, window.counts.accepted_tokens) if window is not None else ()),
    )


def _judged(shots: Sequence[Shot]) -> list[Tick]:
    return ticks(shots, settings(widest(shots), (ALL,)))


def _with(shots: Sequence[Shot], index: int, metrics: bytes) -> list[Shot]:
    changed = list(shots)
    changed[index] = Shot("changed", shots[index].at, metrics, shots[index].loads)
    return changed


def _wanted_lines(dialect: Dialect, metrics: bytes) -> list[int]:
    """Numbers of the lines that are read."""
    lines = metrics.split(b"\n")
    return [n for n, line in enumerate(lines) if dialect.wanted.search(b"\n" + line)]


def _deleted(lines: list[bytes], number: int) -> bytes:
    return b"\n".join(lines[:number] + lines[number + 1 :])


def _cut(lines: list[bytes], number: int) -> bytes:
    return b"\n".join([*lines[:number], b""])


def _torn(lines: list[bytes], number: int) -> bytes:
    return b"\n".join([*lines[:number], lines[number].replace(b"}", b""), *lines[number + 1 :]])


def _doubled(lines: list[bytes], number: int) -> bytes:
    twin = lines[number].rpartition(b" ")[0] + b" 1.0"
    return b"\n".join([*lines[: number + 1], twin, *lines[number + 1 :]])


def _unknown(lines: list[bytes], number: int) -> bytes:
    return b"\n".join(
        [*lines[:number], lines[number].rpartition(b" ")[0] + b" NaN", *lines[number + 1 :]]
    )


DAMAGES: list[Callable[[list[bytes], int], bytes]] = [_deleted, _cut, _torn, _doubled, _unknown]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", COUNTED)
def test_a_line_lost_on_one_page_changes_nothing_later(
    name: str, damage: Callable[[list[bytes], int], bytes]
) -> None:
    dialect, shots = COUNTED[name]
    clean = _judged(shots)
    verdicts = {tick.assessment.verdict for tick in clean}
    for index in (1, 2):
        lines = shots[index].metrics.split(b"\n")
        for number in _wanted_lines(dialect, shots[index].metrics):
            answers = _judged(_with(shots, index, damage(lines, number)))
            assert _figures(answers[-1]) == _figures(clean[-1]), lines[number]
            # And on the way nothing is said that was not said before, but for ignorance.
            said = {tick.assessment.verdict for tick in answers}
            assert said <= verdicts | {Verdict.INSUFFICIENT, Verdict.IDLE}, lines[number]
            assert not any(i.counts.resets for tick in answers for i in tick.increments)


@pytest.mark.parametrize("name", ["v0.5.12-dp2", "v0.5.8-tp2-allsched"])
def test_a_line_lost_on_a_page_of_gauges_keeps_within_what_the_gauges_said(name: str) -> None:
    """A gauge speaks for its own page only; without it the tokens go to the next one."""
    shots = sglang(name)[1:6]
    lengths = [
        reading.accept_length
        for shot in shots
        for reading in PageReader().read(shot.metrics, shot.at).readings
        if reading.accept_length is not None
    ]
    lines = shots[1].metrics.split(b"\n")
    for number in _wanted_lines(SGLANG, shots[1].metrics):
        for damage in DAMAGES:
            answers = _judged(_with(shots, 1, damage(lines, number)))
            for tick in answers:
                length = tick.assessment.acceptance_length
                # Drafts counted by a gauge are kept to a 1024th, so that sums of them are exact.
                assert length is None or (
                    min(lengths) - 1e-5 <= length.value <= max(lengths) + 1e-5
                )
            assert _figures(answers[-1])[0] is not None


@pytest.mark.parametrize("name", COUNTED)
def test_a_name_lost_for_good_gives_no_number_instead_of_a_wrong_one(name: str) -> None:
    dialect, shots = COUNTED[name]
    right = {_figures(_judged(shots[first:])[-1])[0] for first in range(len(shots) - 1)}
    for series in dialect.vital - {"accept_length", "decoded"}:
        source = dialect.figures[series].names[0].encode()
        without = [
            Shot(
                shot.name,
                shot.at,
                b"\n".join(
                    line for line in shot.metrics.split(b"\n") if source + b"{" not in line
                ),
            )
            if index
            else shot
            for index, shot in enumerate(shots)
        ]
        rate = _figures(_judged(without)[-1])[0]
        # SGLang's gauges take over after two pages; they cover other pages than the counters.
        assert rate is None or rate in right or dialect is SGLANG


# -- cut at every byte -----------------------------------------------------------------------

_SMALL = """# HELP vllm:num_requests_running a
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} 2.0
vllm:num_requests_running{{engine="1",model_name="m"}} 2.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0",model_name="m"}} {a}00.0
vllm:generation_tokens_total{{engine="1",model_name="m"}} {b}00.0
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {a}0.0
vllm:spec_decode_num_drafts_total{{engine="1",model_name="m"}} {b}0.0
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {a}20.0
vllm:spec_decode_num_draft_tokens_total{{engine="1",model_name="m"}} {b}20.0
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {a}10.0
vllm:spec_decode_num_accepted_tokens_total{{engine="1",model_name="m"}} {b}5.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{{engine="0",finished_reason="stop",model_name="m"}} {a}0.0
vllm:request_success_total{{engine="0",finished_reason="length",model_name="m"}} {b}0.0
vllm:request_success_total{{engine="1",finished_reason="stop",model_name="m"}} {a}0.0
vllm:request_success_total{{engine="1",finished_reason="length",model_name="m"}} {b}0.0
# EOF
"""


def _small(index: int) -> bytes:
    return _SMALL.format(a=11 + 7 * index, b=13 + 5 * index).encode()


def _small_series() -> list[Shot]:
    return [Shot(str(i), 1000.0 + 15.0 * i, _small(i)) for i in range(4)]


@pytest.mark.parametrize("index", [1, 2])
def test_a_page_cut_at_any_byte_is_refused_or_does_no_harm(index: int) -> None:
    shots = _small_series()
    clean = _figures(_judged(shots)[-1])
    whole = shots[index].metrics
    refused = 0
    for end in range(len(whole)):
        answers = _judged(_with(shots, index, whole[:end]))
        refused += answers[index].problem is not None
        assert _figures(answers[-1]) == clean, whole[:end][-60:]
        assert answers[index].assessment.verdict not in (Verdict.OFF, Verdict.NOT_DRAFTING)
    assert refused > 0.9 * len(whole)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.5, 0.7])
def test_a_last_page_cut_short_leaves_the_answer_before(share: float) -> None:
    shots = _small_series()
    before = _judged(shots[:-1])[-1]
    metrics = shots[3].metrics
    last = _judged(_with(shots, 3, metrics[: int(share * len(metrics))]))[-1]
    assert last.problem is not None
    assert last.assessment == before.assessment


def test_each_engine_waits_while_another_is_missing() -> None:
    shots = _small_series()
    without = b"\n".join(
        line for line in _small(2).split(b"\n") if b'engine="1",model' not in line
    )
    answers = _judged(_with(shots, 2, without))
    assert _figures(answers[-1]) == _figures(_judged(shots)[-1])


# -- anything at all -------------------------------------------------------------------------


@QUICK
@given(st.lists(st.one_of(st.binary(max_size=200), st.sampled_from(["page", "same"])), max_size=6))
def test_no_bytes_raise_out_of_a_tick(bodies: list[bytes | str]) -> None:
    pipeline = TargetPipeline(settings())
    for number, body in enumerate(bodies):
        metrics = _small(number) if isinstance(body, str) else b"# c\n" + body + b"\n"
        pipeline.tick(Page(metrics, metrics if number % 2 else None), 15.0 * number + 1.0)
        pipeline.lifetime(15.0 * number + 1.0)


@QUICK
@given(st.data())
def test_no_changed_byte_raises_out_of_a_tick(data: st.DataObject) -> None:
    _, shots = COUNTED[data.draw(st.sampled_from(sorted(COUNTED)))]
    metrics = bytearray(
        b"\n".join(line for line in shots[1].metrics.split(b"\n") if b"#" not in line)
    )
    for _ in range(data.draw(st.integers(1, 8))):
        where = data.draw(st.integers(0, len(metrics) - 1))
        metrics[where : where + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    _judged(_with(shots, 1, bytes(metrics) + b"\n"))


@QUICK
@given(
    st.lists(
        st.sampled_from(
            ["0", "1", "5", "1e17", "9e17", "1e-9", "1e300", "NaN", "-1", "+Inf", "0.0", "1.0"]
        ),
        min_size=12,
        max_size=12,
    ),
    st.integers(0, 1),
)
def test_no_value_raises_out_of_a_tick(values: list[str], which: int) -> None:
    dialect = (VLLM, SGLANG)[which]
    prefix = ("vllm:", "sglang:")[which]
    for turn in range(3):
        pipeline = TargetPipeline(settings(draft_size=None))
        for look in range(3):
            lines = [
                f"{prefix}{name} {values[(number * (turn + 1) + look) % len(values)]}"
                for number, name in enumerate(dialect.names)
            ]
            pipeline.tick(Page("\n".join([*lines, ""]).encode()), 10.0 + look)
            pipeline.lifetime(10.0 + look)


# -- size ------------------------------------------------------------------------------------


def test_a_page_of_many_megabytes_is_read() -> None:
    filler = b'vllm:e2e_request_latency_seconds_bucket{engine="0",le="0.3",model_name="m"} 13.0\n'
    body = filler * 100_000 + _small(0) + filler * 100_000
    sample = PageReader().read(body, 0.0)
    assert [reading.counters["drafts"] for reading in sample.readings] == [110.0, 130.0]


def test_a_line_of_many_megabytes_is_read() -> None:
    long = b'up{a="' + b"x" * 10_000_000 + b'"} 1\n'
    sample = PageReader().read(long + _small(0), 0.0)
    assert [reading.counters["drafts"] for reading in sample.readings] == [110.0, 130.0]


def test_many_different_label_texts_are_added_up() -> None:
    lines = [
        b'vllm:generation_tokens_total{engine="0",user="%d"} 1.0\n' % n for n in range(20_000)
    ]
    body = b"".join(lines)
    reader = PageReader()
    for _ in range(2):
        [reading] = reader.read(body, 0.0).readings
        assert reading.counters["output_tokens"] == 20_000.0


def test_more_engines_than_any_server_has_are_refused() -> None:
    body = b"".join(b'vllm:generation_tokens_total{engine="%d"} 1.0\n' % n for n in range(1100))
    with pytest.raises(PageError, match="1100 engines"):
        PageReader().read(body, 0.0)
