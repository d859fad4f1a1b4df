"""``monitor alerts``: rules checked, tested and shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_pages import invoke

from monitor.cli import exits
from monitor.cli.options import CONFIG_VARIABLE

Capture = pytest.CaptureFixture[str]
MINE = """\
rules:
  - id: busy
    when: {running: {above: 48}}
    severity: info
    summary: "$target is busy"
"""
TESTS = """\
rule_files: [mine.yaml]
tests:
  - name: a busy server
    rules: [busy]
    series: [5m healthy running=10, 5m healthy running=50, 5m missed, 5m absent, 5m idle running=0]
    firing: {4m: [], 6m: [busy]}
    notices: [%s]
"""
RIGHT = "5m busy first, 20m busy resolved"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def test_shipped_rules_are_checked_and_explained(capsys: Capture) -> None:
    result = invoke(capsys, "alerts", "check")
    assert result.code == exits.OK
    assert "harmful (critical): fires when the verdict is harmful and" in result.out
    assert "votes for rollback." in result.out
    assert "the shipped rules: 15 rules in force," in result.out


def test_tests_beside_the_rules_are_found_and_run(tmp_path: Path, capsys: Capture) -> None:
    Path("mine.yaml").write_text(MINE)
    Path("mine.test.yaml").write_text(TESTS % RIGHT)
    result = invoke(capsys, "alerts", "check", "mine.yaml")
    assert result.code == exits.OK
    assert "busy (info): fires when the running is above 48;" in result.out
    assert "mine.yaml: 16 rules in force, 1 of 1 tests passed" in result.out


def test_a_test_that_fails_shows_what_came_instead(capsys: Capture) -> None:
    Path("mine.yaml").write_text(MINE)
    Path("mine.test.yaml").write_text(TESTS % "6m busy first")
    result = invoke(capsys, "alerts", "check", "mine.test.yaml")
    assert result.code == exits.BAD
    assert result.err.splitlines() == [
        "monitor: mine.test.yaml: a busy server:",
        f"monitor: told: {RIGHT}",
        "monitor: expected: 6m busy first",
    ]
    result = invoke(capsys, "alerts", "check", "mine.yaml", "--json")
    assert result.code == exits.BAD
    assert json.loads(result.out)["tests"][0]["passed"] is False


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "tests: [{name: a, series: [10m helthy], notices: []}]",
            "monitor: mine.test.yaml:1: tests[0].series[0].series[0]: 'helthy' is not known; "
            "did you mean 'healthy'?",
        ),
        (
            "tests: [{name: a, series: [healthy], notices: []}]",
            "monitor: mine.test.yaml:1: tests[0].series[0].series[0]: must read "
            "'DURATION VERDICT[/CAUSE[/ACTION]] [name=value …]'",
        ),
        (
            "tests: [{name: a, series: [10m healthy spedup=1], notices: []}]",
            "monitor: mine.test.yaml:1: tests[0].series[0].series[0]: 'spedup=1' is not "
            "name=value; did you mean 'speedup'?",
        ),
        (
            "tests: [{name: a, series: [10m healthy], notices: [5m busy]}]",
            "monitor: mine.test.yaml:1: tests[0].notices[0]: must read 'TIME RULE REASON', "
            "such as '4m15s harmful first'",
        ),
        (
            "tests: [{name: a, series: [10m healthy], firing: {5m: [harmfull]}}]",
            "monitor: mine.test.yaml:1: tests[0]: names a rule that is not in force; "
            "did you mean 'harmful'?",
        ),
        (
            "tests: [{name: a, series: [10m healthy]}]",
            "monitor: mine.test.yaml:1: tests[0]: expects nothing: give firing, notices or both",
        ),
        (
            "tests: [{name: a, series: [300d healthy], notices: []}]",
            "monitor: mine.test.yaml:1: tests[0].series: has more than 200000 looks",
        ),
    ],
)
def test_a_mistake_in_a_test_is_one_line(capsys: Capture, text: str, line: str) -> None:
    Path("mine.test.yaml").write_text(text)
    result = invoke(capsys, "alerts", "check", "mine.test.yaml")
    assert result.code == exits.USAGE
    assert result.err.splitlines() == [line]


def test_a_mistake_in_a_rule_is_a_wrong_usage(capsys: Capture) -> None:
    Path("mine.yaml").write_text("rules: [{id: harmful, sverity: info}]")
    result = invoke(capsys, "alerts", "check", "mine.yaml")
    assert result.code == exits.USAGE
    assert result.err == (
        "monitor: mine.yaml:1: rules[0].sverity: is not a known key; did you mean 'severity'?\n"
    )
    assert invoke(capsys, "alerts", "check", "none.yaml").code == exits.USAGE


def test_rules_in_force_come_from_the_configuration(capsys: Capture) -> None:
    Path("off.yaml").write_text("rules: [{id: harmful, enabled: false}]")
    Path("monitor.yaml").write_text(
        "alerts: {rules: [off.yaml]}\n"
        "services: [{name: a, speculative: {targets: [http://gpu1]}}]\n"
    )
    result = invoke(capsys, "alerts", "rules")
    assert "switched off: harmful" in result.out
    document = json.loads(invoke(capsys, "alerts", "rules", "--json").out)
    assert document["schema"] == "monitor.rules/1"
    assert document["off"] == ["harmful"]
    assert "dropped" in {rule["id"] for rule in document["rules"]}
    everything = json.loads(invoke(capsys, "alerts", "rules", "off.yaml", "--json").out)
    assert everything == document
