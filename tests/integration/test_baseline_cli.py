"""The commands around baselines, and what is compared with them, on both databases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from alert_rows import notification, record
from sqlalchemy import select

from monitor.alerting.routes import NOWHERE
from monitor.cli import compare as compare_command
from monitor.cli import pays as pays_command
from monitor.cli.runner import run
from monitor.clock import FakeClock
from monitor.model import Counts, Engine, Identity, Increment
from monitor.settings import TargetSettings
from monitor.store.connect import open_store
from monitor.store.repository import Repository
from monitor.store.rows import RoundRow
from monitor.store.tables import events

NOON = 1_800_000_000.0 - 1_800_000_000.0 % 86_400.0 + 43_200.0
CURVE = "running,tpot_ms,seconds\n1,10,60\n64,30,60\n"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is not JSON")

        assert self.code in (0, 1), self.err
        return json.loads(self.out, parse_constant=refuse)


Invoke = Callable[..., Result]


@pytest.fixture
def invoke(
    database_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Invoke:
    monkeypatch.setenv("MONITOR_DATABASE", database_url)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.chdir(tmp_path)
    for module in (compare_command, pays_command):
        monkeypatch.setattr(module, "SystemClock", lambda: FakeClock(NOON))
    (tmp_path / "plain.csv").write_text(CURVE)

    def invoke(*arguments: str) -> Result:
        code = run(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return invoke


def store(url: str, **targets: list[Counts]) -> None:
    """Targets of the service ``chat`` with one minute of each of these counts up to noon."""
    engine = open_store(url)
    repository = Repository(engine)
    settings = [TargetSettings(name, "chat", f"http://{name}") for name in targets]
    repository.register(settings, NOON - 86_400)
    identity = Identity(Engine.VLLM, model="kimi")
    for name, minutes in targets.items():
        for index, counts in enumerate(minutes):
            end = NOON - 60.0 * (len(minutes) - 1 - index)
            row = Increment("0", end - 60.0, end, counts, warmup=False)
            repository.write_round([RoundRow(name, end, [row], "{}", identity=identity)])
    engine.dispose()


def minute(rate: float, load: float = 4.0, gain: float = 1.5) -> Counts:
    plain = 0.010 + (load - 1.0) / 63.0 * 0.020
    seconds = 60.0 * load
    return Counts(
        seconds=60.0,
        requests=100.0,
        drafts=10_000.0,
        draft_tokens=30_000.0,
        accepted_tokens=30_000.0 * rate,
        position_drafts=10_000.0,
        positions=(15_000.0 * rate, 10_000.0 * rate, 5_000.0 * rate),
        decode_seconds=seconds,
        decode_tokens=seconds * gain / plain,
        decode_steps=10_000.0,
    )


def test_import_list_show_activate_delete(invoke: Invoke) -> None:
    assert invoke("baseline", "list").out.startswith("no baseline is stored yet")
    common = ("--service", "chat", "--name", "plain")
    first = invoke("baseline", "import", "plain.csv", *common)
    assert (first.code, first.err) == (0, "")
    assert first.out.splitlines() == [
        "stored as plain (id 1) of service chat: 2 loads from 1 to 64",
        "'monitor baseline activate 1' makes it the service's own",
    ]
    second = invoke("baseline", "import", "plain.csv", *common, "--activate", "--json").json
    assert second["schema"] == "monitor.baseline/1"
    assert (second["baseline"]["label"], second["baseline"]["active"]) == ("plain#2", True)
    listed = invoke("baseline", "list", "--json").json
    assert listed["schema"] == "monitor.baselines/1"
    assert [(b["label"], b["active"]) for b in listed["baselines"]] == [
        ("plain", False),
        ("plain#2", True),
    ]
    shown = invoke("baseline", "show", "plain#1").out
    assert "running requests" in shown
    assert "import, csv, by" in shown
    assert "plain.csv  sha256" in shown
    assert invoke("baseline", "activate", "1").out == (
        "plain is the baseline of chat from now on\n"
    )
    assert invoke("baseline", "delete", "plain#1").out == (
        "deleted plain of chat\nit was the active one: chat has none now\n"
    )
    assert "deleted" in invoke("baseline", "list", "--all").out
    assert [b["id"] for b in invoke("baseline", "list", "--json").json["baselines"]] == [2]
    assert invoke("baseline", "deactivate", "--service", "chat").code == 2
    invoke("baseline", "activate", "plain")
    assert invoke("baseline", "deactivate", "--service", "chat").out.startswith("chat has no")


def test_a_bad_file_stores_nothing(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    found = invoke("baseline", "import", "plain.csv", "bad.json", "--service", "chat")
    assert (found.code, found.out) == (2, "")
    assert found.err == ("monitor: bad.json: line 1: is not JSON; was the file cut short?\n")
    assert invoke("baseline", "list", "--json").json["baselines"] == []


def test_names_come_from_the_file_and_engine_and_model_from_options(
    invoke: Invoke, tmp_path: Path
) -> None:
    (tmp_path / "2026.csv").write_text(CURVE)
    options = ("--service", "chat", "--engine", "sglang", "--model", "kimi", "--json")
    stored = invoke("baseline", "import", "2026.csv", *options).json["baseline"]
    assert stored["label"] == "imported-2026"
    assert stored["fingerprint"]["engine"] == "sglang"
    assert stored["fingerprint"]["model"] == "kimi"


def test_two_curves_are_compared(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "slow.csv").write_text("running,tpot_ms,context\n1,12,900\n4,14,900\n")
    (tmp_path / "far.csv").write_text("running,tpot_ms\n100,50\n")
    for name in ("plain", "slow", "far"):
        invoke("baseline", "import", f"{name}.csv", "--service", "chat")
    found = invoke("baseline", "compare", "plain", "slow", "--json").json
    assert [load["running"] for load in found["loads"]] == [1, 4]
    assert found["loads"][0]["difference"] == 0.2
    assert "+20.0 %" in invoke("baseline", "compare", "plain", "slow").out
    apart = invoke("baseline", "compare", "plain", "far")
    assert apart.code == 3
    assert "the curves share no load" in apart.out


PAGE = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{model_name="m",engine="0"} 9000
vllm:spec_decode_num_draft_tokens_total{model_name="m",engine="0"} 27000
vllm:spec_decode_num_accepted_tokens_total{model_name="m",engine="0"} 18000
vllm:generation_tokens_total{model_name="m",engine="0"} 27000
"""


