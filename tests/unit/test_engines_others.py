"""Engines beside vLLM and SGLang, and pages that come through Dynamo.

The pages are written by hand after what is known of these engines; the figures beside them
were worked out by hand too.
"""

from __future__ import annotations

import pytest
from engine_pages import Shot, page, settings, ticks, total

from monitor.engines.reader import PageReader
from monitor.health.figures import positions
from monitor.model import Engine, Reading, Speculation, Verdict


def _read(text: str) -> list[Reading]:
    return PageReader().read(text.encode(), 0.0).readings


def _shots(*texts: str) -> list[Shot]:
    return [Shot(str(n), 1000.0 + 15.0 * n, text.encode()) for n, text in enumerate(texts)]


# -- TensorRT-LLM ----------------------------------------------------------------------------


def _tensorrt(
    drafted: tuple[int, ...], accepted: tuple[int, ...], *, prefix: str = "trtllm_", sums: bool
) -> str:
    labels = 'engine_type="trtllm",model_name="m"'
    lines = [
        "# TYPE trtllm_spec_decode_drafted_tokens counter",
        *(
            f'{prefix}spec_decode_drafted_tokens_total{{{labels},token_position="{n}"}} {value}'
            for n, value in enumerate(drafted)
        ),
        *(
            f'{prefix}spec_decode_accepted_tokens_total{{{labels},token_position="{n}"}} {value}'
            for n, value in enumerate(accepted)
        ),
        f"{prefix}generation_tokens_total{{{labels}}} {sum(accepted) + drafted[0]}",
        f'{prefix}request_success_total{{{labels},finished_reason="stop"}} 50',
        f"{prefix}spec_decode_acceptance_length{{{labels}}} 9.9",
    ]
    if sums:
        lines += [
            f"{prefix}spec_decode_num_draft_tokens_total{{{labels}}} {sum(drafted)}",
            f"{prefix}spec_decode_num_accepted_tokens_total{{{labels}}} {sum(accepted)}",
        ]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize("prefix", ["trtllm_", "trtllm:"])
def test_tensorrt_llm_counts_drafts_by_their_first_token(prefix: str, *, sums: bool) -> None:
    shots = _shots(
        _tensorrt((100, 100, 90), (60, 30), prefix=prefix, sums=sums),
        _tensorrt((300, 300, 270), (180, 100, 20), prefix=prefix, sums=sums),
    )
    counts = total(shots)
    assert counts.drafts == 200.0
    assert counts.draft_tokens == 200.0 + 200.0 + 180.0
    assert counts.accepted_tokens == 120.0 + 70.0 + 20.0
    # The third position had no line on the first page: nothing had been accepted there yet.
    assert [p.rate for p in positions(counts)] == [0.6, 0.35, 0.1]
    identity = PageReader().read(shots[0].metrics, 0.0).identity
    assert (identity.engine, identity.model) == (Engine.TENSORRT_LLM, "m")


def test_tensorrt_llm_workers_on_one_page_are_told_apart() -> None:
    text = """
trtllm_spec_decode_drafted_tokens_total{token_position="0",worker="0"} 10
trtllm_spec_decode_drafted_tokens_total{token_position="0",worker="1"} 20
trtllm_spec_decode_drafted_tokens_total{token_position="1",worker="0"} 10
trtllm_spec_decode_drafted_tokens_total{token_position="1",worker="1"} 20
trtllm_spec_decode_accepted_tokens_total{token_position="0",worker="0"} 5
trtllm_spec_decode_accepted_tokens_total{token_position="0",worker="1"} 20
trtllm_spec_decode_accepted_tokens_total{token_position="1",worker="1"} 20
"""
    first, second = _read(text)
    assert (first.label, first.counters["drafts"], first.counters["accepted_tokens"]) == (
        "0",
        10,
        5,
    )
    assert (second.label, second.counters["drafts"], second.counters["draft_tokens"]) == (
        "1",
        20,
        40,
    )
    assert first.positions == (5.0, 0.0)
    assert second.positions == (20.0, 20.0)


