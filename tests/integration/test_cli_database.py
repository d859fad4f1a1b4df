"""``monitor status`` and ``monitor history`` read what a daemon has left in the database."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from monitor.cli import history as history_command
from monitor.cli import status as status_command
from monitor.cli.runner import run
from monitor.clock import FakeClock
from monitor.model import Action, Assessment, Cause, Counts, Increment, Verdict
from monitor.report import to_document
from monitor.settings import Role, TargetSettings
from monitor.store.connect import open_store
from monitor.store.repository import Repository
from monitor.store.rows import Change, RoundRow

NOON = 1_800_000_000.0
COUNTS = Counts(
    seconds=60.0, drafts=1000.0, draft_tokens=3000.0, accepted_tokens=1500.0, output_tokens=2500.0
)


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Invoke = Callable[..., Result]


@pytest.fixture
def invoke(
    database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Invoke:
    """Runs a command on the test's database, a minute after the last look."""
    monkeypatch.setenv("MONITOR_DATABASE", database_url)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")

    def invoke(*arguments: str, now: float = NOON + 60) -> Result:
        for module in (history_command, status_command):
            monkeypatch.setattr(module, "SystemClock", lambda: FakeClock(now))
        code = run(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return invoke


def store(url: str, verdicts: dict[str, Verdict], role: Role = Role.SPECULATIVE) -> None:
    engine = open_store(url)
    repository = Repository(engine)
    targets = [TargetSettings(name, "kimi", f"http://{name}", role) for name in verdicts]
    repository.register(targets, NOON - 60)
    repository.write_round([_row(name, verdict) for name, verdict in verdicts.items()])
    engine.dispose()


def _row(name: str, verdict: Verdict) -> RoundRow:
    cause = Cause.DRAFTER_DEAD if verdict is Verdict.HARMFUL else None
    assessment = Assessment(name, NOON, verdict, cause, Action.NONE, f"{name} is {verdict}")
    document = json.dumps(to_document(assessment))
    change = Change(verdict, cause, Action.NONE, assessment.sentence, document)
    increment = Increment("0", NOON - 60, NOON, COUNTS, warmup=False)
    return RoundRow(name, NOON, [increment], "{}", document, change)


def test_status_is_the_document_of_the_contract(invoke: Invoke, database_url: str) -> None:
    store(database_url, {"a": Verdict.HEALTHY, "b": Verdict.HARMFUL})
    result = invoke("status", "--json")
    document = json.loads(result.out)
    assert (result.code, result.err) == (1, "")
    assert document["schema"] == "monitor.status/1"
    (service,) = document["services"]
    assert service["service"] == "kimi"
    assert service["verdict"] == "harmful"
    assert service["since"] == "2027-01-15T08:00:00.000Z"
    assert [(t["target"], t["verdict"]) for t in service["targets"]] == [
        ("a", "healthy"),
        ("b", "harmful"),
    ]
    assert service["targets"][1]["sentence"] == "b is harmful"
    assert service["rollback"] == {"mode": "observe", "state": "idle"}


def test_status_is_a_few_lines_for_people(invoke: Invoke, database_url: str) -> None:
    store(database_url, {"a": Verdict.HEALTHY})
    result = invoke("status")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "HEALTHY  kimi  for 1m",
        "  a  HEALTHY  looked at 1m ago",
        "  a is healthy",
    ]


def test_good_news_that_are_old_are_no_news(invoke: Invoke, database_url: str) -> None:
    store(database_url, {"a": Verdict.HEALTHY})
    result = invoke("status", "--json", now=NOON + 3 * 86400)
    assert result.code == 3
    assert json.loads(result.out)["services"][0]["targets"][0]["stale"] is True
    assert result.err == ("monitor: no look at a within the last 15m; is 'monitor run' running?\n")


def test_plain_servers_do_not_decide_about_a_service(invoke: Invoke, database_url: str) -> None:
    store(database_url, {"plain": Verdict.OFF}, Role.BASELINE)
    assert invoke("status").code == 0


def test_status_of_an_empty_database_is_no_verdict(invoke: Invoke, database_url: str) -> None:
    result = invoke("status")
    assert result.code == 3
    assert "nothing is watched yet" in result.out


def test_history_as_json_csv_and_table(invoke: Invoke, database_url: str) -> None:
    store(database_url, {"a": Verdict.HEALTHY})
    span = ("--target", "a", "--start", "-2m", "--end", "now", "--step", "60s")
    rows = json.loads(invoke("history", *span, "--json").out)["rows"]
    assert [row["at"] for row in rows] == ["2027-01-15T08:00:00.000Z"]
    assert rows[0]["acceptance_rate"] == 0.5
    assert rows[0]["acceptance_length"] == 2.5
    assert rows[0]["speedup"] is None
    table = list(csv.DictReader(io.StringIO(invoke("history", *span, "--csv").out)))
    assert list(table[0]) == [
        "at",
        "verdict",
        "drafts",
        "draft_tokens",
        "accepted_tokens",
        "acceptance_rate",
        "acceptance_length",
        "speedup",
        "running",
        "tpot",
    ]
    assert (table[0]["verdict"], table[0]["speedup"]) == ("healthy", "")
    shown = invoke("history", *span)
    assert shown.code == 0
    assert "2027-01-15 08:00:00Z HEALTHY" in shown.out


def test_history_without_rows_is_exit_code_3(invoke: Invoke, database_url: str) -> None:
    store(database_url, {"a": Verdict.HEALTHY})
    span = ("--start", "2026-01-01T00:00:00Z", "--end", "2026-01-01T01:00:00Z")
    result = invoke("history", "--target", "a", *span)
    assert (result.code, result.out) == (3, "nothing is known of this time\n")


def test_history_of_an_unknown_target_is_one_line(invoke: Invoke, database_url: str) -> None:
    store(database_url, {"gpu1": Verdict.HEALTHY})
    result = invoke("history", "--target", "gpu2")
    assert result.code == 2
    assert result.err == ("monitor: there is no target 'gpu2' in the database; near are gpu1\n")


def test_a_database_without_the_schema_is_one_line(
    empty_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store(empty_url).dispose()
    assert run(["status", "--database", empty_url]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("run `monitor db upgrade`")