def test_check_takes_a_stored_baseline(invoke: Invoke, tmp_path: Path) -> None:
    invoke("baseline", "import", "plain.csv", "--service", "chat")
    (tmp_path / "page").write_text(PAGE)
    found = invoke("check", "--page", "page", "--baseline", "plain", "--json").json
    assert found["targets"][0]["baseline"]["name"] == "plain"
    missing = invoke("check", "--page", "page", "--baseline", "plian")
    assert missing.code == 2
    assert missing.err == (
        "monitor: baseline 'plian' is no file, and cannot be looked up: the database has no"
        " baseline 'plian'; there are plain\n"
    )


def test_two_targets_are_compared(invoke: Invoke, database_url: str) -> None:
    store(
        database_url,
        good=[minute(0.6)] * 6,
        alike=[minute(0.6)] * 6,
        worse=[minute(0.4, gain=0.8)] * 6,
    )
    invoke("baseline", "import", "plain.csv", "--service", "chat", "--activate")
    same = invoke("compare", "good", "alike", "--json").json
    assert same["schema"] == "monitor.compare/1"
    assert same["difference"]["equivalent"] is True
    assert same["first"]["requests"] == 600
    differs = invoke("compare", "good", "worse", "--json").json
    assert differs["difference"]["different"] is True
    assert differs["difference"]["acceptance_rate"]["value"] == pytest.approx(-0.2)
    assert differs["first"]["speedup"]["value"] == pytest.approx(1.5)
    assert differs["second"]["speedup"]["value"] == pytest.approx(0.8)
    assert differs["first"]["baseline"] == "plain"
    assert len(differs["positions"]) == 3
    shown = invoke("compare", "good", "worse")
    assert shown.out.startswith("worse accepts less than good: 40.0 % against 60.0 %")
    assert "position 2" in shown.out