def test_tensorrt_llm_without_a_first_position_has_no_number_of_drafts() -> None:
    text = """
trtllm_spec_decode_drafted_tokens_total{token_position="1"} 90
trtllm_spec_decode_accepted_tokens_total{token_position="1"} 30
trtllm_spec_decode_num_draft_tokens_total 190
trtllm_spec_decode_num_accepted_tokens_total 90
"""
    [reading] = _read(text)
    assert "drafts" not in reading.counters
    assert reading.positions == ()


# -- llama.cpp -------------------------------------------------------------------------------


def _llama(drafts: int, tokens: int, accepted: tuple[int, ...], seconds: float) -> str:
    return "\n".join(
        [
            "# HELP llamacpp:tokens_predicted_total Number of generation tokens processed.",
            "# TYPE llamacpp:tokens_predicted_total counter",
            f"llamacpp:tokens_predicted_total {drafts + sum(accepted)}",
            f"llamacpp:tokens_predicted_seconds_total {seconds}",
            f"llamacpp:spec_decode_num_drafts_total {drafts}",
            f"llamacpp:spec_decode_num_draft_tokens_total {tokens}",
            f"llamacpp:spec_decode_num_accepted_tokens_total {sum(accepted)}",
            *(
                f'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="{n}"}} {value}'
                for n, value in enumerate(accepted)
            ),
            "llamacpp:requests_processing 2",
            "llamacpp:requests_deferred 1",
            "",
        ]
    )


def test_llama_cpp_counts_as_vllm_does_and_gives_a_speed() -> None:
    shots = _shots(_llama(100, 300, (80, 50, 20), 10.0), _llama(300, 900, (220, 130, 60), 22.0))
    counts = total(shots)
    assert (counts.drafts, counts.draft_tokens, counts.accepted_tokens) == (200.0, 600.0, 260.0)
    assert [p.rate for p in positions(counts)] == [0.7, 0.4, 0.2]
    assert counts.decode_seconds / counts.decode_tokens == pytest.approx(12.0 / 460.0)
    [reading] = _read(_llama(1, 3, (1, 0, 0), 1.0))
    assert (reading.running, reading.waiting) == (2.0, 1.0)


def test_llama_cpp_slots_are_added_unless_the_whole_stands_beside_them() -> None:
    slots = """
llamacpp:spec_decode_num_drafts_total{slot="0"} 10
llamacpp:spec_decode_num_drafts_total{slot="1"} 30
llamacpp:spec_decode_num_draft_tokens_total{slot="0"} 30
llamacpp:spec_decode_num_draft_tokens_total{slot="1"} 90
llamacpp:spec_decode_num_accepted_tokens_total{slot="0"} 15
llamacpp:spec_decode_num_accepted_tokens_total{slot="1"} 45
"""
    whole = """
llamacpp:spec_decode_num_drafts_total 41
llamacpp:spec_decode_num_draft_tokens_total 123
llamacpp:spec_decode_num_accepted_tokens_total 61
"""
    [by_slot] = _read(slots)
    assert by_slot.label == "0"
    assert by_slot.counters == {"drafts": 40.0, "draft_tokens": 120.0, "accepted_tokens": 60.0}
    for text in (slots + whole, whole + slots):
        [both] = _read(text)
        assert both.counters == {"drafts": 41.0, "draft_tokens": 123.0, "accepted_tokens": 61.0}


def test_llama_cpp_without_a_draft_model_is_off() -> None:
    text = "llamacpp:tokens_predicted_total {}\nllamacpp:requests_processing 1\n"
    answer = ticks(_shots(text.format(10), text.format(500)), settings())[-1].assessment
    assert answer.verdict is Verdict.OFF


# -- LMDeploy --------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["_total", ""])
def test_lmdeploy_counts_as_vllm_does(suffix: str) -> None:
    def text(scale: int) -> str:
        labels = 'engine="0",model_name="internlm"'
        return "\n".join(
            [
                f"lmdeploy:spec_decode_num_drafts_total{{{labels}}} {100 * scale}",
                f"lmdeploy:spec_decode_num_draft_tokens_total{{{labels}}} {200 * scale}",
                f"lmdeploy:spec_decode_num_accepted_tokens_total{{{labels}}} {90 * scale}",
                f"lmdeploy:spec_decode_num_accepted_tokens_per_pos{suffix}"
                f'{{{labels},position="0"}} {60 * scale}',
                f"lmdeploy:spec_decode_num_accepted_tokens_per_pos{suffix}"
                f'{{{labels},position="1"}} {30 * scale}',
                f"lmdeploy:generation_tokens_total{{{labels}}} {190 * scale}",
                "",
            ]
        )

    counts = total(_shots(text(1), text(3)))
    assert (counts.drafts, counts.draft_tokens, counts.accepted_tokens) == (200.0, 400.0, 180.0)
    assert [p.rate for p in positions(counts)] == [0.6, 0.3]
    assert PageReader().read(text(1).encode(), 0.0).identity.engine is Engine.LMDEPLOY


