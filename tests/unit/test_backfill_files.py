"""Saved pages and dumps: when they are of, what is in them, and what is wrong with them."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from monitor.backfill import dump
from monitor.backfill.dump import DumpSource, matchers_in
from monitor.backfill.looks import Look
from monitor.backfill.naming import Naming
from monitor.backfill.pages import PagesSource, time_in
from monitor.model import ConfigError
from monitor.pipeline import NoPage, Page
from monitor.settings import TargetSettings

AT = 1_772_375_520.0


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("2026-03-01T14:32:00Z.prom", AT),
        ("20260301T143200Z.prom.gz", AT),
        ("gpu-2026-03-01_14-32-00Z.txt", AT),
        ("page-2026-03-01T14:32:00.250Z.prom", AT + 0.25),
        ("1772375520.prom", AT),
        ("1772375520.5.prom", AT + 0.5),
        ("2026-03-01T14:32:00.prom", None),
        ("2026-13-01T14:32:00Z.prom", None),
        ("00_start_t0000.prom", None),
        ("17723755201.prom", None),
    ],
)
def test_a_name_tells_the_time_or_nothing_is_guessed(name: str, at: float | None) -> None:
    assert time_in(name) == at


def looks(source: PagesSource | DumpSource, after: float = 0.0) -> list[Look]:
    return list(source.looks(after))


def test_a_folder_gives_its_pages_in_order_of_time(tmp_path: Path) -> None:
    (tmp_path / "1772375550.prom").write_bytes(gzip.compress(b"1772375550.prom"))
    (tmp_path / "1772375520.prom").write_bytes(zstandard.compress(b"1772375520.prom"))
    (tmp_path / "1772375535.prom").write_bytes(b"plain")
    (tmp_path / "1772375535.v1_loads.json").write_bytes(b"{}")
    (tmp_path / "README").write_bytes(b"?")
    source = PagesSource("t", tmp_path, {})
    assert [look.at - AT for look in looks(source)] == [0.0, 15.0, 30.0]
    assert [look.seen for look in looks(source)] == [
        Page(b"1772375520.prom"),
        Page(b"plain", b"{}"),
        Page(b"1772375550.prom"),
    ]
    assert [look.at - AT for look in looks(source, AT)] == [15.0, 30.0]
    assert source.interval("t") == 15.0
    assert source.findings.skipped == {"a file whose name tells no time": 1}
    assert source.findings.done == 1.0


def test_an_index_tells_times_in_several_ways_and_may_hold_several_servers(
    tmp_path: Path,
) -> None:
    entries = [
        {"file": "a", "at": "2026-03-01T14:32:00Z", "run": 1},
        {"file": "b", "t": AT + 30.0, "run": 1},
        {"file": "c", "iso": "2026-03-01T15:32:15+01:00", "t": 15, "run": 1},
        {"file": "d", "t": AT + 45.0, "run": 2},
        {"file": "e", "t": AT + 60.0, "run": 1, "ok": False},
    ]
    index = tmp_path / "INDEX.json"
    for document in (entries, {"pages": entries}, {"snapshots": entries}):
        index.write_text(json.dumps(document))
        source = PagesSource("t", tmp_path, {"run": "1"})
        for name in "abc":
            (tmp_path / name).write_text(name)
        assert [look.at - AT for look in looks(source)] == [0.0, 15.0, 30.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no index of pages"),
        ("{}", 'should be a list of {"file": …, "at": …}'),
        ("[]", "there are no pages in it"),
        ('[{"at": 1772375520}]', 'page 1 has no "file"'),
        ('[{"file": "a"}]', "page 1 (a) has no time"),
        ('[{"file": "a", "at": "2026-03-01T14:32:00"}]', "ISO 8601 with a zone"),
        ('[{"file": "a", "at": 12}]', "page 1 (a) has no time"),
        ('[{"file": "a", "at": 1772375520000}]', "page 1 (a) has no time"),
        ('[{"file": "a", "at": "2999-01-01T00:00Z"}]', "page 1 (a) has no time"),
        ('[{"file": "a", "at": 1e999}]', "page 1 (a) has no time"),
        ('[{"file": "a", "at": 1%s}]' % ("0" * 400), "page 1 (a) has no time"),
        ('[{"file": "a\\u0000b", "at": 1772375520}]', 'page 1 has no "file"'),
        ('[{"file": "\\ud800", "at": 1772375520}]', 'page 1 has no "file"'),
        ("[" * 100_000, "is no index of pages"),
    ],
)
def test_an_index_that_is_wrong_is_refused_in_one_line(
    tmp_path: Path, content: str, message: str
) -> None:
    index = tmp_path / "INDEX.json"
    index.write_text(content)
    with pytest.raises(ConfigError) as caught:
        PagesSource("t", index, {})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_page_that_is_gone_or_damaged_is_skipped_and_said(tmp_path: Path) -> None:
    (tmp_path / "1772375520.prom").write_bytes(gzip.compress(b"x" * 5000)[:30])
    (tmp_path / "1772375535.prom").write_bytes(b"whole")
    source = PagesSource("t", tmp_path, {})
    assert [look.seen for look in looks(source)] == [Page(b"whole")]
    assert source.findings.skipped == {"a page that cannot be read": 1}
    assert "1772375520.prom: cannot be read" in source.findings.notes[0]


def written(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "dump"
    path.write_text("\n".join(lines))
    return str(path)


DUMP = (
    "# TYPE vllm:generation_tokens counter",
    'vllm:generation_tokens_total{instance="a:1",job="j",engine="0"} 5 1772375520',
    'vllm:generation_tokens_total{instance="a:1",job="j",engine="0"} 9 1772375535.5',
    'vllm:num_requests_running{instance="a:1",job="j",engine="0"} 1 1772375520000',
    '{__name__="vllm:num_requests_running",instance="a:1",job="j",engine="0"} 2 1772375535500',
    'up{instance="a:1",job="j"} 1 1772375520',
    'up{instance="a:1",job="j"} 0 1772375550',
    'up{instance="other:1",job="j"} 1 1772375550',
    'http_requests_total{instance="a:1",job="j"} 7 1772375520',
    "# EOF",
)


def test_a_dump_in_any_order_and_spelling_is_taken_apart_into_pages(tmp_path: Path) -> None:
    source = DumpSource(written(tmp_path, *DUMP), Naming(()).name_of, {})
    found = looks(source)
    assert source.targets == ["a:1"]
    assert [look.at - AT for look in found] == [0.0, 15.5, 30.0]
    assert found[0].seen == Page(
        b'up 1\nvllm:generation_tokens_total{engine="0"} 5\n'
        b'vllm:num_requests_running{engine="0"} 1\n'
    )
    assert isinstance(found[2].seen, NoPage)
    assert looks(source, AT) == found[1:]
    source.close()


def test_lines_of_a_dump_that_cannot_be_right_are_counted(tmp_path: Path) -> None:
    odd = (
        'vllm:num_requests_running{instance="a:1",job="j",engine="0"} 1',
        "<html>",
        'vllm:num_requests_running{instance="a:1",job="j",engine="0"} 1 12',
        'vllm:num_requests_running{instance="a:1",job="j",engine="0"} 1 1e999',
        'vllm:num_requests_running{instance="a:1",job="j",engine="0"} 1 1772375520 # {a="b"} 1',
    )
    source = DumpSource(written(tmp_path, *DUMP, *odd), Naming(()).name_of, {})
    found = looks(source)
    assert source.findings.skipped == {
        "a line without a time, or none of a dump": 2,
        "a line with a time that cannot be right": 2,
        "the same sample twice": 1,
    }
    assert [look.at - AT for look in found] == [0.0, 15.5, 30.0]
    source.close()


def test_a_dump_without_any_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no samples with a time of vLLM"):
        DumpSource(written(tmp_path, 'up{instance="a:1"} 1 1772375520'), Naming(()).name_of, {})
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        DumpSource(str(tmp_path / "none"), Naming(()).name_of, {})


@given(st.binary(max_size=300))
def test_no_line_of_a_dump_breaks_anything(line: bytes) -> None:
    match = dump._LINE.fullmatch(line)
    if match is not None:
        at = dump._seconds(match[4])
        assert at is None or math.isfinite(at)


def test_a_hostile_line_costs_no_more_than_its_length() -> None:
    assert dump._LINE.fullmatch(b'a{b="' + b"\\" * 60_000) is None
    assert dump._LINE.fullmatch(b"a" * 60_000 + b"{" * 5_000) is None


@pytest.mark.parametrize("text", ['job="vllm",cluster="a"', "job=vllm, cluster=a"])
def test_labels_are_read_with_and_without_quotes(text: str) -> None:
    assert matchers_in([text]) == {"job": "vllm", "cluster": "a"}


@pytest.mark.parametrize("text", ["job", "=x", 'job=~"v.*"', "job==x"])
def test_other_matchers_are_refused_for_files(text: str) -> None:
    with pytest.raises(ValueError, match="is not label=value"):
        matchers_in([text])


def test_a_target_is_found_by_name_or_address_and_others_are_left_out_once_some_are_known() -> (
    None
):
    known = TargetSettings("gpu1", "chat", "http://10.0.0.1:8000")
    naming = Naming((known,))
    assert naming.name_of({"instance": "10.0.0.1:8000"}) == "gpu1"
    assert naming.name_of({"instance": "gpu1"}) == "gpu1"
    assert naming.name_of({"instance": "10.0.0.2:8000"}) is None
    more = Naming((known,), service="other")
    assert more.name_of({"instance": "10.0.0.2:8000", "job": "j"}) == "10.0.0.2:8000"
    assert more.settings(["gpu1", "10.0.0.2:8000"])["10.0.0.2:8000"].service == "other"
    assert more.settings(["gpu1"])["gpu1"] is known