def test_one_target_is_compared_at_two_times(invoke: Invoke, database_url: str) -> None:
    store(database_url, a=[minute(0.6)] * 5 + [minute(0.5)] * 5)
    spans = ("--before", "-10m..-5m", "--after", "-5m..now")
    found = invoke("compare", "--target", "a", *spans, "--json").json
    assert found["first"]["name"] == "before"
    assert found["first"]["requests"] == found["second"]["requests"] == 500
    assert found["difference"]["acceptance_rate"]["value"] == pytest.approx(-0.1)
    nothing = invoke("compare", "--target", "a", "--before", "-9d..-8d", "--after", "-5m..now")
    assert nothing.code == 3
    assert nothing.err == "monitor: nothing is stored of one of the two sides in this time\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "give two targets, or --target with --before and --after"),
        (("a",), "give the names of two different targets"),
        (("a", "a"), "give the names of two different targets"),
        (("a", "b", "--target", "c"), "give two targets, or --target"),
        (("--target", "a"), "--target needs --before START..END and --after START..END"),
        (("--target", "a", "--before", "x", "--after", "-1h..now"), "--before must be START..END"),
        (("--target", "a", "--before", "x..y", "--after", "-1h..now"), "--before is not a time"),
        (("--target", "a", "--before", "now..-1h", "--after", "-1h..now"), "--before: the start"),
        (("--pages-a", "x"), "--pages-a and --pages-b go together"),
        (("a", "b"), "there is no target 'a' in the database"),
    ],
)
def test_mistakes_of_compare_are_one_line(
    invoke: Invoke, arguments: tuple[str, ...], line: str
) -> None:
    found = invoke("compare", *arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"monitor: {line}")
    assert len(found.err.splitlines()) == 1


def test_where_speculation_pays(invoke: Invoke, database_url: str) -> None:
    ladder = [(1, 1.6), (4, 1.4), (16, 1.2), (32, 0.8)]
    minutes = [minute(0.5, load, gain) for load, gain in ladder for _ in range(6)]
    store(database_url, a=minutes)
    unknown = invoke("pays", "--target", "a")
    assert unknown.code == 3
    assert unknown.out.startswith("nothing was compared with a baseline in this time")
    invoke("baseline", "import", "plain.csv", "--service", "chat", "--activate")
    found = invoke("pays", "--target", "a", "--json").json
    assert found["schema"] == "monitor.pays/1"
    assert found["baseline"] == "plain"
    assert found["crossover"] == pytest.approx(24.0)
    assert found["dead_band"] == {"half_width": 0.05, "from": 22.0, "to": 26.0}
    assert [load["answer"] for load in found["loads"]] == ["pays", "pays", "pays", "costs"]
    assert {hour["hour"] for hour in found["hours"]} == {11, 12}
    shown = invoke("pays", "--target", "a")
    assert shown.out.startswith("speculation pays up to about 24 running requests and costs")
    assert "between 22 and 26 running requests it makes less than 5 % of difference" in shown.out
    assert "hour UTC" in shown.out


def test_a_baseline_of_another_server_is_not_used(invoke: Invoke, database_url: str) -> None:
    store(database_url, a=[minute(0.5)] * 6)
    options = ("--service", "chat", "--engine", "sglang", "--activate")
    invoke("baseline", "import", "plain.csv", *options)
    found = invoke("pays", "--target", "a")
    assert found.code == 3
    assert "baseline mismatch" in found.out
    named = invoke("pays", "--target", "a", "--baseline", "nosuch")
    assert "service 'chat' has no baseline 'nosuch'; there are plain" in named.err