# -- through Dynamo, and other company -------------------------------------------------------


def test_dynamo_passes_vllm_through_with_labels_of_its_own() -> None:
    extra = b'dynamo_namespace="d",dynamo_component="backend",dynamo_endpoint="generate",'
    through = page("vllm/03-draftgood-series-05.prom").replace(
        b'engine="0",', extra + b'engine="0",'
    )
    own = (
        b'dynamo_component_requests_total{dynamo_namespace="d"} 55\ndynamo_frontend_spec_total 3\n'
    )
    [dynamo] = PageReader().read(own + through, 0.0).readings
    [plain] = PageReader().read(page("vllm/03-draftgood-series-05.prom"), 0.0).readings
    assert dynamo == plain


def test_dynamo_workers_on_one_page_are_told_apart() -> None:
    one = page("vllm/03-draftgood-series-05.prom")
    labelled = [
        one.replace(b'engine="0"', b'engine="0",worker_id="%d"' % worker) for worker in (694, 8)
    ]
    readings = PageReader().read(b"".join(labelled), 0.0).readings
    assert [reading.label for reading in readings] == ["694/0", "8/0"]
    assert readings[0].counters == readings[1].counters


def test_a_router_that_turns_colons_into_underscores_is_read() -> None:
    body = page("sglang/v0.5.23-dp2/02_healthy_t0029.prom")
    through = body.replace(b"sglang:", b"sglang_").replace(b"{", b'{worker_addr="http://w:1",')
    readings = PageReader().read(through, 0.0).readings
    assert [reading.label for reading in readings] == ["", "http://w:1/0", "http://w:1/1"]
    plain = PageReader().read(body, 0.0).readings
    assert [r.counters for r in readings] == [r.counters for r in plain]


def test_an_engine_named_in_a_label_or_comment_is_not_the_engine_of_the_page() -> None:
    text = (
        "# HELP sglang:num_running_reqs Like vllm:num_requests_running\n"
        'sglang:num_running_reqs{model_name="vllm:generation_tokens_total 5"} 3.0\n'
        'sglang:generation_tokens_total{model_name="vllm:generation_tokens_total 5"} 9.0\n'
    )
    sample = PageReader().read(text.encode(), 0.0)
    assert sample.identity.engine is Engine.SGLANG
    assert sample.readings[0].running == 3.0


def test_the_engine_that_is_told_wins_over_the_one_that_stands_first() -> None:
    text = b"vllm:generation_tokens_total 5\nsglang:generation_tokens_total 7\n"
    for engine, tokens in ((Engine.VLLM, 5.0), (Engine.SGLANG, 7.0)):
        [reading] = PageReader(engine).read(text, 0.0).readings
        assert reading.counters["output_tokens"] == tokens


def test_a_server_that_is_replaced_by_another_engine_is_read_anew() -> None:
    reader = PageReader()
    reader.read(page("vllm/10-api2-00.prom"), 0.0)
    body = page("sglang/v0.5.23-tp2/02_healthy_t0029.prom")
    assert reader.read(body, 15.0) == PageReader().read(body, 15.0)


def test_unknown_speculative_names_are_no_server_without_speculation() -> None:
    for name in ("spec_decode_drafts_v2_total", "num_spec_tokens_total", "speculative_accept2"):
        text = f"vllm:generation_tokens_total 5\nvllm:{name} 7\n"
        [reading] = _read(text)
        assert reading.speculation is Speculation.UNKNOWN_NAMES, name
    for name in ("spec_decode_old_created", "inspect_seconds_sum", "prompt_tokens_total"):
        text = f"vllm:generation_tokens_total 5\nvllm:{name} 7\n"
        [reading] = _read(text)
        assert reading.speculation is Speculation.ABSENT, name
