"""``monitor export``, and its files read in again."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
import zstandard
from sqlalchemy import Engine, select
from store_rows import NOON, change, increment, opened, row, target, vllm

from monitor.backfill.exported import ExportSource
from monitor.cli import export as export_command
from monitor.cli.runner import run
from monitor.clock import FakeClock
from monitor.model import ConfigError, Increment, Verdict
from monitor.pipeline import Counted
from monitor.store.connect import reading
from monitor.store.export import COLUMNS, What
from monitor.store.repository import Repository
from monitor.store.tables import samples

Export = Callable[..., tuple[int, str, str]]


@pytest.fixture
def filled(database_url: str) -> str:
    """Two targets with a quarter of an hour of looks, a change of verdict and of the server."""
    with opened(database_url) as engine:
        repository = Repository(engine)
        repository.register([target("a"), target("b")], NOON)
        for name in ("a", "b"):
            rows = []
            for number in range(60):
                end = NOON + 15.0 * (number + 1)
                rows.append(
                    row(
                        end,
                        *_looks(end, number),
                        name=name,
                        identity=vllm(engine_version=f"0.{number // 30}", draft_size=3),
                        change=change(Verdict.HARMFUL) if number == 20 else None,
                    )
                )
            repository.write_round(rows)
    return database_url


def _looks(end: float, number: int) -> list[Increment]:
    drafts = 100.0 + number / 3.0
    figures = {"drafts": drafts, "draft_tokens": 3.0 * drafts, "accepted_tokens": drafts}
    return [
        increment(end, "0", warmup=number < 4, seconds=15.0, positions=(drafts, 0.1), **figures),
        increment(end, "1", warmup=number < 4, seconds=15.0, running_seconds=7.5),
    ]


@pytest.fixture
def export(
    filled: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Export:
    monkeypatch.setenv("MONITOR_DATABASE", filled)
    monkeypatch.setattr(export_command, "SystemClock", lambda: FakeClock(NOON + 3_600.0))

    def export(*arguments: str) -> tuple[int, str, str]:
        code = run(["export", *arguments])
        captured = capfdbinary.readouterr()
        return code, captured.out.decode(), captured.err.decode()

    return export


def test_samples_as_json_lines(export: Export) -> None:
    code, out, err = export("samples", "--target", "a", "--start", str(NOON + 60))
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert len(lines) == 2 * 56
    assert err == "monitor: 112 samples written\n"
    first = lines[0]
    assert [*first] == [*COLUMNS[What.SAMPLES]]
    assert (first["target"], first["service"], first["label"]) == ("a", "chat", "0")
    assert (first["end"], first["warmup"]) == (NOON + 75.0, False)
    assert (first["engine"], first["engine_version"], first["verdict"]) == ("vllm", "0.0", None)
    assert (lines[-1]["engine_version"], lines[-1]["verdict"]) == ("0.1", "harmful")


def test_csv_has_the_same(export: Export, tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    assert export("samples", "-o", str(path))[0] == 0
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    (_, out, _) = export("samples")
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == len(lines) == 240
    assert [float(each["drafts"]) for each in rows] == [each["drafts"] for each in lines]
    assert json.loads(rows[0]["positions"]) == lines[0]["positions"]
    ends = [each["end"] for each in lines]
    assert ends == sorted(ends)


def test_files_are_packed_by_their_ending(export: Export, tmp_path: Path) -> None:
    plain, packed, dense = (tmp_path / f"all.jsonl{end}" for end in ("", ".gz", ".zst"))
    for path in (plain, packed, dense):
        assert export("samples", "--output", str(path))[0] == 0
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    unpacked = zstandard.ZstdDecompressor().decompressobj().decompress(dense.read_bytes())
    assert unpacked == plain.read_bytes()
    assert not list(tmp_path.glob("*.part"))


def test_verdicts_alerts_and_decisions(export: Export) -> None:
    (code, out, _) = export("verdicts")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(each["target"], each["verdict"]) for each in lines] == [
        ("a", "harmful"),
        ("b", "harmful"),
    ]
    assert lines[0]["document"] == {}
    for what in ("alerts", "decisions"):
        assert export(what)[0] == 3


MISTAKES = {
    ("sample",): "did you mean 'samples'",
    ("samples", "-o", "x.txt"): "the name tells no format",
    ("samples", "-o", "x.csv", "--format", "jsonl"): "does not fit the name",
    ("samples", "--format", "xml"): "--format must be csv or jsonl",
    ("samples", "-o", "/nowhere/x.csv"): "/nowhere/x.csv: cannot be written",
    ("samples", "--target", "c"): "there is no target 'c'",
    ("samples", "--start", "now", "--end", "-1h"): "--start must lie before --end",
}


def test_mistakes_are_one_line(export: Export) -> None:
    for arguments, message in MISTAKES.items():
        code, out, err = export(*arguments)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("ending", ["jsonl", "csv.gz", "jsonl.zst"])
def test_what_was_exported_fills_another_database_with_equal_rows(
    export: Export, filled: str, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"all.{ending}"
    assert export("samples", "--output", str(path))[0] == 0
    other = f"sqlite:///{tmp_path / 'other.db'}"
    for _ in range(2):
        assert run(["backfill", "export", str(path), "--database", other]) == 0
    with opened(filled) as engine, opened(other) as copy:
        assert _samples_of(copy) == _samples_of(engine)
        facts = Repository(copy).facts("a")
    assert facts.service == "chat"
    assert facts.identity == vllm(engine_version="0.1", draft_size=3)


def _samples_of(engine: Engine) -> list[tuple[object, ...]]:
    with reading(engine) as connection:
        found = connection.execute(select(samples).order_by(samples.c.series_id, samples.c.end))
        return [tuple(each)[:-1] for each in found]


def test_damaged_lines_are_counted_and_left_out(export: Export, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    assert export("samples", "--output", str(path))[0] == 0
    lines = path.read_bytes().splitlines()
    hurt = orjson.loads(lines[9]) | {"drafts": "many"}
    odd = orjson.loads(lines[10]) | {"engine_version": ["0.1"]}
    lines[8:11] = [lines[8][:50], orjson.dumps(hurt), orjson.dumps(odd), b"[]", b"\xff"]
    path.write_bytes(b"\n".join([*lines, lines[0]]))
    source = ExportSource(str(path), lambda labels: labels["instance"])
    looks = list(source.looks(0.0))
    seen = [look.seen for look in looks]
    assert sum(len(one.increments) for one in seen if isinstance(one, Counted)) == 240 - 3
    assert source.findings.skipped == {
        "line that is no row of an export": 5,
        "row that is older than the one before": 1,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"draft_size": 1e300},
        {"draft_size": 2.5},
        {"draft_size": -5},
        {"tensor_parallel": 10**18},
        {"drafts": -5.0},
        {"drafts": 1e308},
        {"drafts": "nan"},
        {"seconds": -1.0},
        {"positions": {"0": 1}},
        {"positions": [-1.0]},
        {"positions": [1.0] * 2000},
        {"start": -1e300},
        {"end": 1e300},
        {"target": {"a": 1}},
        {"target": ["a"]},
    ],
)
def test_a_row_that_cannot_be_right_is_left_out_alone(
    export: Export, tmp_path: Path, change: dict[str, object]
) -> None:
    path = tmp_path / "all.jsonl"
    assert export("samples", "--target", "a", "--output", str(path))[0] == 0
    lines = path.read_bytes().splitlines()
    lines[4] = orjson.dumps(orjson.loads(lines[4]) | change)
    path.write_bytes(b"\n".join(lines))
    source = ExportSource(str(path), lambda labels: labels["instance"])
    seen = [look.seen for look in source.looks(0.0)]
    assert sum(len(one.increments) for one in seen if isinstance(one, Counted)) == len(lines) - 1
    assert source.findings.skipped == {"line that is no row of an export": 1}


def test_time_that_is_there_twice_is_counted_once(export: Export, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    assert export("samples", "--target", "a", "--output", str(path))[0] == 0
    lines = path.read_bytes().splitlines()
    longer = orjson.loads(lines[40])
    longer |= {"start": longer["start"] - 7.0}
    path.write_bytes(b"\n".join([*lines[:40], orjson.dumps(longer), *lines[41:], lines[-1]]))
    source = ExportSource(str(path), lambda labels: labels["instance"])
    seen = [look.seen for look in source.looks(0.0)]
    assert sum(len(one.increments) for one in seen if isinstance(one, Counted)) == len(lines) - 1
    assert source.findings.skipped == {"row of time that is counted already": 2}


@pytest.mark.parametrize("content", [b"", b"target,end\na,1\n", b"# HELP x\n", b"\x1f\x8b\x00"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="x: "):
        ExportSource(str(path), lambda _labels: "a")
