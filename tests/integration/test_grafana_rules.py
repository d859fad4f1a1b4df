"""The rules that Grafana evaluates: the answers of the daemon's rules, and the shape of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.alerting import RuleGroup
from promtool import name_of, needs_promtool, run_tests
from rule_facts import about, anything, metrics, own_rules

from monitor.alerting import rules as machine
from monitor.alerting.ruleset import load_rules
from monitor.cli.runner import run
from monitor.grafana.managed import managed_rules, rule_uid
from monitor.grafana.wanted import rule_group, shipped_dashboards

RULES = managed_rules(load_rules([]).rules, "prom")


@needs_promtool
def test_a_query_gives_1_0_or_nothing_as_the_daemon_answers(tmp_path: Path) -> None:
    fleet = anything(250)
    rules = own_rules(tmp_path)
    made = {rule["uid"]: rule for rule in managed_rules(rules, "prom")}
    questions = []
    for rule in rules:
        samples = []
        for facts in fleet:
            matches = rule.only.matches(facts)
            # What another rule is about keeps this one from firing, and the other from ending it.
            entered = matches and machine.enters(rule, facts)
            if entered or machine.leaves(rule, facts):
                value = 1 if entered else 0
                samples.append({"labels": name_of("", about(facts)), "value": value})
        expr = made[rule_uid(rule.id)]["data"][0]["model"]["expr"]
        questions.append({"expr": expr, "eval_time": "0s", "exp_samples": samples})
    series = [{"series": name, "values": f"{value:.17g}"} for name, value in metrics(fleet)]
    run_tests(tmp_path, [{"input_series": series, "promql_expr_test": questions}])


def test_the_group_is_one_that_grafana_s_own_library_reads_and_writes() -> None:
    register_default_plugins()
    group = rule_group(RULES, "specdec")
    read = RuleGroup.from_json(json.loads(json.dumps(group)))
    assert json.loads(json.dumps(read, cls=JSONEncoder)) == group


def test_uids_and_titles_are_unique_and_stable() -> None:
    assert len({rule["uid"] for rule in RULES}) == len(RULES) == 21
    assert len({rule["title"] for rule in RULES}) == len(RULES)
    assert all(len(rule["uid"]) <= 40 for rule in RULES)
    assert rule_uid("drafter_dead") == "specdec-drafter-dead"
    long = "a" * 64
    assert len(rule_uid(long)) == 40
    assert rule_uid(long) != rule_uid("a" * 63)


def test_summaries_show_what_grafana_can_look_up() -> None:
    found = {rule["uid"]: rule["annotations"]["summary"] for rule in RULES}
    assert found["specdec-drafter-dead"] == "{{ $labels.target }}: the drafter is dead"
    assert found["specdec-harmful"] == "{{ $labels.target }}: speculation costs speed"
    assert found["specdec-dropped"] == "{{ $labels.target }}: dropped"
    assert found["specdec-target-down"] == "{{ $labels.target }} cannot be reached"
    assert found["specdec-monitor-loop-stuck"] == "The monitor has not looked at anything"
    assert found["specdec-monitor-store-failing"] == "Rows of the monitor wait for the database"
    assert not any("$value" in text or "query" in text for text in found.values())


@pytest.fixture
def rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASS", "s3cret")
    options = ["--prometheus", "http://prom:9090", "--postgresql", "postgresql://r@db/monitor"]
    options += ["--postgresql-password-env", "PGPASS", "--path", "/etc/grafana/specdec"]
    assert run(["grafana", "render", "--out", "out", *options]) == 0
    return tmp_path / "out"


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    assert found["apiVersion"] == 1
    return found


def test_files_hold_everything_and_no_secret(rendered: Path) -> None:
    names = sorted(str(p.relative_to(rendered)) for p in rendered.rglob("*") if p.is_file())
    boards = [f"dashboards/{uid}.json" for uid in sorted(shipped_dashboards())]
    kinds = ("alerting", "dashboards", "datasources")
    assert names == sorted([*boards, *(f"provisioning/{k}/specdec.yaml" for k in kinds)])
    assert not any("s3cret" in p.read_text() for p in rendered.rglob("*") if p.is_file())
    sources = read(rendered / "provisioning/datasources/specdec.yaml")["datasources"]
    assert [source["uid"] for source in sources] == ["specdec-prometheus", "specdec-postgresql"]
    assert sources[1]["secureJsonData"] == {"password": "$SPECDEC_POSTGRESQL_PASSWORD"}
    (provider,) = read(rendered / "provisioning/dashboards/specdec.yaml")["providers"]
    assert provider["options"]["path"] == "/etc/grafana/specdec/dashboards"
    board = json.loads((rendered / "dashboards/specdec-paying.json").read_text())
    assert board["templating"]["list"][0]["current"]["value"] == "specdec-prometheus"


def test_rules_in_files_have_the_names_of_files(rendered: Path) -> None:
    (group,) = read(rendered / "provisioning/alerting/specdec.yaml")["groups"]
    # Names from Grafana's source of its file format, which differ from those of its API.
    known = {
        "uid", "title", "condition", "data", "noDataState", "execErrState", "for",
        "keepFiringFor", "missing_series_evals_to_resolve", "annotations", "labels", "isPaused",
    }  # fmt: skip
    assert (group["orgId"], group["interval"], len(group["rules"])) == (1, "30s", 21)
    for rule, api in zip(group["rules"], RULES, strict=True):
        assert rule.keys() == known
        assert rule["annotations"] == api["annotations"]
        query = rule["data"][0]
        assert query["datasourceUid"] == "specdec-prometheus"
        assert query["model"]["expr"] == api["data"][0]["model"]["expr"]


def test_a_second_run_writes_nothing(
    rendered: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    capsys.readouterr()
    before = {path: path.stat().st_mtime_ns for path in rendered.rglob("*")}
    options = ["--prometheus", "http://prom:9090", "--postgresql", "postgresql://r@db/monitor"]
    options += ["--postgresql-password-env", "PGPASS", "--path", "/etc/grafana/specdec"]
    assert run(["grafana", "render", "--out", "out", *options, "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert not any(file["changed"] for file in files)
    assert {path: path.stat().st_mtime_ns for path in rendered.rglob("*")} == before


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert run(["grafana", "render", "--out", "file/out", "--no-rules"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "cannot be written: Not a directory" in said[0]


def test_dollars_of_labels_are_not_taken_for_variables_of_grafana(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text("rules: [{id: harmful, labels: {price: '$5'}}]\n")
    (tmp_path / "monitor.yaml").write_text(
        "alerts: {rules: [own.yaml]}\n"
        "services: [{name: s, speculative: {targets: ['http://a:1']}}]\n"
    )
    assert run(["grafana", "render", "--out", "out", "--prometheus", "http://p"]) == 0
    (group,) = read(tmp_path / "out/provisioning/alerting/specdec.yaml")["groups"]
    found = {rule["uid"]: rule["labels"] for rule in group["rules"]}
    assert found["specdec-harmful"]["price"] == "$$5"