def test_forced_baselines_are_activated_only_by_force(invoke: Invoke, database_url: str) -> None:
    invoke("baseline", "import", "plain.csv", "--service", "chat")
    engine = open_store(database_url)
    baselines = Repository(engine).baselines
    good = baselines.find("chat", "plain")
    from monitor.store.baseline_rows import NewBaseline  # noqa: PLC0415

    new = NewBaseline("bad", good.points, good.identity, good.provenance, "it speculates")
    baselines.save("chat", new, NOON)
    engine.dispose()
    refused = invoke("baseline", "activate", "bad")
    assert refused.code == 2
    assert "was stored by force (it speculates); --force activates it" in refused.err
    assert invoke("baseline", "activate", "bad", "--force").code == 0
    assert "active by force" in invoke("baseline", "list").out
    assert "stored by force: it speculates" in invoke("baseline", "show", "bad").out


def test_the_program_as_a_process(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text(CURVE)

    def monitor(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "monitor", *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            cwd=tmp_path,
            env={**os.environ, "LC_ALL": "C", "PYTHONPATH": os.getcwd()},
            check=False,
        )

    stored = monitor("baseline", "import", "plain.csv", "--service", "chat", "--activate")
    assert (stored.returncode, stored.stderr) == (0, "")
    shown = monitor("baseline", "show", "plain")
    assert shown.returncode == 0
    assert shown.stdout.isascii()
    assert "*" in shown.stdout
    assert monitor("baseline", "show", "nosuch").returncode == 2


# -- while an alert is open --------------------------------------------------------------------


def raise_alert(url: str, rule: str, service: str = "chat") -> None:
    engine = open_store(url)
    told = notification("inc1", rule=rule, service=service, started_at=NOON)
    record(Repository(engine).alerts, [], [told], NOWHERE, NOON)
    engine.dispose()


def test_a_baseline_is_not_activated_while_an_alert_is_open(
    invoke: Invoke, database_url: str
) -> None:
    invoke("baseline", "import", "plain.csv", "--service", "chat")
    raise_alert(database_url, "harmful")
    refused = invoke("baseline", "activate", "plain")
    assert refused.code == 2
    assert "an alert is open on service 'chat': harmful of " in refused.err
    assert "since 12:00 UTC" in refused.err
    assert "--force activates it all the same" in refused.err
    assert invoke("baseline", "list").out.count("active") <= 1
    assert invoke("baseline", "activate", "plain", "--force").code == 0
    engine = open_store(database_url)
    with engine.connect() as connection:
        query = select(events.c.text).where(events.c.kind == "baseline")
        (text,) = connection.scalars(query)
    engine.dispose()
    assert text.startswith("plain was made the baseline of chat by ")
    assert "harmful of " in text


def test_a_baseline_is_not_imported_as_the_active_one_while_an_alert_is_open(
    invoke: Invoke, database_url: str
) -> None:
    invoke("db", "upgrade")
    raise_alert(database_url, "dropped")
    refused = invoke("baseline", "import", "plain.csv", "--service", "chat", "--activate")
    assert refused.code == 2
    assert "without --activate" in refused.err
    assert "plain" not in invoke("baseline", "list").out
    assert invoke("baseline", "import", "plain.csv", "--service", "chat").code == 0


def test_recording_does_not_begin_while_an_alert_is_open(
    invoke: Invoke, database_url: str
) -> None:
    invoke("db", "upgrade")
    raise_alert(database_url, "harmful")
    refused = invoke("baseline", "record", "http://127.0.0.1:9", "--service", "chat")
    assert refused.code == 2
    assert "an alert is open on service 'chat'" in refused.err
    assert "--force stores it all the same" in refused.err


@pytest.mark.parametrize(
    ("rule", "service"), [("baseline_missing", "chat"), ("harmful", "another")]
)
def test_alerts_about_something_else_do_not_stand_in_the_way(
    invoke: Invoke, database_url: str, rule: str, service: str
) -> None:
    invoke("db", "upgrade")
    raise_alert(database_url, rule, service)
    done = invoke("baseline", "import", "plain.csv", "--service", "chat", "--activate")
    assert done.code == 0, done.err
