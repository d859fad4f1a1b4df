"""Dashboards, data sources and rules on a strict stand-in for Grafana: brought and removed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_grafana import EDITOR, TOKEN, VIEWER, State, fake_grafana

from monitor.cli.runner import run
from monitor.grafana.wanted import FOLDER, PROMETHEUS, shipped_dashboards

BOARDS = sorted(shipped_dashboards())
PROMETHEUS_URL = "http://prometheus:9090"


@pytest.fixture(params=["11.6.0", "12.4.1", "13.3.0"])
def grafana(request: pytest.FixtureRequest) -> Iterator[State]:
    with fake_grafana(request.param) as state:
        yield state


@pytest.fixture
def newest() -> Iterator[State]:
    with fake_grafana() as state:
        yield state


class Cli:
    """Runs 'monitor grafana' against a Grafana."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys

    def __call__(
        self, command: str, state: State, *more: str, token: str = TOKEN
    ) -> tuple[int, str, list[str]]:
        file = self._folder / "token"
        file.write_text(token + "\n")
        options = ["--url", state.url, "--token-file", str(file), *more]
        code = run(["grafana", command, *options])
        said = self._capsys.readouterr()
        assert "Traceback" not in said.err
        assert token not in said.out + said.err
        return code, said.out, said.err.splitlines()

    def apply(self, state: State, *more: str, token: str = TOKEN) -> tuple[int, str, list[str]]:
        return self("apply", state, "--prometheus", PROMETHEUS_URL, *more, token=token)


@pytest.fixture
def cli(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path, capsys)


