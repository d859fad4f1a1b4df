"""The fast search against the reference parser, and against whatever else bytes may be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from math import isfinite

import pytest
from engine_pages import page
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from monitor.engines import exposition
from monitor.engines.dialect import Dialect
from monitor.engines.layout import doubled
from monitor.engines.sglang import SGLANG
from monitor.engines.vllm import VLLM
from monitor.model import PageError

Labels = frozenset[tuple[str, str]]
Found = dict[str, dict[Labels, float]]

QUICK = settings(max_examples=150, suppress_health_check=list(HealthCheck))


def _ours(body: bytes, dialect: Dialect) -> tuple[Found, frozenset[str]]:
    """What is read, by name, and the names that are not to be trusted."""
    text = exposition.tidy(exposition.normalise(body))
    lines = exposition.find(text, dialect.wanted)
    found = exposition.check(lines)
    damaged = found.damaged | doubled(found) | exposition.torn(text, dialect.begun, lines)
    damaged = damaged.union(*map(dialect.named_by, exposition.malformed(text)))
    series: Found = {}
    for name, labels, value in zip(found.names, found.labels, found.values, strict=True):
        if name not in damaged:
            key = frozenset(exposition.parse_labels(labels).items())
            series.setdefault(name.decode(), {})[key] = value
    return series, frozenset(name.decode() for name in damaged)


def _reference(body: bytes, dialect: Dialect) -> tuple[Found, frozenset[str]]:
    """The same from prometheus_client; raises ``ValueError`` where it does not accept a page."""
    text = body.decode().replace("\r\n", "\n").replace("\r", "\n")
    prefix = re.compile(dialect.prefix.decode())
    series: Found = {}
    unusable: set[str] = set()
    seen: Counter[tuple[str, Labels]] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            match = prefix.match(sample.name)
            name = sample.name[match.end() :] if match else ""
            if name not in dialect.names:
                continue
            labels = frozenset(sample.labels.items())
            seen[name, labels] += 1
            usable = isfinite(sample.value) and 0.0 <= sample.value < exposition.LARGEST
            if not usable or seen[name, labels] > 1:
                unusable.add(name)
            series.setdefault(name, {})[labels] = float(sample.value)
    return {n: s for n, s in series.items() if n not in unusable}, frozenset(unusable)


# -- pages by the grammar --------------------------------------------------------------------

_LABEL_NAMES = st.sampled_from(["engine", "model_name", "position", "dp_rank", "a", "le", "x_1"])
_LABEL_VALUES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=12),
    st.sampled_from(
        [
            "}",
            "} 5",
            "} ",
            ' # {a="b"} 1',
            "{",
            '"',
            "\\",
            "\n",
            "\\n",
            ",",
            "=",
            "} 5 # {",
            "0",
            "",
        ]
    ),
)
_VALUES = st.one_of(
    st.integers(0, 2**53).map(str),
    st.floats(0.0, 1e15).map(repr),
    st.sampled_from(
        ["0", "1.0", "NaN", "+Inf", "-Inf", "-1.0", "1e3", "1E+3", "1e30", ".5", "5."]
    ),
)
_NAMES = st.sampled_from(
    [
        "vllm:spec_decode_num_drafts_total",
        "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
        "vllm:spec_decode_num_draft_tokens_created",
        "vllm:generation_tokens_total",
        "vllm:generation_tokens_total_more",
        "vllm:generation_tokens_tot",
        "vllm:request_success_total",
        "vllm:e2e_request_latency_seconds_sum",
        "other_vllm:generation_tokens_total",
        "up",
    ]
)
_SUFFIXES = st.one_of(
    st.just(""),
    st.integers(0, 2**42).map(" {}".format),
    st.sampled_from([' # {trace_id="abc"} 1.0', ' # {a="}"} 0.5 1700000000.5', " 17 # {} 1"]),
)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@st.composite
def _lines(draw: st.DrawFn) -> str:
    labels = draw(st.dictionaries(_LABEL_NAMES, _LABEL_VALUES, max_size=4))
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    inside += draw(st.sampled_from(["", ","])) if labels else ""
    braces: bool = draw(st.booleans())
    block = "{" + inside + "}" if labels or braces else ""
    before = draw(st.sampled_from(["", " ", "\t"])) if block else ""
    after = draw(st.sampled_from([" ", "  ", "\t"]))
    value, suffix = draw(_VALUES), draw(_SUFFIXES)
    if after == "\t" and suffix:
        after = " "
    indent = draw(st.sampled_from(["", "", "", " ", "\t"]))
    return f"{indent}{draw(_NAMES)}{before}{block}{after}{value}{suffix}"


@st.composite
def _pages(draw: st.DrawFn) -> bytes:
    comment = st.sampled_from(["# HELP a b", "# anything {", "", "# TYPE up gauge", "#"])
    lines = draw(st.lists(st.one_of(_lines(), comment), max_size=8))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    last = draw(st.sampled_from(["# EOF", ""]))
    return end.join(["# HELP up a", *lines, last, ""]).encode()


@QUICK
@given(_pages())
def test_every_series_is_what_the_reference_parser_reads(body: bytes) -> None:
    expected, unusable = _reference(body, VLLM)
    series, damaged = _ours(body, VLLM)
    assert series == expected
    assert damaged == unusable


# -- real pages, mutated ---------------------------------------------------------------------


def _excerpt(name: str, dialect: Dialect) -> list[bytes]:
    """The lines of what is read, their comments and a few others."""
    stems = [stem.encode() for stem in dialect.names]
    lines = page(name).split(b"\n")
    return [
        line
        for number, line in enumerate(lines)
        if number % 40 == 0 or any(stem in line for stem in stems)
    ]


EXCERPTS = [
    (VLLM, _excerpt("vllm/03-draftgood-series-05.prom", VLLM)),
    (VLLM, _excerpt("vllm/09-dp2-03.prom", VLLM)),
    (SGLANG, _excerpt("sglang/v0.5.23-dp2/02_healthy_t0029.prom", SGLANG)),
    (SGLANG, _excerpt("sglang/router/sglang-router-0.3.2.engine_metrics.excerpt.prom", SGLANG)),
]


def _relabelled(line: bytes) -> bytes:
    """The same series with its labels in another order."""
    match = re.fullmatch(rb"([^{]+)\{(.*)\}(.*)", line)
    if match is None:
        return line
    labels = re.findall(rb'[a-z_]+="(?:[^"\\]|\\.)*"', match[2])
    return match[1] + b"{" + b",".join(reversed(labels)) + b"}" + match[3]


def _valued(text: bytes) -> Callable[[bytes], bytes]:
    return lambda line: line if line.startswith(b"#") else line.rpartition(b" ")[0] + b" " + text


_LINE_CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "relabelled": _relabelled,
    "extra label": lambda line: line.replace(b"{", b'{zone="a\\"} 7 # {",', 1),
    "exemplar": lambda line: line + b' # {trace_id="x"} 1.0 1700000000.0',
    "timestamp": lambda line: line + b" 1700000000123",
    "not a number": _valued(b"NaN"),
    "infinite": _valued(b"+Inf"),
    "negative": _valued(b"-3"),
    "no value": _valued(b""),
    "two values": _valued(b"1 x 2"),
    "open brace": lambda line: line.replace(b"}", b"", 1),
    "no brace": lambda line: line.replace(b"{", b"", 1),
    "open quote": lambda line: line.replace(b'"', b"", 1),
    "half": lambda line: line[: len(line) // 2],
    "most": lambda line: line[:-7],
    "indented": lambda line: b"  " + line,
    "shouted": lambda line: line.replace(b" ", b"   ", 1),
    "odd bytes": lambda line: line[:9] + b"\xc3\x28\x00" + line[9:],
    "form feed": lambda line: b"\x0c" + line,
    "comment": lambda line: b"# " + line,
}
_CHANGES = st.tuples(
    st.one_of(
        st.sampled_from(["delete", "double", "swap", "join"]),
        st.sampled_from(sorted(_LINE_CHANGES)),
    ),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
)


def changed(lines: list[bytes], changes: list[tuple[str, int, int]]) -> bytes:
    """A page with the changes made one after the other."""
    lines = list(lines)
    for what, where, other in changes:
        if not lines:
            break
        i, j = where % len(lines), other % len(lines)
        if what == "delete":
            del lines[i]
        elif what == "double":
            lines.insert(j, lines[i])
        elif what == "swap":
            lines[i], lines[j] = lines[j], lines[i]
        elif what == "join" and i + 1 < len(lines):
            lines[i : i + 2] = [lines[i] + b" " + lines[i + 1]]
        elif what in _LINE_CHANGES:
            lines[i] = _LINE_CHANGES[what](lines[i])
    return b"\n".join(lines) + b"\n"


@QUICK
@given(st.sampled_from(EXCERPTS), st.lists(_CHANGES, max_size=5), st.booleans())
def test_a_changed_page_never_gives_part_of_a_sum(
    excerpt: tuple[Dialect, list[bytes]], changes: list[tuple[str, int, int]], crlf: bool
) -> None:
    """Each name is read whole, exactly as the reference parser does, or not at all."""
    dialect, lines = excerpt
    body = changed(lines, changes)
    if crlf:
        body = body.replace(b"\n", b"\r\n")
    try:
        series, damaged = _ours(body, dialect)
    except PageError:
        return
    assert not damaged & series.keys()
    try:
        expected, unusable = _reference(body, dialect)
    except (ValueError, IndexError):
        return
    assert unusable <= damaged
    for name in series.keys() | (expected.keys() - damaged):
        assert series[name] == expected[name], name


@pytest.mark.parametrize(
    "name",
    [
        "vllm/01-baseline-series-06.prom",
        "vllm/03-draftgood-series-05.prom",
        "vllm/20-v092-V0-draft-03.prom",
        "vllm/22-v092-V1-base-01.prom",
        "vllm/10-api2-01.prom",
    ],
)
def test_real_pages_of_vllm_are_read_as_the_reference_parser_does(name: str) -> None:
    series, damaged = _ours(page(name), VLLM)
    assert (series, damaged) == _reference(page(name), VLLM)
    assert exposition.malformed(page(name)) == []


@pytest.mark.parametrize(
    "name",
    [
        "sglang/v0.4.6.post5-tp1/02_healthy_t0029.prom",
        "sglang/v0.5.8-tp2-allsched/02_healthy_t0029.prom",
        "sglang/v0.5.23-tp2/02_healthy_t0029.prom",
        "sglang/real-server-0.5.23-cpu/02_low.prom",
        "sglang/real-server-0.5.23-cpu/v1_loads_format_prometheus.prom",
        "sglang/router/sglang-router-0.3.2.engine_metrics.excerpt.prom",
    ],
)
def test_real_pages_of_sglang_are_read_as_the_reference_parser_does(name: str) -> None:
    series, damaged = _ours(page(name), SGLANG)
    assert (series, damaged) == _reference(page(name), SGLANG)
    assert exposition.malformed(page(name)) == []


# -- any bytes at all ------------------------------------------------------------------------


@QUICK
@given(st.binary(max_size=400))
@example(b"vllm:generation_tokens_total{" + b"\xff" * 20 + b"} 1\n")
@example(b"\xef\xbb\xbf\nvllm:generation_tokens_total 5\n")
@example(b"vllm:generation_tokens_total\n")
@example(b"process_start_time_seconds \nvllm:generation_tokens_total 5\n")
def test_no_bytes_raise_anything_but_a_page_error(body: bytes) -> None:
    for dialect in (VLLM, SGLANG):
        try:
            text = exposition.normalise(body)
        except PageError:
            return
        _ours(body, dialect)
        exposition.process_start(text)
        exposition.has_metrics(text)
        dialect.unknown_names(text)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty"),
        (b" \r\n\t\n", "empty"),
        (b"<!DOCTYPE html><html>", "HTML"),
        (b"\n\n  <html lang=en>", "HTML"),
        (b'<?xml version="1.0"?>\n', "XML"),
        (b'{"detail": "Not Found"}', "JSON"),
        (b"{}", "JSON"),
        (b"[]\n", "JSON"),
        (b"\x1f\x8b\x08\x00\x00\x00", "binary"),
        (b"# HELP a b\nvllm:generation_tokens_total 12", "cut short"),
        (b"# TYPE a counter\nvllm:generation_tokens_total 12\n# EO", "cut short"),
    ],
)
def test_what_is_no_page_is_said_in_one_line(body: bytes, reason: str) -> None:
    with pytest.raises(PageError, match=reason) as caught:
        exposition.normalise(body)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b"vllm:generation_tokens_total 12",
        b"\xef\xbb\xbfvllm:generation_tokens_total 12",
        b"vllm:generation_tokens_total 12\r",
        b"# TYPE a counter\nvllm:generation_tokens_total 12\n# EOF",
        b'{"quoted.name", a="b"} 5\nvllm:generation_tokens_total 12\n',
        b"   vllm:generation_tokens_total   12   \n",
    ],
)
def test_an_excerpt_by_hand_is_a_page(body: bytes) -> None:
    series, _ = _ours(body, VLLM)
    assert series == {"generation_tokens_total": {frozenset(): 12.0}}


def test_created_is_never_taken_for_total() -> None:
    body = (
        b"vllm:spec_decode_num_accepted_tokens_total 5\n"
        b"vllm:spec_decode_num_accepted_tokens_created 1.7e9\n"
        b"vllm:spec_decode_num_accepted_tokens_per_pos_created 1.7e9\n"
        b"vllm:spec_decode_num_accepted_tokens 7\n"
        b"vllm:spec_decode_num_accepted_tokens_total_sum 9\n"
    )
    series, _ = _ours(body, VLLM)
    assert series == {"spec_decode_num_accepted_tokens_total": {frozenset(): 5.0}}


# -- hostile pages ---------------------------------------------------------------------------

_N = 300_000


@pytest.mark.parametrize(
    "line",
    [
        b"vllm:generation_tokens_total" + b" " * _N,
        b"vllm:generation_tokens_total" + b" " * _N + b"x y",
        b"vllm:generation_tokens_total{" + b" " * _N,
        b"vllm:generation_tokens_total{" + b"}" * _N,
        b"vllm:generation_tokens_total{" + b"} " * _N,
        b'vllm:generation_tokens_total{a="' + b"\\" * _N,
        b'vllm:generation_tokens_total{a="' + b'\\"' * _N + b" 5",
        b"vllm:generation_tokens_total{" + b'a="b",' * (_N // 6) + b"!} 5",
        b"vllm:generation_tokens_total 5" + b" " * _N + b"# {",
        b"vllm:" + b"spec" * (_N // 4),
        b"v" * _N,
        b"process_start_time_seconds" + b" " * _N,
        b"\t" * _N,
    ],
    ids=lambda line: line[:34].decode() + "…",
)
def test_a_line_of_any_kind_costs_no_more_than_its_length(line: bytes) -> None:
    """These would take hours if any expression went over them again and again."""
    body = b"# HELP a b\n" + line + b"\n" + b"up 1\n"
    series, _ = _ours(body, VLLM)
    assert list(series) in ([], ["generation_tokens_total"])
    text = exposition.normalise(body)
    exposition.process_start(text)
    exposition.has_metrics(text)
    VLLM.unknown_names(text)
    VLLM.mark.search(text)


def test_a_label_text_beyond_all_reason_is_not_read() -> None:
    body = b'vllm:generation_tokens_total{a="' + b"x" * exposition.LONGEST_LABELS + b'"} 5\n'
    series, damaged = _ours(body, VLLM)
    assert series == {}
    assert damaged == {"generation_tokens_total"}


def test_more_lines_than_any_server_shows_are_refused() -> None:
    line = b'vllm:generation_tokens_total{a="%d"} 5\n'
    body = b"".join(line % number for number in range(exposition.MOST_LINES + 1))
    with pytest.raises(PageError, match="more than"):
        exposition.find(exposition.normalise(body), VLLM.wanted)
    padded = body + b"# " + b"x" * (1 << 22) + b"\n"
    with pytest.raises(PageError, match="more than"):
        exposition.find(exposition.normalise(padded), VLLM.wanted)
