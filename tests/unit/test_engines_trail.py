"""What is found where it stood before is what a search of the whole page finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.engines.exposition import find, normalise, pattern
from monitor.engines.reader import PageReader
from monitor.engines.trail import blaze, follow

WANTED = pattern(b"vllm:", ["drafts_total", "tokens_total"])
NAMES = ("drafts_total", "tokens_total", "other_total", "bucket", "drafts_total_more")

figures = st.floats(0.0, 1e9) | st.integers(0, 10**7).map(float)
lines = st.tuples(st.sampled_from(NAMES), st.sampled_from(("0", "1", "12")), figures)
pages = st.lists(lines, min_size=2, max_size=30)


def text(page: list[tuple[str, str, float]]) -> bytes:
    body = "".join(f'vllm:{name}{{engine="{engine}"}} {value}\n' for name, engine, value in page)
    return normalise(body.encode())


@given(pages, st.lists(figures, min_size=30, max_size=30))
def test_other_numbers_are_found_or_the_page_is_searched(
    page: list[tuple[str, str, float]], numbers: list[float]
) -> None:
    later = text([(*line[:2], new) for line, new in zip(page, numbers, strict=False)])
    found = follow(later, blaze(text(page), WANTED))
    if found is not None:
        assert tuple(found[0]) == find(later, WANTED).values
        assert found[1] == blaze(later, WANTED)


@given(pages, st.data())
def test_a_line_more_or_less_never_goes_unseen(
    page: list[tuple[str, str, float]], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(page) - 1))
    less = page[:index] + page[index + 1 :]
    for before, after in ((page, less), (less, page)):
        assert follow(text(after), blaze(text(before), WANTED)) is None


def vllm_page(drafts: float, engine: str = "0") -> bytes:
    names = [f"spec_decode_num_{what}" for what in ("drafts", "draft_tokens", "accepted_tokens")]
    names += ["prompt_tokens", "generation_tokens"]
    body = "".join(f'vllm:{name}_total{{engine="{engine}"}} {drafts}\n' for name in names)
    return f"# HELP vllm:spec_decode Speculation.\n{body}".encode()


def test_a_new_engine_is_seen_at_once_long_after_the_first_looks() -> None:
    reader = PageReader()
    for at in range(20):
        reader.read(vllm_page(100.0 * at), float(at))
    assert reader._trail is not None
    sample = reader.read(vllm_page(2000.0) + vllm_page(5.0, "1"), 20.0)
    assert [reading.label for reading in sample.readings] == ["0", "1"]


def test_a_figure_that_vanishes_is_seen_at_once_long_after_the_first_looks() -> None:
    reader = PageReader()
    for at in range(20):
        reader.read(vllm_page(100.0 * at), float(at))
    page = vllm_page(2000.0).replace(b"num_drafts_total{", b"num_strange_total{")
    (reading,) = reader.read(page, 20.0).readings
    assert "drafts" not in reading.counters
