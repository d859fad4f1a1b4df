"""Text from pages and the URLs of targets, made fit for the database."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model import Counts
from monitor.store.tables import SCALARS
from monitor.store.text import (
    DOCUMENT_LENGTH,
    LABEL_LENGTH,
    TEXT_LENGTH,
    clean_document,
    clean_label,
    clean_text,
    public_url,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(ANY_TEXT)
def test_clean_text_is_short_encodable_and_free_of_nul(text: str) -> None:
    cleaned = clean_text(text, 20)
    assert len(cleaned) <= 20
    assert "\0" not in cleaned
    cleaned.encode("utf-8")


def test_clean_text_keeps_ordinary_text() -> None:
    assert clean_text("τ = 1,8 → Qwen/Qwen3-8B") == "τ = 1,8 → Qwen/Qwen3-8B"


@given(ANY_TEXT, ANY_TEXT)
def test_labels_stay_different_when_cleaned(one: str, other: str) -> None:
    assert (clean_label(one) == clean_label(other)) == (one == other)


def test_long_labels_that_differ_at_the_end_stay_different() -> None:
    one, other = clean_label("x" * 10**6 + "1"), clean_label("x" * 10**6 + "2")
    assert one != other
    assert len(one) == len(other) == LABEL_LENGTH


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"model": "m" * DOCUMENT_LENGTH}),
        json.dumps({"model": ["\ud800", "ü"]}, ensure_ascii=False),
        json.dumps({"k" * DOCUMENT_LENGTH: 1}),
    ],
)
def test_documents_stay_json_and_become_short(text: str) -> None:
    cleaned = clean_document(text)
    json.loads(cleaned)
    assert cleaned.isascii()
    assert len(cleaned) < TEXT_LENGTH + 100


def test_ordinary_documents_are_left_alone() -> None:
    text = '{"sentence":  "speculation pays, τ = 2.1"}'
    assert clean_document(text) is text


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("http://a:8000/metrics", "http://a:8000/metrics"),
        ("https://user:geheim@a/metrics", "https://a/metrics"),
        ("http://a/m?token=geheim&x=", "http://a/m?token=***&x=***"),
        ("http://geheim@[::1]:8000/#geheim", "http://[::1]:8000/"),
    ],
)
def test_public_url_shows_no_secret(url: str, public: str) -> None:
    assert public_url(url) == public


def test_positions_are_the_only_figure_without_a_column_and_come_last() -> None:
    assert (*SCALARS, "positions") == Counts._fields
