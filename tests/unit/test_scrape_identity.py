"""From what a server tells about itself to its identity."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_pages import page
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.engines.about import LONGEST_NAME, join, read_about
from monitor.engines.reader import PageReader
from monitor.model import Engine, Identity, PageError

VLLM = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 1.0
"""
SGLANG_DRAFTS = b"""# TYPE sglang:spec_verify_calls_total counter
sglang:spec_verify_calls_total{model_name="m"} 10.0
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="m"} 40.0
# TYPE sglang:num_requests_total counter
sglang:num_requests_total{model_name="m"} 2.0
"""
VERSION = b'{"version":"0.32.0"}'
NGRAM = {
    "vllm_config": {
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 4},
        "parallel_config": {"tensor_parallel_size": 2},
    }
}
NGRAM_TEXT = {
    "vllm_config": "model='m', speculative_config=SpeculativeConfig(method='ngram', model=None,"
    " num_spec_tokens=4), tokenizer='m', tensor_parallel_size=2, pipeline_parallel_size=1"
}
SGLANG = {
    "tp_size": 8,
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
    "speculative_num_draft_tokens": 4,
    "version": "0.5.23",
    "internal_states": [{"speculative_num_draft_tokens": 9}],
}


def body(document: object) -> bytes:
    return json.dumps(document).encode()


def test_the_version_alone() -> None:
    assert read_about(VERSION) == ({"engine_version": "0.32.0"}, ())


@pytest.mark.parametrize("info", [NGRAM, NGRAM_TEXT], ids=["JSON", "text"])
def test_vllm_tells_method_size_and_ranks(info: dict[str, Any]) -> None:
    about = join([VERSION, body(info)])
    assert about is not None
    assert read_about(about) == (
        {"engine_version": "0.32.0", "method": "ngram", "draft_size": 4, "tensor_parallel": 2},
        (),
    )


@pytest.mark.parametrize(
    "info",
    [
        {"vllm_config": {"speculative_config": None, "parallel_config": {}}},
        {"vllm_config": "model='m', speculative_config=None, tokenizer='m'"},
        {"speculative_algorithm": None, "speculative_num_draft_tokens": None},
    ],
)
def test_a_server_without_speculation_says_so(info: dict[str, Any]) -> None:
    parts, notes = read_about(body(info))
    assert (parts["method"], parts["draft_size"], notes) == (None, None, ())


def test_sglang_counts_the_bonus_token_among_its_draft_tokens() -> None:
    assert read_about(body(SGLANG)).parts == {
        "engine_version": "0.5.23",
        "method": "EAGLE3",
        "draft_size": 3,
        "tensor_parallel": 8,
    }


@pytest.mark.parametrize(
    "about",
    [
        b"",
        b"<html>",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"9" * 100_000,
        b"null",
        b"[1]",
        b'"0.32.0"',
    ],
    ids=lambda about: repr(about[:8]),
)
def test_what_is_no_object_is_left_out_with_a_note(about: bytes) -> None:
    parts, notes = read_about(about)
    assert parts == {}
    assert len(notes) == 1


@pytest.mark.parametrize(
    "version", ["x" * 1_000_000, "", " ", "0.32\n", "\x1b[31m", "\ud800", 32, 0.32, True, [], {}]
)
def test_a_version_that_is_none_is_not_taken(version: object) -> None:
    parts, notes = read_about(body({"version": version}))
    if version == "0.32\n":
        assert parts == {"engine_version": "0.32"}
    else:
        assert (parts, len(notes)) == ({}, 1)


@pytest.mark.parametrize("number", [0, -1, 10**400, 1e3, float("inf"), "4", True, [4], {}])
def test_numbers_that_cannot_be_are_not_taken(number: object) -> None:
    parallel = {"tensor_parallel_size": number}
    speculative = {"method": "ngram", "num_speculative_tokens": number}
    config = {"speculative_config": speculative, "parallel_config": parallel}
    parts, notes = read_about(body({"vllm_config": config}))
    assert parts == {"method": "ngram"}
    assert len(notes) == 2


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    ["version", "vllm_config", "speculative_algorithm", "tp_size", "speculative_num_draft_tokens"]
)
_INNER = st.sampled_from(["speculative_config", "parallel_config", "method"])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(_KEYS, _JSON | st.dictionaries(_INNER, _JSON)))
def test_no_answer_is_an_error_and_each_part_keeps_to_its_bounds(document: Any) -> None:
    for name, part in read_about(body(document)).parts.items():
        if name in {"engine_version", "method"}:
            assert part is None or (part.isprintable() and 0 < len(part) <= LONGEST_NAME)
        else:
            assert part is None or part > 0


def test_it_becomes_part_of_the_identity_and_stays() -> None:
    reader = PageReader()
    told = reader.read(VLLM, 0.0, about=VERSION).identity
    assert told == Identity(Engine.VLLM, "0.32.0", "m")
    assert reader.read(VLLM, 15.0).identity is told
    # An endpoint that fails once does not make it another server.
    assert reader.read(VLLM, 30.0, about=b"<html>").identity is told
    assert reader.read(VLLM, 45.0, about=b'{"version": "0.33.0"}').identity == Identity(
        Engine.VLLM, "0.33.0", "m"
    )


def test_what_is_no_speculation_any_more_is_forgotten() -> None:
    reader = PageReader()
    assert reader.read(VLLM, 0.0, about=body(NGRAM)).identity.method == "ngram"
    off = body({"vllm_config": {"speculative_config": None}})
    known = reader.read(VLLM, 15.0, about=off).identity
    assert (known.method, known.draft_size, known.tensor_parallel) == (None, None, 2)


def test_another_model_is_another_server() -> None:
    reader = PageReader()
    reader.read(VLLM, 0.0, about=VERSION)
    other = VLLM.replace(b'"m"', b'"other"')
    assert reader.read(other, 15.0).identity == Identity(Engine.VLLM, None, "other")


def test_what_was_told_beside_a_page_that_is_none_counts_with_the_next() -> None:
    reader = PageReader()
    with pytest.raises(PageError):
        reader.read(b"<html>", 0.0, about=VERSION)
    assert reader.read(VLLM, 15.0).identity.engine_version == "0.32.0"


def test_odd_answers_make_a_note_once() -> None:
    reader = PageReader()
    assert len(reader.read(VLLM, 0.0, about=b"<html>").notes) == 1
    assert reader.read(VLLM, 15.0).notes == ()


def test_a_draft_size_that_only_the_server_itself_tells_gives_an_acceptance_rate() -> None:
    reader = PageReader()
    [without] = reader.read(SGLANG_DRAFTS, 0.0).readings
    [reading] = reader.read(SGLANG_DRAFTS, 15.0, about=body(SGLANG)).readings
    assert (without.draft_size, reading.draft_size) == (None, 3)
    [later] = reader.read(SGLANG_DRAFTS, 30.0).readings
    assert later.draft_size == 3
    configured = PageReader(draft_size=5)
    [own] = configured.read(SGLANG_DRAFTS, 0.0, about=body(SGLANG)).readings
    assert own.draft_size == 5


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("about/vllm-0.32.0.json", {"method": "ngram", "draft_size": 4}),
        (
            "about/sglang-0.5.23.json",
            {"method": "STANDALONE", "draft_size": 3},
        ),
    ],
)
def test_captured_answers_of_real_servers(file: str, expected: dict[str, Any]) -> None:
    parts, notes = read_about(page(file))
    assert parts | expected | {"tensor_parallel": 1} == parts
    assert notes == ()
