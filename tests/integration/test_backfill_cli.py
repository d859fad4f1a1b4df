"""``monitor backfill`` as it is called: files in, rows, text and JSON out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from backfill_series import to_openmetrics
from backfill_stage import INTERVAL, START, quarter

from monitor.cli.runner import run
from monitor.pipeline import Page

HOUR = 3600.0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def two_hours(target: str = "a") -> list[Any]:
    return [look for look in quarter() if look.target == target and look.at < START + 2.0 * HOUR]


def save_pages(folder: Path) -> Path:
    """Two hours of pages, named by their time."""
    pages = folder / "pages"
    pages.mkdir()
    for look in two_hours():
        assert isinstance(look.seen, Page)
        (pages / f"{look.at:.0f}.prom").write_bytes(look.seen.metrics)
    return pages


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["backfill", *arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, document


def test_pages_are_filled_in_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = save_pages(folder)
    code, found = outcome(capsys, "pages", str(pages), "--target", "gpu1")
    assert code == 0
    assert found["schema"] == "monitor.backfill/1"
    assert (found["samples"], found["windows"]) == (120, 119)
    assert found["start"] == "2026-09-21T14:13:20.000Z"
    assert sum(found["verdicts"].values()) == 120
    code, again = outcome(capsys, "pages", str(pages), "--target", "gpu1")
    assert (code, again["samples"], again["skipped"]) == (0, 0, {"backfilled before": 120})
    assert (again["start"], again["verdicts"], again["alerts"]) == (None, {}, [])


def test_of_two_pages_of_one_time_one_is_taken(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = save_pages(folder)
    for page in [*pages.iterdir()]:
        (pages / f"{page.stem}.copy.prom").write_bytes(page.read_bytes())
    code, found = outcome(capsys, "pages", str(pages), "--target", "gpu1")
    assert (code, found["samples"], found["windows"]) == (0, 120, 119)
    assert found["skipped"] == {"of the same time as the one before": 120}


def test_the_outcome_is_text_and_the_history_is_there(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backfill", "pages", str(save_pages(folder)), "--target", "gpu1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("filled in 1 target from 2026-09-21T14:13:20 to 2026-09-21T16:12:20")
    assert "120 looks, 119 windows" in said
    span = ["--start", "2026-09-21T14:00:00Z", "--end", "2026-09-21T17:00:00Z"]
    assert run(["history", "--target", "gpu1", *span, "--step", "1h", "--json"]) == 0
    history = json.loads(capsys.readouterr().out)["rows"]
    expected = [look.seen.metrics for look in two_hours()]
    drafts = [float(page.split(b"num_drafts_total")[1].split()[1]) for page in expected]
    assert sum(row["drafts"] for row in history) == drafts[-1] - drafts[0]


def test_a_dry_run_leaves_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = save_pages(folder)
    code, found = outcome(capsys, "pages", str(pages), "--target", "gpu1", "--dry-run")
    assert (code, found["samples"], found["dry_run"]) == (0, 120, True)
    assert not (folder / "monitor.db").exists()


def test_a_dump_goes_to_the_targets_of_the_configuration(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "monitor.yaml").write_text(
        "services:\n- name: chat\n  threshold: 0.9\n  speculative:\n    targets:\n"
        "    - {url: http://a:8000, name: gpu1}\n"
    )
    looks = two_hours("a") + two_hours("b")
    (folder / "dump.om").write_text(to_openmetrics(sorted(looks, key=lambda look: look.at)))
    code, found = outcome(capsys, "openmetrics", "dump.om")
    assert (code, found["targets"], found["samples"]) == (0, ["gpu1"], 120)
    # The threshold of the configuration is judged by.
    assert "acceptance_below_threshold" in {alert["rule"] for alert in found["alerts"]}
    code, found = outcome(capsys, "openmetrics", "dump.om", "--service", "other")
    assert (found["targets"], found["samples"]) == (["b:8000"], 120)
    assert found["skipped"] == {"backfilled before": 120}


def test_a_span_of_a_dump_is_taken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "dump.om").write_text(to_openmetrics(two_hours()))
    span = ["--start", str(START + HOUR), "--end", str(START + HOUR + 10 * INTERVAL)]
    code, found = outcome(capsys, "openmetrics", "dump.om", "--target", "t", *span)
    assert (code, found["targets"], found["samples"]) == (0, ["t"], 11)
    (note,) = found["notes"]
    assert note.startswith("what is later than ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pages", "none", "--target", "t"], "none: no such file or folder"),
        (["pages", ".", "--target", "t"], "no file tells in its name when it was taken"),
        (["pages", ".", "--target", "t", "--select", "run"], "--select 'run' is not label=value"),
        (["openmetrics", "none"], "none: cannot be read: No such file or directory"),
        (["openmetrics", ".", "--start", "x"], "--start is not a time"),
        (["openmetrics", "."], ".: cannot be read: Is a directory"),
        (["prometheus", "http://localhost:1"], "missing option '--start'"),
        (["prometheus", "ftp://x", "--start", "-1h"], "the scheme must be http or https"),
        (
            ["prometheus", "http://localhost:1", "--start", "now", "--end", "-1h"],
            "--start must lie before --end",
        ),
        (
            ["prometheus", "http://x", "--start", "-1h", "--password-env", "HOME"],
            "--password-file and --password-env need --username",
        ),
        (["logs", "none", "--target", "t"], "none: no such file or folder"),
        (["logs", ".", "--target", "t", "--tz", "Mars"], "--tz 'Mars' is no time zone"),
        (["nonsense"], "no such command 'nonsense'"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backfill", *arguments]) == 2
    said = capsys.readouterr().err.strip()
    assert message in said
    assert said.startswith("monitor: ")
    assert said.count("\n") == 0


@pytest.mark.parametrize("kind", ["pages", "logs"])
@pytest.mark.usefixtures("folder")
def test_what_is_not_there_leaves_no_target_behind(kind: str) -> None:
    assert run(["backfill", kind, "none", "--target", "t"]) == 2
    assert not Path("monitor.db").exists()


LINE = (
    "INFO 03-01 14:3{minute}:{second:02} [metrics.py:100] SpecDecoding metrics: Mean acceptance"
    " length: 2.50, Accepted throughput: 15.00 tokens/s, Drafted throughput: 30.00 tokens/s,"
    " Accepted: 150 tokens, Drafted: 300 tokens, Per-position acceptance rate: 0.800, 0.500,"
    " 0.200, Avg Draft acceptance rate: 50.0%\n"
)


def test_a_log_is_read_in_the_zone_of_its_server(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "".join(LINE.format(minute=n // 6, second=n % 6 * 10) for n in range(30))
    (folder / "server.log").write_text(text)
    options = ["--target", "gpu1", "--year", "2026", "--tz", "Europe/Berlin"]
    code, found = outcome(capsys, "logs", "server.log", *options)
    assert code == 0
    assert (found["windows"], found["targets"]) == (found["samples"] - 1, ["gpu1"])
    assert found["end"] == "2026-03-01T13:34:50.000Z"
    code, again = outcome(capsys, "logs", "server.log", *options)
    assert (code, again["samples"]) == (0, 0)


def test_what_was_exported_comes_to_the_same_rows_elsewhere(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backfill", "pages", str(save_pages(folder)), "--target", "gpu1"]) == 0
    capsys.readouterr()
    assert run(["export", "samples", "--target", "gpu1", "--start", "0", "--format", "jsonl"]) == 0
    (folder / "samples.jsonl").write_text(capsys.readouterr().out)
    other = ["--database", "sqlite:///other.db"]
    code, found = outcome(capsys, "export", "samples.jsonl", *other)
    assert (code, found["targets"], found["windows"]) == (0, ["gpu1"], 119)
    code, again = outcome(capsys, "export", "samples.jsonl", *other)
    assert (code, again["samples"]) == (0, 0)
