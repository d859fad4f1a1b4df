"""``monitor check`` with saved pages: the contract, the exit codes, and what it prints."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import zstandard
from cli_pages import Result, invoke, vllm_page, write_series

from monitor.check import judge_series, judge_settings, look_twice, spacing
from monitor.cli.pages import SavedPage, parse_pages
from monitor.clock import FakeClock
from monitor.model import Assessment, ConfigError, Evidence, PageError, ScrapeError, Verdict
from monitor.pipeline import Page
from monitor.settings import TargetSettings

Capture = pytest.CaptureFixture[str]
CURVE = {"name": "plain", "points": [{"running": 1, "tpot": 0.01}, {"running": 8, "tpot": 0.02}]}


def not_json(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


def only_target(result: Result) -> dict[str, Any]:
    document = json.loads(result.out, parse_constant=not_json)
    assert document["schema"] == "monitor.check/1"
    (target,) = document["targets"]
    assert isinstance(target, dict)
    return target


def test_a_series_is_one_json_document(tmp_path: Path, capsys: Capture) -> None:
    result = invoke(capsys, "check", *write_series(tmp_path), "--json")
    target = only_target(result)
    assert (result.code, result.err) == (0, "")
    assert target["verdict"] == "unproven"
    assert target["engine"] == "vllm"
    assert target["model"] == "demo"
    assert target["acceptance_rate"]["value"] == pytest.approx(2 / 3)
    assert target["acceptance_length"]["value"] == pytest.approx(3.0)
    assert target["window"]["seconds"] == 600
    assert target["window"]["lifetime"] is False
    assert target["notes"] == []


def test_the_order_of_the_pages_does_not_matter(tmp_path: Path, capsys: Capture) -> None:
    arguments = write_series(tmp_path)
    pages = arguments[1::2]
    backwards = [part for page in reversed(pages) for part in ("--page", page)]
    straight = only_target(invoke(capsys, "check", *arguments, "--json"))
    assert only_target(invoke(capsys, "check", *backwards, "--json")) == straight


def test_one_page_tells_of_the_time_since_the_start(tmp_path: Path, capsys: Capture) -> None:
    target = only_target(invoke(capsys, "check", *write_series(tmp_path, 1), "--json"))
    assert target["window"]["lifetime"] is True
    assert target["window"]["drafts"] == 100_000


def test_a_dead_drafter_is_exit_code_1(tmp_path: Path, capsys: Capture) -> None:
    result = invoke(capsys, "check", *write_series(tmp_path, accepted=0.01), "--json")
    assert result.code == 1
    assert only_target(result)["action"] == "roll_back"


def test_an_idle_server_is_exit_code_3(tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "a"
    page.write_text(vllm_page(1000).replace("running{", "running_not{"))
    result = invoke(capsys, "check", "--page", f"{page}@0", "--page", f"{page}@60", "--json")
    assert result.code == 3


@pytest.mark.parametrize("bad", [b"", b"<html>502</html>", b"\x00\xff", b"{}"])
def test_a_bad_page_is_skipped_with_a_note(tmp_path: Path, capsys: Capture, bad: bytes) -> None:
    arguments = write_series(tmp_path)
    (tmp_path / "10.prom").write_bytes(bad)
    (tmp_path / "03.prom").write_bytes(bad)
    target = only_target(invoke(capsys, "check", *arguments, "--json"))
    assert target["verdict"] == "unproven"
    assert target["acceptance_length"]["value"] == pytest.approx(3.0)
    assert len([note for note in target["notes"] if "was skipped" in note]) == 2


def test_no_metrics_page_at_all_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: Capture
) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!DOCTYPE html><title>502</title>")
    result = invoke(capsys, "check", "--page", page, "--page", page, "--json")
    assert (result.code, result.out) == (2, "")
    (line,) = result.err.splitlines()
    assert line.startswith(f"monitor: {page}: not a metrics page")


def test_a_page_may_come_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    body = tmp_path / "page"
    body.write_text(vllm_page(5000))
    with body.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        target = only_target(invoke(capsys, "check", "--page", "-@1800000000", "--json"))
    assert target["target"] == "standard input"
    assert target["window"]["drafts"] == 5000


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, lzma.compress, bz2.compress])
def test_a_page_may_be_packed(
    tmp_path: Path, capsys: Capture, pack: Callable[[bytes], bytes]
) -> None:
    page = tmp_path / "page.prom"
    page.write_bytes(pack(vllm_page(5000).encode()))
    target = only_target(invoke(capsys, "check", "--page", page, "--json"))
    assert target["window"]["drafts"] == 5000


def test_a_packed_page_that_is_cut_short_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: Capture
) -> None:
    page = tmp_path / "page.prom.gz"
    page.write_bytes(gzip.compress(vllm_page(5000).encode())[:-20])
    result = invoke(capsys, "check", "--page", page)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"monitor: --page {page}: cannot be read: ")


def test_two_speeds_give_a_speedup(tmp_path: Path, capsys: Capture) -> None:
    arguments = write_series(tmp_path, 1)
    speeds = ("--tps", "54.6", "--baseline-tps", "82.5")
    target = only_target(invoke(capsys, "check", *arguments, *speeds, "--json"))
    assert target["speedup"]["value"] == pytest.approx(54.6 / 82.5)
    assert target["verdict"] == "harmful"


def test_a_baseline_is_read_from_a_file(tmp_path: Path, capsys: Capture) -> None:
    curve = tmp_path / "curve.json"
    curve.write_text(json.dumps(CURVE))
    arguments = write_series(tmp_path)
    target = only_target(invoke(capsys, "check", *arguments, "--baseline", curve, "--json"))
    assert target["baseline"] == {"name": "plain", "matches": True, "running_range": [1, 8]}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "monitor: give URLs to look at or --page FILE, one of the two"),
        (["--page", "/nowhere/x"], "monitor: --page /nowhere/x: no such file"),
        (["--page", "/nowhere/x@yesterday"], "monitor: --page /nowhere/x@yesterday: no such file"),
        (
            ["--page", "-", "--page", "-"],
            "monitor: --page -: standard input can be read only once",
        ),
        (["--page", "/"], "monitor: --page /: cannot be read: Is a directory"),
        (
            ["ftp://x"],
            "monitor: the URL of a target is not a URL: the scheme must be http or https",
        ),
        (
            ["--engine", "vlm", "x"],
            "monitor: --engine is not a known engine; did you mean 'vllm'?",
        ),
        (["--threshold", "40", "x"], "monitor: --threshold must lie between 0 and 1"),
        (["--tps", "3", "x"], "monitor: --tps and --baseline-tps go together: give both"),
        (
            ["--tps", "nan", "--baseline-tps", "1", "x"],
            "monitor: --tps and --baseline-tps must lie between 0.1 and 100,000 tokens/s",
        ),
        (
            ["--tps", "1e-300", "--baseline-tps", "50", "x"],
            "monitor: --tps and --baseline-tps must lie between 0.1 and 100,000 tokens/s",
        ),
        (
            ["--baseline", "/nowhere/x", "x"],
            "monitor: baseline /nowhere/x: cannot be read: No such file or directory",
        ),
        (["--key", "/nowhere/x", "x"], "monitor: --key needs --cert"),
        (["--cert", "/nowhere/x", "x"], "monitor: --cert is no file"),
        (
            ["--bearer-env", "NOT_SET_ANYWHERE", "x"],
            "monitor: --bearer-env names an environment variable that is not set",
        ),
        (["--window", "0", "x"], "monitor: invalid value for '--window'"),
        (["--nope"], "monitor: no such option: --nope"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], line: str, capsys: Capture
) -> None:
    result = invoke(capsys, "check", *arguments)
    assert (result.code, result.out) == (2, "")
    (shown,) = result.err.splitlines()
    assert shown.startswith(line)


def test_a_secret_in_a_url_is_refused_and_not_repeated(capsys: Capture) -> None:
    result = invoke(capsys, "check", "http://u:hunter2-canary@h:1")
    assert result.code == 2
    assert "canary" not in result.err
    assert "username" in result.err


def test_text_fits_80_columns_and_has_no_colour_when_piped(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    for extra in ([], ["--verbose"]):
        result = invoke(capsys, "check", *write_series(tmp_path), *extra)
        assert result.out.startswith("UNPROVEN  ")
        assert "\x1b" not in result.out
        assert max(map(len, result.out.splitlines())) <= 80
        assert all(line == line.rstrip() for line in result.out.splitlines())


def test_text_is_ascii_where_the_locale_knows_nothing_else(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    result = invoke(capsys, "check", *write_series(tmp_path, accepted=0.01, model="modèle"))
    assert result.out.isascii()
    assert "mod\\xe8le" in result.out


def test_names_from_a_page_cannot_act_on_the_terminal(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    model = "\x1b[31m[bold red]\u202e" + "y" * 10_000
    result = invoke(capsys, "check", *write_series(tmp_path, model=model))
    assert result.code == 0
    assert not {"\x1b", "\u202e", "\x07"}.intersection(result.out)
    assert "\\x1b[31m[bold" in result.out
    assert len(result.out) < 3000


def at(*arguments: str, interval: float = 15.0, now: float = 1000.0) -> list[float]:
    return [page.at for page in parse_pages(arguments, interval, now)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "c", "odd@name.prom", "d@1700000000"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_pages_without_a_time_end_now() -> None:
    assert at("a", "b", "c") == [970.0, 985.0, 1000.0]


@pytest.mark.usefixtures("folder")
def test_pages_without_a_time_lie_beside_those_with_one() -> None:
    assert at("a", "b@100", "c", interval=10) == [90.0, 100.0, 110.0]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("argument", "page"),
    [
        ("a@1700000000.5", SavedPage("a", 1700000000.5)),
        ("a@2023-11-14T22:13:20Z", SavedPage("a", 1.7e9)),
        ("a@2023-11-14T23:13:20+01:00", SavedPage("a", 1.7e9)),
        ("odd@name.prom", SavedPage("odd@name.prom", 0.0)),
        ("odd@name.prom@1700000000", SavedPage("odd@name.prom", 1.7e9)),
        ("d@1700000000", SavedPage("d@1700000000", 0.0)),
        ("d@1700000000@5", SavedPage("d@1700000000", 5.0)),
    ],
)
def test_the_time_is_what_follows_the_last_at_sign(argument: str, page: SavedPage) -> None:
    assert parse_pages([argument], 15.0, 0.0) == [page]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("a@2023-11-14T22:13:20", "has no time zone"),
        ("a@noon", "is not a time"),
        ("a@nan", "is not a time"),
        ("a@", "is not a time"),
        ("nothing@5", "no such file"),
    ],
)
def test_other_times_are_refused(argument: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_pages([argument], 15.0, 0.0)


def test_the_spacing_of_a_series_is_its_usual_gap() -> None:
    assert spacing([0, 60, 120, 600]) == 60
    assert spacing([5]) == 15
    assert spacing([5, 5], 7) == 7


class Server:
    """Stands in for a scraper: answers, or fails, as it is told."""

    def __init__(self, answers: list[str | None]) -> None:
        self._answers: Iterator[str | None] = iter(answers)
        self.closed = False

    def fetch(self) -> Page:
        answer = next(self._answers)
        if answer is None:
            raise ScrapeError("connection refused")
        return Page(answer.encode())

    def close(self) -> None:
        self.closed = True


def look_at(*series: list[str | None]) -> list[Assessment | PageError]:
    servers = {f"s{number}": Server(answers) for number, answers in enumerate(series)}
    targets = [
        TargetSettings(name, "check", f"http://{name}", judge=judge_settings(600, 0.4, None, None))
        for name in servers
    ]
    clock = FakeClock(1.8e9)
    found = look_twice(
        targets, interval=15, clock=clock, open_fetcher=lambda target: servers[target.name]
    )
    assert clock.monotonic() == 15
    assert all(server.closed for server in servers.values())
    return found


def test_several_servers_are_answered_in_their_order() -> None:
    good, dead, off, html = look_at(
        [vllm_page(100_000), vllm_page(104_000)],
        [vllm_page(100_000, accepted=0.0), vllm_page(104_000, accepted=0.0)],
        [None, None],
        ["<html>", "<html>"],
    )
    assert isinstance(good, Assessment)
    assert good.verdict is Verdict.UNPROVEN
    assert good.evidence is Evidence.COUNTER
    assert isinstance(dead, Assessment)
    assert dead.verdict is Verdict.HARMFUL
    assert isinstance(off, Assessment)
    assert off.verdict is Verdict.DOWN
    assert off.notes == ()
    assert isinstance(html, PageError)


@pytest.mark.parametrize("answers", [[vllm_page(9000), None], [None, vllm_page(9000)]])
def test_one_failed_look_leaves_the_figures_since_the_start(answers: list[str | None]) -> None:
    (answer,) = look_at(answers)
    assert isinstance(answer, Assessment)
    assert answer.window is not None
    assert answer.window.lifetime
    assert answer.notes == ("a look failed: connection refused",)


def test_an_empty_series_is_no_metrics_page() -> None:
    with pytest.raises(PageError, match="there is no page"):
        judge_series([], TargetSettings("t", "check", ""))
