"""The shipped files for Prometheus and Alertmanager, checked by the tools of both."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from promtool import RULES, needs_promtool, promtool

from monitor.alerting.ruleset import load_rules
from monitor.cli.runner import run
from monitor.prometheus.files import EXPORTS

SHIPPED = {
    "prometheus": "monitor.rules.yml",
    "engines": "engine.rules.yml",
    "alertmanager": "alertmanager.example.yml",
}
AMTOOL = shutil.which("amtool")
needs_amtool = pytest.mark.skipif(
    AMTOOL is None, reason="amtool is missing: install Debian's prometheus-alertmanager"
)


def amtool(*arguments: str) -> str:
    assert AMTOOL is not None
    done = subprocess.run(
        [AMTOOL, *arguments], cwd=RULES, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", EXPORTS)
def test_the_shipped_files_are_those_that_the_rules_make(kind: str) -> None:
    assert (RULES / SHIPPED[kind]).read_text("utf-8") == EXPORTS[kind](load_rules([]).rules)


@needs_promtool
def test_the_shipped_rules_are_valid_and_pass_their_own_tests() -> None:
    promtool("check", "rules", "monitor.rules.yml", "engine.rules.yml")
    promtool("test", "rules", *sorted(path.name for path in RULES.glob("*.test.yml")))


@needs_promtool
def test_the_example_of_a_scrape_configuration_is_valid() -> None:
    assert "2 rule files found" in promtool("check", "config", "prometheus.example.yml")


@needs_amtool
def test_the_example_for_alertmanager_routes_by_severity_and_rule() -> None:
    example = SHIPPED["alertmanager"]
    amtool("check-config", example)
    for labels, receiver in (
        (("severity=critical", "rule=harmful"), "oncall"),
        (("severity=critical",), "oncall"),
        (("severity=warning", "rule=dropped"), "team"),
        (("severity=info", "rule=baseline_missing"), "team"),
    ):
        said = amtool("config", "routes", "test", f"--config.file={example}", *labels)
        assert said.strip() == receiver


def test_what_a_rule_mutes_is_inhibited_about_the_same_server_only() -> None:
    shipped = yaml.safe_load((RULES / SHIPPED["alertmanager"]).read_text("utf-8"))
    found = {rule["source_matchers"][0]: rule for rule in shipped["inhibit_rules"]}
    assert found['rule="target_down"']["target_matchers"] == ['rule=~".+"', 'rule!="target_down"']
    assert (
        'rule=~"harmful|acceptance_below_threshold|dropped"'
        in (found['rule="drafter_dead"']["target_matchers"])
    )
    assert all(rule["equal"] == ["service", "target", "instance"] for rule in found.values())


def test_rules_of_the_user_are_exported_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text(
        "rules:\n"
        "  - {id: neutral_for_long, enabled: false}\n"
        "  - {id: harmful, for: 5m, labels: {team: '{{ x'}}\n"
        "  - {id: slow, when: {speedup: {below: 0.9}}, severity: info,\n"
        "     summary: '$target {{ $speedup'}\n"
    )
    (tmp_path / "monitor.yaml").write_text(
        "alerts: {rules: [own.yaml]}\n"
        "services: [{name: s, speculative: {targets: ['http://a:1']}}]\n"
    )
    assert run(["alerts", "export", "prometheus"]) == 0
    text = capsys.readouterr().out
    alerts = {rule.get("alert"): rule for rule in yaml.safe_load(text)["groups"][0]["rules"]}
    assert "SpeculationNeutralForLong" not in alerts
    assert alerts["SpeculationHarmful"]["for"] == "5m"
    assert alerts["SpeculationHarmful"]["labels"]["team"] == '{{ "{{" }} x'
    assert alerts["SpeculationSlow"]["annotations"]["summary"].startswith(
        '{{ $labels.target }} {{ "{{" }} {{ with printf "monitor_speedup{'
    )
    if AMTOOL is not None:
        (tmp_path / "rules.yml").write_text(text)
        promtool("check", "rules", "rules.yml", cwd=tmp_path)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("only: {labels: {zone: a}}", "rule slow: only.labels is not possible"),
        ("summary: '$model'", "rule slow: summary: the metrics of the daemon do not show $model"),
    ],
)
def test_what_the_metrics_do_not_show_is_a_mistake_in_one_line(
    more: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.yaml").write_text(
        "rules:\n"
        "  - id: slow\n"
        "    when: {speedup: {below: 0.9}}\n"
        "    severity: info\n"
        f"    {more}\n" + ("" if "summary" in more else "    summary: x\n")
    )
    config = tmp_path / "monitor.yaml"
    config.write_text(
        "alerts: {rules: [own.yaml]}\n"
        "services: [{name: s, speculative: {targets: ['http://a:1']}}]\n"
    )
    assert run(["alerts", "export", "prometheus", "-c", str(config)]) == 2
    assert capsys.readouterr().err.startswith(f"monitor: {said}")


def test_an_unknown_kind_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["alerts", "export", "prometeus"]) == 2
    assert "did you mean 'prometheus'?" in capsys.readouterr().err