def document(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


def acts(text: str) -> list[str]:
    return [step["action"] for step in document(text)["steps"]]


def test_everything_is_brought_once_and_a_second_run_changes_nothing(
    grafana: State, cli: Cli
) -> None:
    code, out, err = cli.apply(grafana)
    assert (code, err) == (0, [])
    assert "create    folder specdec" in out
    assert grafana.folders[FOLDER]["title"] == "Speculative decoding"
    assert grafana.datasources[PROMETHEUS]["url"] == PROMETHEUS_URL
    assert sorted(grafana.dashboards) == BOARDS
    (group,) = grafana.groups.values()
    assert len(group["rules"]) == 21
    assert {rule["provenance"] for rule in group["rules"]} == {"api"}

    grafana.requests.clear()
    code, out, err = cli.apply(grafana, "--json")
    assert (code, err, set(acts(out))) == (0, [], {"unchanged"})
    assert grafana.writes == []


def test_a_dashboard_begins_with_the_data_source_that_was_made(newest: State, cli: Cli) -> None:
    assert cli.apply(newest)[0] == 0
    board = newest.dashboards["specdec-paying"][-1]["dashboard"]
    (variable,) = (v for v in board["templating"]["list"] if v["name"] == "datasource")
    assert variable["current"]["value"] == PROMETHEUS
    assert newest.dashboards["specdec-paying"][-1]["folder"] == FOLDER


def test_a_dry_run_shows_the_difference_and_changes_nothing(newest: State, cli: Cli) -> None:
    code, out, _err = cli.apply(newest, "--dry-run")
    assert (code, newest.writes) == (0, [])
    assert "nothing was" in out
    assert cli.apply(newest)[0] == 0
    newest.requests.clear()
    code, out, _ = cli("apply", newest, "--prometheus", "http://other:9090", "--dry-run")
    assert code == 0
    assert "url: 'http://prometheus:9090' → 'http://other:9090'" in out
    assert newest.writes == []


def test_a_dashboard_that_somebody_has_edited_is_left_alone_without_force(
    grafana: State, cli: Cli
) -> None:
    cli.apply(grafana)
    grafana.edit("specdec-paying", title="Mine now")
    code, out, err = cli.apply(grafana)
    assert code == 1
    assert "title: 'Mine now' → 'Is speculation paying?'" in out
    assert err == [
        "monitor: dashboard specdec-paying: somebody has edited it since, or it was not made by "
        "this program; --force overwrites it"
    ]
    assert grafana.dashboards["specdec-paying"][-1]["dashboard"]["title"] == "Mine now"
    assert cli.apply(grafana, "--force")[0] == 0
    latest = grafana.dashboards["specdec-paying"][-1]
    assert (latest["dashboard"]["title"], latest["version"]) == ("Is speculation paying?", 3)
    assert cli.apply(grafana)[0] == 0


def test_a_dashboard_of_somebody_else_with_our_uid_is_not_touched(newest: State, cli: Cli) -> None:
    newest.folders["theirs"] = {"uid": "theirs", "title": "Theirs"}
    newest.dashboards["specdec-paying"] = [
        {
            "dashboard": {"uid": "specdec-paying", "title": "Payroll", "version": 4},
            "version": 4,
            "message": "",
            "folder": "theirs",
        }
    ]
    code, _, err = cli.apply(newest)
    assert code == 1
    assert len(err) == 1
    assert newest.dashboards["specdec-paying"][-1]["dashboard"]["title"] == "Payroll"
    # With force it becomes ours, and stays where its owner had it.
    assert cli.apply(newest, "--force")[0] == 0
    assert newest.dashboards["specdec-paying"][-1]["folder"] == "theirs"


def test_what_comes_from_files_is_not_fought_over(newest: State, cli: Cli) -> None:
    cli.apply(newest)
    newest.edit("specdec-paying", title="From a file")
    newest.provisioned.add("specdec-paying")
    newest.datasources[PROMETHEUS]["readOnly"] = True
    for rule in newest.groups[FOLDER, "speculation"]["rules"]:
        rule["provenance"], rule["title"] = "file", rule["title"] + " (file)"
    code, _, err = cli("apply", newest, "--prometheus", "http://new:9090", "--force")
    assert code == 1
    assert err == [
        "monitor: data source specdec-prometheus: it comes from a file: change that",
        "monitor: dashboard specdec-paying: it comes from a file: change that",
        "monitor: alert rules speculation: they come from a file: change that",
    ]


def test_a_mismatch_of_provenance_says_what_to_do(newest: State, cli: Cli) -> None:
    said = "cannot change provenance from 'file' to 'api'"
    newest.fail("PUT", "rule-groups", f'500 {{"message": "{said}"}}')
    code, _, err = cli.apply(newest)
    assert code == 1
    assert err == [
        f"monitor: alert rules speculation: kept by another way of provisioning ({said}): take it "
        "away there first"
    ]
    assert cli.apply(newest)[0] == 0


def test_somebody_saving_at_the_same_moment_is_not_overwritten(newest: State, cli: Cli) -> None:
    cli.apply(newest)
    newest.edit("specdec-paying", title="Mine now")
    # Between the look and the writing, another version appears.
    newest.fail("POST", "/api/dashboards/db", '412 {"message": "changed by someone else"}')
    code, _, err = cli.apply(newest, "--force")
    assert code == 1
    assert err == ["monitor: dashboard specdec-paying: HTTP 412 (changed by someone else)"]
    assert cli.apply(newest, "--force")[0] == 0


def test_a_folder_that_was_renamed_keeps_its_name(newest: State, cli: Cli) -> None:
    cli.apply(newest)
    newest.folders[FOLDER]["title"] = "Drafting (team x)"
    code, out, _ = cli.apply(newest)
    assert code == 0
    assert "it is called 'Drafting (team x)' here, which stays" in out
    assert newest.folders[FOLDER]["title"] == "Drafting (team x)"


def test_a_rule_that_was_paused_stays_paused(newest: State, cli: Cli) -> None:
    cli.apply(newest)
    group = newest.groups[FOLDER, "speculation"]
    group["rules"][2]["isPaused"] = True
    assert set(acts(cli.apply(newest, "--json")[1])) == {"unchanged"}
    group["rules"][3]["for"] = "7m"
    assert "update" in acts(cli.apply(newest, "--json")[1])
    rules = newest.groups[FOLDER, "speculation"]["rules"]
    assert [rule["isPaused"] for rule in rules][:4] == [False, False, True, False]
    assert rules[3]["for"] == "2m"


def test_rules_of_others_in_our_group_are_not_lost_unasked(newest: State, cli: Cli) -> None:
    cli.apply(newest)
    rules = newest.groups[FOLDER, "speculation"]["rules"]
    rules.append({**rules[0], "uid": "disk-full", "title": "Disk full"})
    code, _, err = cli.apply(newest)
    assert code == 1
    assert "it holds the rule 'Disk full' of others; --force drops it" in err[0]
    assert len(newest.groups[FOLDER, "speculation"]["rules"]) == 22
    assert cli.apply(newest, "--force")[0] == 0
    assert len(newest.groups[FOLDER, "speculation"]["rules"]) == 21


def test_settings_of_a_data_source_that_are_not_ours_stay(newest: State, cli: Cli) -> None:
    cli.apply(newest)
    kept = newest.datasources[PROMETHEUS]
    kept["isDefault"] = True
    kept["jsonData"]["manageAlerts"] = False
    assert cli("apply", newest, "--prometheus", "http://new:9090")[0] == 0
    after = newest.datasources[PROMETHEUS]
    assert (after["url"], after["isDefault"]) == ("http://new:9090", True)
    assert after["jsonData"]["manageAlerts"] is False


def test_the_database_of_the_daemon_becomes_a_data_source(
    newest: State, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASS", "pa$$word")
    more = ["--postgresql", "postgresql://reader@db:5433/monitor?sslmode=disable"]
    more += ["--postgresql-password-env", "PGPASS"]
    code, out, err = cli.apply(newest, *more)
    assert (code, err) == (0, [])
    assert "pa$$word" not in out
    found = newest.datasources["specdec-postgresql"]
    assert (found["url"], found["user"]) == ("db:5433", "reader")
    assert found["jsonData"]["sslmode"] == "disable"
    assert newest.secrets["specdec-postgresql"] == {"password": "pa$$word"}
    assert set(acts(cli.apply(newest, *more, "--json")[1])) == {"unchanged"}
    # A password cannot be read back; force sets it again.
    newest.secrets["specdec-postgresql"] = {"password": "old"}
    assert cli.apply(newest, *more, "--force")[0] == 0
    assert newest.secrets["specdec-postgresql"] == {"password": "pa$$word"}


def test_all_is_taken_away_again_and_nothing_else(grafana: State, cli: Cli) -> None:
    assert cli("remove", grafana)[0] == 0
    cli.apply(grafana)
    grafana.dashboards["theirs"] = [
        {"dashboard": {"uid": "theirs", "title": "T"}, "version": 1, "message": "", "folder": ""}
    ]
    code, out, err = cli("remove", grafana, "--dry-run")
    assert (code, err) == (0, [])
    assert "remove    alert rules speculation" in out
    code, _, err = cli("remove", grafana)
    assert (code, err) == (0, [])
    assert (grafana.folders, grafana.datasources, grafana.groups) == ({}, {}, {})
    assert list(grafana.dashboards) == ["theirs"]


def test_a_folder_that_holds_something_of_others_stays(newest: State, cli: Cli) -> None:
    cli.apply(newest)
    newest.edit("specdec-service", title="Edited")
    newest.dashboards["theirs"] = [
        {
            "dashboard": {"uid": "theirs", "title": "T"},
            "version": 1,
            "message": "",
            "folder": FOLDER,
        }
    ]
    code, _, err = cli("remove", newest)
    assert code == 1
    assert err == [
        "monitor: dashboard specdec-service: somebody has edited it since, or it was not made by "
        "this program; --force removes it",
        "monitor: folder specdec: it holds 'T' of others",
    ]
    assert sorted(newest.dashboards) == ["specdec-service", "theirs"]


def test_verify_tries_everything_and_leaves_nothing_behind(grafana: State, cli: Cli) -> None:
    cli.apply(grafana)
    before = json.dumps([grafana.dashboards, grafana.folders, list(grafana.groups)])
    code, out, err = cli("verify", grafana, "--prometheus", PROMETHEUS_URL)
    assert (code, err) == (0, [])
    assert f"ok      health: Grafana {grafana.release[:4]}" in out
    assert out.count("ok      dashboard") == len(BOARDS)
    assert json.dumps([grafana.dashboards, grafana.folders, list(grafana.groups)]) == before
    assert grafana.annotations == {}


def test_verify_of_an_editor_and_of_a_viewer(newest: State, cli: Cli) -> None:
    assert cli("verify", newest, "--datasource", "prom", token=EDITOR)[0] == 0
    code, out, err = cli("verify", newest, "--datasource", "prom", "--json", token=VIEWER)
    assert (code, err) == (1, [])
    failed = [check for check in document(out)["checks"] if not check["passed"]]
    assert [check["name"] for check in failed] == ["folder", "annotation"]
    assert "the token may not do this" in failed[0]["said"]


def test_under_a_path_and_without_rules(cli: Cli) -> None:
    with fake_grafana(prefix="/grafana") as state:
        assert cli("apply", state, "--no-rules")[0] == 0
        assert sorted(state.dashboards) == BOARDS
        assert (state.groups, state.datasources) == ({}, {})


def test_an_address_that_is_no_grafana_is_told_before_anything_is_written(
    newest: State, cli: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    options = ["--no-rules", "--token-file", str(tmp_path / "token")]
    assert run(["grafana", "apply", "--url", f"{newest.url}/api", *options]) == 2
    said = capsys.readouterr().err
    assert said == f"monitor: health: no Grafana answers at {newest.url}/api\n"
    assert newest.writes == []


def test_the_configuration_names_the_grafana(
    newest: State, cli: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "grafana-token").write_text(TOKEN)
    (tmp_path / "monitor.yaml").write_text(
        f"grafana: {{url: '{newest.url}', token_file: grafana-token}}\n"
        "services: [{name: s, speculative: {targets: ['http://a:1']}}]\n"
    )
    assert run(["config", "check"]) == 0
    assert run(["grafana", "apply", "--no-rules"]) == 0
    assert sorted(newest.dashboards) == BOARDS
    capsys.readouterr()
    # The configured token is not sent to another Grafana.
    assert run(["grafana", "apply", "--no-rules", "--url", "http://127.0.0.1:1"]) == 2
    assert "give --token-file or --token-env" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--prometheus", "http://u:p@x"], "--prometheus"),
        (["--prometheus", "http://x", "--datasource", "y"], "give one of --prometheus and --data"),
        (["--datasource", "a/b"], "--datasource must be a uid"),
        ([], "the alert rules need a Prometheus"),
        (["--no-rules", "--postgresql", "mysql://u@h/d"], "--postgresql must begin with"),
        (["--no-rules", "--postgresql", "postgresql://u:secret@h/d"], "--postgresql holds a pass"),
        (["--no-rules", "--postgresql", "postgresql://h/d"], "--postgresql must name user, host"),
        (["--no-rules", "--postgresql", "nonsense"], "--postgresql must look like"),
        (
            ["--no-rules", "--postgresql", "postgresql://u@h/d?sslmode=prefer"],
            "--postgresql has an sslmode that Grafana does not know",
        ),
    ],
)
def test_mistakes_of_the_user_are_one_line(
    options: Sequence[str], said: str, newest: State, cli: Cli
) -> None:
    code, _, err = cli("apply", newest, *options)
    assert code == 2
    assert len(err) == 1
    assert err[0].startswith(f"monitor: {said}")
    assert "secret" not in err[0]
    assert newest.requests == []
