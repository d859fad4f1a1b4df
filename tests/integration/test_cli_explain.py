"""``monitor explain`` and ``monitor reference`` on what a monitor has stored."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import typer
from explain_stage import PLAIN, Watched
from sqlalchemy import Engine, select
from traffic import Server
from typer.testing import CliRunner

from monitor.cli import explain as explain_command
from monitor.cli import reference as reference_command
from monitor.cli.runner import run
from monitor.clock import FakeClock
from monitor.health.baseline import Baseline
from monitor.model import Verdict
from monitor.store.connect import reading
from monitor.store.repository import Repository
from monitor.store.retention import prune
from monitor.store.rollup import RAW, roll_up
from monitor.store.tables import events

HOSTILE = "evil\x1b[31m[red]m[/red]\u202e\n[link=x]"


class Stage:
    """A watched target in a database, and the command line beside it."""

    def __init__(
        self,
        repository: Repository,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.repository = repository
        self.now = 0.0
        self._capsys = capsys
        for module in (explain_command, reference_command):
            monkeypatch.setattr(module, "SystemClock", lambda: FakeClock(self.now))

    def watch(
        self, server: Server | None = None, baseline: Baseline | None = None, **rest: Any
    ) -> Watched:
        self.watched = Watched(self.repository, server or Server(), baseline, **rest)
        return self.watched

    def run(self, *arguments: str, later: float = 5.0) -> tuple[int, str, str]:
        self.now = self.watched.server.now + later
        code = run(arguments)
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err

    def explain(self, *arguments: str, later: float = 5.0) -> tuple[int, str]:
        code, out, err = self.run("explain", "--target", "gpu1", *arguments, later=later)
        assert err == ""
        return code, out


@pytest.fixture
def stage(
    repository: Repository,
    database_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Stage:
    monkeypatch.setenv("MONITOR_DATABASE", database_url)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    return Stage(repository, capsys, monkeypatch)


def collapse(stage: Stage, **rest: Any) -> None:
    watched = stage.watch(**rest)
    watched.watch(30)
    watched.server.q = 0.25
    watched.watch(10)


def test_a_collapse_in_words(stage: Stage) -> None:
    collapse(stage)
    code, out = stage.explain()
    assert code == 1
    lines = out.splitlines()
    assert lines[0].startswith("DEGRADED  gpu1  for ")
    assert max(map(len, lines)) <= 80
    for part in (
        "accepted, and what it is judged against",
        "┊",
        "28,800 draft tokens",
        "design effect",
        "assumed, until it is learnt",
        "not learnt yet: 0 of 60 requests",
        "acceptance rate  step at 2026-09-21 14:43:05Z ± 60 s",
        "▶ acceptance below the",
        "degraded → unproven if the upper limit",
    ):
        assert part in out, part
    assert "speedup\n" not in out


def test_a_terminal_without_signs_gets_plain_ones(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    collapse(stage, baseline=PLAIN)
    code, out = stage.explain()
    assert code in (0, 1)
    assert out.isascii()
    assert "\\u" not in out
    assert "> " in out


def test_json_is_the_document(stage: Stage) -> None:
    collapse(stage)
    code, out = stage.explain("--json")
    document = json.loads(out)
    assert code == 1
    assert document["schema"] == "monitor.explain/1"
    assert document["verdict"]["verdict"] == "degraded"
    assert document["verdict"]["since"] == "2026-09-21T14:44:05.000Z"
    assert document["judged_again"]["agrees"] is True
    assert document["ladder"][-1]["rule"] == "below_threshold"


def test_with_a_baseline_the_speedup_is_drawn_and_worked_out(stage: Stage) -> None:
    watched = stage.watch(baseline=PLAIN)
    watched.watch(30)
    watched.server.step = 0.060
    watched.watch(20)
    code, out = stage.explain()
    assert code == 1
    assert "\nspeedup\n" in out
    assert "s that plain needs / 240.0 s of decoding = 0.6" in out
    assert "harmful → healthy if the lower limit of the speedup rose above 1.05" in out
    code, out = stage.explain("--at", "-25m")
    assert code == 0
    assert out.startswith("HEALTHY  gpu1")


def test_too_little_tells_how_much_is_missing(stage: Stage) -> None:
    stage.watch(Server(running=1.0, request_drafts=600.0)).watch(0.5)
    code, out = stage.explain()
    assert code == 3
    assert "▶ too little to judge?" in out
    assert "more requests like those seen" in " ".join(out.split())


def test_idle_and_down(stage: Stage) -> None:
    watched = stage.watch()
    watched.watch(20)
    watched.server.running = 0.0
    watched.watch(20)
    code, out = stage.explain()
    assert (code, out[:4]) == (3, "IDLE")
    assert "idle → another verdict as soon as tokens flow" in out
    watched.miss(5)
    code, out = stage.explain()
    assert (code, out[:4]) == (3, "DOWN")
    assert "▶ is there no page?" in out
    assert "how the figures follow" not in out
    code, out = stage.explain("--at", "-6m")
    assert (code, out[:4]) == (3, "IDLE")


def test_names_of_others_are_made_harmless(stage: Stage) -> None:
    server = Server(version=HOSTILE)
    collapse(stage, server=server, baseline=replace(PLAIN, name=HOSTILE))
    for arguments in ((), ("--json",)):
        _, out = stage.explain(*arguments)
        assert "\x1b" not in out
        assert "\u202e" not in out
    _, out, _ = stage.run("reference", "show", "--target", "gpu1")
    assert "\x1b" not in out
    assert "[red]m[/red]" in out


def test_good_news_that_are_old_are_no_news(stage: Stage) -> None:
    stage.watch().watch(20)
    code, out, err = stage.run("explain", "--target", "gpu1", later=86_400.0)
    assert code == 3
    assert out.startswith("UNPROVEN  gpu1  for 1d")
    assert err.startswith("monitor: no look at gpu1 within the last 15m of that time")


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (("--target", "gpu2"), 2, "there is no target 'gpu2' in the database; near are gpu1"),
        (("--target", "gpu1", "--at", "noon"), 2, "--at is not a time"),
        (("--target", "gpu1", "--at", "9999999999"), 2, "--at must not lie in the future"),
        (("--target", "gpu1", "--span", "never"), 2, "--span is not a duration"),
        (("--target", "gpu1", "--span", "0s"), 2, "--span must lie between"),
        (("--target", "gpu1", "--at", "-9d"), 3, "nothing is known of gpu1 at that time"),
    ],
)
def test_mistakes_are_one_line(
    stage: Stage, arguments: tuple[str, ...], code: int, line: str
) -> None:
    stage.watch().watch(5)
    found, out, err = stage.run("explain", *arguments)
    assert (found, out) == (code, "")
    (said,) = err.splitlines()
    assert said.startswith(f"monitor: {line}")


def test_a_process_of_its_own(stage: Stage, database_url: str) -> None:
    collapse(stage)
    at = str(stage.watched.server.now)
    found = subprocess.run(
        [sys.executable, "-m", "monitor", "explain", "--target", "gpu1", "--at", at, "--json"],
        env={**os.environ, "MONITOR_DATABASE": database_url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (found.returncode, found.stderr) == (1, "")
    assert json.loads(found.stdout)["verdict"]["verdict"] == "degraded"


@pytest.mark.parametrize("app", [explain_command.app, reference_command.app])
def test_the_commands_tell_what_they_do(app: typer.Typer) -> None:
    found = CliRunner().invoke(app, ["--help"])
    assert found.exit_code == 0
    assert "Show" in found.output


# -- the reference -------------------------------------------------------------------------


def reference(stage: Stage) -> dict[str, Any]:
    code, out, err = stage.run("reference", "show", "--target", "gpu1", "--json")
    document: dict[str, Any] = json.loads(out)
    assert err == ""
    assert document["schema"] == "monitor.reference/1"
    assert code == (0 if document["reference"] and document["reference"]["normal"] else 3)
    return document


def test_the_reference_by_hour(stage: Stage) -> None:
    stage.watch().watch(60 * 4)
    document = reference(stage)
    learnt = document["reference"]
    assert document["server"]["engine"] == "vllm"
    assert learnt["normal"]["rate"] == pytest.approx(0.65, abs=0.01)
    assert [hour["hour"] for hour in learnt["hours"]] == list(range(24))
    assert sum(hour["requests"] for hour in learnt["hours"]) == pytest.approx(learnt["requests"])
    code, out, _ = stage.run("reference", "show", "--target", "gpu1")
    assert code == 0
    assert "  15  ██████████████████████████░" in out
    assert "server" in out
    assert "k = 3" in out


def test_nothing_is_learnt_yet(stage: Stage) -> None:
    watched = stage.watch()
    code, out, _ = stage.run("reference", "show", "--target", "gpu1")
    assert code == 3
    assert "nothing is learnt yet" in out
    watched.watch(20)
    assert reference(stage)["reference"]["normal"] is None
    _, out, _ = stage.run("reference", "show", "--target", "gpu1")
    assert "not learnt yet: 0 of 60 requests" in out


@pytest.mark.parametrize(
    ("arguments", "words", "pinned"),
    [
        (("pin", "--rate", "0.70"), "pin the reference at 70 %", 0.7),
        (("unpin",), "unpin the reference", None),
        (("reset",), "reset the reference", None),
    ],
)
def test_an_order_is_written_audited_and_shown_until_it_is_obeyed(
    stage: Stage, engine: Engine, arguments: tuple[str, ...], words: str, pinned: float | None
) -> None:
    watched = stage.watch()
    watched.watch(20)
    code, out, err = stage.run("reference", *arguments, "--target", "gpu1")
    assert (code, err) == (0, "")
    assert out.startswith(f"ordered: {words} of gpu1; a running daemon")
    with reading(engine) as connection:
        query = select(events.c.text).where(events.c.kind == "reference")
        (event,) = connection.scalars(query)
    assert event.startswith(f"{words} of gpu1, by ")
    assert "@" in event
    (order,) = stage.repository.pending_orders()
    assert [o["id"] for o in reference(stage)["orders"]] == [order.id]
    _, shown, _ = stage.run("reference", "show", "--target", "gpu1")
    assert "waits for the daemon" in " ".join(shown.split())
    watched.obey(order)
    document = reference(stage)
    assert document["orders"] == []
    assert document["reference"]["pinned"] == pinned


def test_a_pin_judges_from_then_on(stage: Stage) -> None:
    watched = stage.watch(Server(spread=0.005))
    watched.watch(20)
    stage.run("reference", "pin", "--target", "gpu1", "--rate", "0.9")
    (order,) = stage.repository.pending_orders()
    watched.obey(order)
    assert watched.watch(20).verdict is Verdict.DEGRADED
    _, out = stage.explain()
    assert "90.0 %, pinned" in out
    assert "▶ acceptance below its normal?" in out


@pytest.mark.parametrize("rate", ["0", "-0.1", "1.01", "70", "nan"])
def test_a_rate_that_is_none_is_refused(stage: Stage, rate: str) -> None:
    stage.watch()
    code, out, err = stage.run("reference", "pin", "--target", "gpu1", "--rate", rate)
    assert (code, out) == (2, "")
    assert err.startswith("monitor: --rate must lie above 0 and at most at 1")
    assert stage.repository.pending_orders() == []


def test_an_order_as_json(stage: Stage) -> None:
    stage.watch().watch(1)
    code, out, _ = stage.run("reference", "reset", "--target", "gpu1", "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["schema"], document["kind"], document["rate"]) == (
        "monitor.order/1",
        "reset",
        None,
    )


def test_a_moment_of_which_only_sums_are_kept(stage: Stage, engine: Engine) -> None:
    collapse(stage, baseline=PLAIN)
    stage.watched.watch(30)
    moment = str(stage.watched.said[150].at)
    exact = json.loads(stage.explain("--at", moment, "--json")[1])
    while roll_up(engine, stage.watched.server.now + 120.0):
        pass
    prune(engine, RAW, stage.watched.server.now, stage.watched.server.now)
    code, out = stage.explain("--at", moment)
    assert code == 1
    assert "only sums of 60 s are kept" in out.replace("\n", " ")
    summed = json.loads(stage.explain("--at", moment, "--json")[1])
    assert summed["verdict"]["verdict"] == exact["verdict"]["verdict"]
    assert summed["judged_again"]["verdict"] == exact["judged_again"]["verdict"]
    assert summed["judged_again"]["agrees"]
