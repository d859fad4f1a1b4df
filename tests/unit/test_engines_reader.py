"""What the reader of one target remembers from page to page, and what it must not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine_pages import Shot, page, settings, sglang, ticks, vllm, vllm_names

from monitor.engines.dialect import Figures
from monitor.engines.reader import PageReader
from monitor.engines.sglang import RateDefinition, Settlement
from monitor.model import Reading, Speculation

GOOD = "vllm/03-draftgood-series-05.prom"


def _line(start: str, body: bytes) -> bytes:
    [line] = [line for line in body.split(b"\n") if line.startswith(start.encode())]
    return line


@pytest.mark.parametrize(
    "shots",
    [
        *(vllm(vllm_names(run)) for run in ("01-baseline", "03-draftgood", "09-dp2", "10-api2")),
        *(
            [shot for shot in sglang(name) if shot.metrics.strip()]
            for name in ("v0.5.23-dp2", "v0.5.23-tp2", "v0.5.23-adaptive", "v0.5.8-tp2-allsched")
        ),
    ],
    ids=lambda shots: shots[0].name,
)
def test_a_page_says_the_same_whatever_was_read_before(shots: list[Shot]) -> None:
    """The remembered layout is only a short cut."""
    reader = PageReader(draft_size=3.0)
    for shot in shots:
        remembered = reader.read(shot.metrics, shot.at)
        again = reader.read(shot.metrics, shot.at)
        anew = PageReader(draft_size=3.0).read(shot.metrics, shot.at)
        assert remembered == again, shot.name
        # What is known of the server outlives a page without figures; all else is the page's.
        assert replace(remembered, identity=anew.identity) == anew, shot.name


def test_the_order_of_labels_and_lines_is_of_no_account() -> None:
    body = page("vllm/09-dp2-03.prom")
    lines = body.rstrip(b"\n").split(b"\n")
    turned = b"\n".join(reversed(lines)) + b"\n"
    swapped = body.replace(
        b'{engine="1",model_name="tiny-py-llama"', b'{model_name="tiny-py-llama",engine="1"'
    )
    assert swapped != body
    reader = PageReader()
    first = reader.read(body, 0.0)
    assert reader.read(turned, 0.0).readings == first.readings
    after = reader.read(swapped, 0.0)
    assert after.readings == first.readings
    assert after.notes == ()


def test_the_same_series_in_another_order_of_labels_is_a_double() -> None:
    body = page(GOOD)
    line = _line("vllm:spec_decode_num_drafts_total{", body)
    twin = line.replace(
        b'{engine="0",model_name="tiny-py-llama"}', b'{model_name="tiny-py-llama",engine="0",}'
    )
    assert twin != line
    for other in (line, twin, twin.rpartition(b" ")[0] + b" 3.0"):
        sample = PageReader().read(body + other + b"\n", 0.0)
        assert "drafts" not in sample.readings[0].counters
        assert any("stands twice" in note for note in sample.notes)


def test_another_label_set_beside_the_first_is_added() -> None:
    body = page(GOOD)
    line = _line("vllm:spec_decode_num_drafts_total{", body)
    other = line.replace(b"tiny-py-llama", b"other").rpartition(b" ")[0] + b" 5.0"
    sample = PageReader().read(body + other + b"\n", 0.0)
    [plain] = PageReader().read(body, 0.0).readings
    assert sample.readings[0].counters["drafts"] == plain.counters["drafts"] + 5.0
    assert sample.notes == ("the page serves 2 models; they are added up",)


def test_another_model_behind_the_same_address_is_never_subtracted() -> None:
    shots = vllm(vllm_names("10-api2"))
    renamed = [
        Shot(shot.name, shot.at, shot.metrics.replace(b"tiny-py-llama", b"another"))
        for shot in shots[2:]
    ]
    answers = ticks([*shots[:2], *renamed], settings(15.0))
    between = [increment.counts for increment in answers[2].increments]
    assert all(counts.drafts == 0.0 and counts.output_tokens == 0.0 for counts in between)


# -- when the engine began -------------------------------------------------------------------


def test_birth_is_never_taken_from_another_line_for_a_page() -> None:
    """Start of the process and creation of the counters lie half a minute apart here."""
    body = page(GOOD)
    without = b"\n".join(
        line
        for line in body.split(b"\n")
        if not line.startswith(
            (b"vllm:spec_decode_num_draft_tokens_c", b"vllm:generation_tokens_c")
        )
    )
    reader = PageReader()
    born = reader.read(body, 0.0).readings[0].birth
    assert born is not None
    assert reader.read(without, 15.0).readings[0].birth is None
    assert reader.read(body, 30.0).readings[0].birth == born
    # A server that shows only one of the two is read by that one, and stays so.
    reader = PageReader()
    started = reader.read(without, 0.0).readings[0].birth
    assert started is not None
    assert started < born
    assert reader.read(body, 15.0).readings[0].birth == started


def test_a_label_set_that_is_created_later_is_no_restart() -> None:
    body = page(GOOD)
    line = _line("vllm:spec_decode_num_draft_tokens_created{", body)
    later = line.replace(b"tiny-py-llama", b"lora").rpartition(b" ")[0] + b" 1.9e+09\n"
    reader = PageReader()
    assert (
        reader.read(body, 0.0).readings[0].birth
        == reader.read(body + later, 9.0).readings[0].birth
    )


def test_a_start_without_a_number_is_no_traceback() -> None:
    for end in (b" \n", b"\n", b" x\n", b" NaN\n", b"{} 5\n", b" 1 2\n"):
        body = b"process_start_time_seconds" + end + b"vllm:num_requests_running 1\n"
        assert PageReader().read(body, 0.0).readings[0].birth is None


# -- notes -----------------------------------------------------------------------------------


def test_a_malformed_line_among_the_unwanted_is_a_note_on_every_page_that_has_it() -> None:
    body = page(GOOD)
    bad = body.replace(
        b'vllm:kv_cache_usage_perc{engine="0"', b'vllm:kv_cache_usage_perc{engine="0', 1
    )
    assert bad != body
    reader = PageReader()
    clean = reader.read(body, 0.0)
    for _ in range(3):
        sample = reader.read(bad, 0.0)
        assert sample.notes == ("1 malformed line was skipped",)
        assert sample.readings == clean.readings
    assert reader.read(body, 0.0).notes == ()


def test_after_many_pages_a_malformed_line_is_still_found_soon() -> None:
    body = page(GOOD)
    bad = body.replace(b'cache_usage_perc{engine="0"', b'cache_usage_perc{engine="0', 1)
    reader = PageReader()
    for _ in range(100):
        reader.read(body, 0.0)
    assert any(reader.read(bad, 0.0).notes for _ in range(32))


def test_a_lost_line_is_named_by_its_figure() -> None:
    body = page(GOOD)
    reader = PageReader()
    reader.read(body, 0.0)
    line = _line("vllm:spec_decode_num_accepted_tokens_total{", body)
    sample = reader.read(body.replace(line + b"\n", b""), 0.0)
    assert sample.notes == ("not whole on this page, and not used: accepted",)
    assert sample.readings[0].speculation is Speculation.CONFIGURED


def test_a_line_that_is_gone_for_good_is_missed_on_one_page_only() -> None:
    body = page(GOOD)
    line = _line('vllm:request_success_total{engine="0",finished_reason="abort"', body)
    fewer = body.replace(line + b"\n", b"")
    reader = PageReader()
    whole = reader.read(body, 0.0).readings[0].counters["requests"]
    assert "requests" not in reader.read(fewer, 15.0).readings[0].counters
    for at in (30.0, 45.0):
        assert reader.read(fewer, at).readings[0].counters["requests"] == whole


# -- SGLang's several sources ----------------------------------------------------------------


def _reading() -> Reading:
    return Reading("0", {"output_tokens": 1.0, "drafts": 1.0, "accepted_tokens": 1.0})


def _loads(batch: float) -> bytes:
    moments = f"[{batch}, {batch}, 1, 1, 1, {2 * batch}]"
    return f'{{"loads": [{{"dp_rank": 0, "decode_moments": {moments}}}]}}'.encode()


def _drafts(settlement: Settlement, loads: bytes | None) -> float | None:
    reading = replace(_reading(), speculation=Speculation.CONFIGURED)
    settlement.settle([reading], {"0": Figures()}, loads)
    return reading.counters.get("drafts")


def test_a_source_changes_only_after_two_pages_without_either() -> None:
    settlement = Settlement()
    assert _drafts(settlement, _loads(50.0)) == 50.0
    assert _drafts(settlement, None) is None
    assert _drafts(settlement, _loads(60.0)) == 60.0
    assert [_drafts(settlement, None) for _ in range(4)] == [None, None, 1.0, 1.0]
    assert [_drafts(settlement, _loads(70.0)) for _ in range(3)] == [None, None, 70.0]


def test_a_damaged_body_counts_as_none() -> None:
    settlement = Settlement()
    assert _drafts(settlement, _loads(50.0)) == 50.0
    assert _drafts(settlement, b"{}") is None
    assert _drafts(settlement, _loads(60.0)) == 60.0


@pytest.mark.parametrize("size", range(1, 17))
def test_the_draft_size_follows_from_either_definition_of_the_rate(size: int) -> None:
    lengths = [1.0 + size * share for share in (0.05, 0.31, 0.62, 0.77, 0.93)]
    old, new = RateDefinition(), RateDefinition()
    found_old = [
        old.draft_size(Figures({"accept_length": x, "accept_rate": x / (size + 1)}))
        for x in lengths
    ]
    found_new = [
        new.draft_size(Figures({"accept_length": x, "accept_rate": (x - 1.0) / size}))
        for x in lengths
    ]
    # Now and then both fit; then nothing is said, but never a wrong size.
    assert set(found_old) <= {None, float(size)}
    assert set(found_new) <= {None, float(size)}
    assert found_old[-1] == found_new[-1] == float(size)


def test_a_draft_size_beyond_reason_is_none() -> None:
    for rate in (1e-300, 1e-9):
        figures = Figures({"accept_length": 9e17, "accept_rate": rate})
        assert RateDefinition().draft_size(figures) is None
