"""Alert rules: what they answer, how files add up, and how mistakes are shown."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.alerting import wording
from monitor.alerting.machine import AlertState, applying, close, step, votes
from monitor.alerting.model import Reason, Severity, State
from monitor.alerting.rule_tests import parse_stretch, run_file
from monitor.alerting.rules import Condition, Facts, Matcher, Rule, enters, leaves
from monitor.alerting.ruleset import RuleEntry, load_rules
from monitor.config.load import load
from monitor.model import ConfigError, StoreError, Verdict

ROOT = Path(__file__).parents[2]
NOW = 1_790_000_000.0
HARMFUL = "1m harmful/weak_drafter/roll_back acceptance_rate=0.2 speedup=0.7"


def facts(line: str) -> Facts:
    found = parse_stretch(line).facts
    assert found is not None
    return found


def rules_of(tmp_path: Path, text: str, *, defaults: bool = True) -> dict[str, Rule]:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return {rule.id: rule for rule in load_rules([path], defaults=defaults).rules}


def mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        rules_of(tmp_path, text)
    return [line.removeprefix(f"{tmp_path}/") for line in str(caught.value).splitlines()]


def test_the_name_under_which_rollbacks_tell_is_taken(tmp_path: Path) -> None:
    text = "rules: [{id: rollback, severity: info, summary: s, when: {verdicts: [idle]}}]"
    (line,) = mistakes(tmp_path, text)
    assert "rollbacks tell of themselves: take another" in line


# -- answers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "entered", "left"),
    [
        ("1m degraded acceptance_rate=0.30..0.38", True, False),
        ("1m degraded acceptance_rate=0.30..0.42", False, False),
        ("1m unproven acceptance_rate=0.41..0.50", False, False),
        ("1m unproven acceptance_rate=0.43..0.50", False, True),
        ("1m healthy acceptance_rate=0.30..0.38", False, True),
        ("1m healthy acceptance_rate=0.30..0.38 threshold=0.40", True, False),
        ("1m insufficient acceptance_rate=0.60..0.70", None, None),
        ("1m idle", None, None),
        ("1m down", None, None),
    ],
)
def test_acceptance_below_the_threshold_goes_by_the_limits_of_its_interval(
    line: str,
    entered: bool | None,
    left: bool | None,
) -> None:
    rule = {r.id: r for r in load_rules([]).rules}["acceptance_below_threshold"]
    assert enters(rule, facts(line)) is entered
    assert leaves(rule, facts(line)) is left


def test_a_limit_without_a_way_out_of_its_own_ends_where_the_whole_interval_is_past_it(
    tmp_path: Path,
) -> None:
    text = "rules: [{id: slow, severity: info, summary: s, when: {speedup: {below: 1.0}}}]"
    rule = rules_of(tmp_path, text)["slow"]
    assert enters(rule, facts("1m harmful speedup=0.8..0.9")) is True
    assert leaves(rule, facts("1m healthy speedup=0.9..1.2")) is False
    assert leaves(rule, facts("1m healthy speedup=1.1..1.2")) is True
    # What is unproven about speed ends nothing about speed.
    assert leaves(rule, facts("1m unproven speedup=1.01..1.2")) is None


def test_too_little_evidence_answers_nothing(tmp_path: Path) -> None:
    text = """\
rules:
  - {id: harmful, evidence: {drafts: 200, requests: 10}}
"""
    rule = rules_of(tmp_path, text)["harmful"]
    assert enters(rule, facts(f"{HARMFUL} drafts=300 requests=12")) is True
    assert enters(rule, facts(f"{HARMFUL} drafts=100 requests=12")) is None
    assert leaves(rule, facts("1m healthy drafts=300 requests=3")) is None


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_answers_a_rule_about_every_verdict(verdict: Verdict) -> None:
    for asked in Verdict:
        rule = Rule("r", Condition(verdicts=(asked,)), Severity.INFO, "s")
        answer = enters(rule, facts(f"1m {verdict.value}"))
        assert (answer is True) == (verdict is asked)
        assert leaves(rule, facts(f"1m {verdict.value}")) is (
            None if answer is None else not answer
        )


def test_rules_are_only_about_the_targets_they_match() -> None:
    matcher = Matcher(services=("chat*",), labels=(("zone", "a"),))
    here = facts("1m idle")._replace(service="chat-large", labels={"zone": "a"})
    assert matcher.matches(here)
    assert not matcher.matches(here._replace(service="code"))
    assert not matcher.matches(here._replace(labels={}))
    assert not matcher.matches(here._replace(role="baseline"))


# -- the machine -------------------------------------------------------------------------


def fired(*lines: str, rules: tuple[Rule, ...] | None = None) -> dict[str, AlertState]:
    states: dict[str, AlertState] = {}
    now = NOW
    for line in lines:
        for _ in range(40):
            states, _ = step(
                applying(rules or load_rules([]).rules, facts(line)),
                states,
                facts(line),
                now,
                15.0,
            )
            now += 15.0
    return states


def test_only_valid_windows_of_alerts_that_do_not_flap_vote_for_a_rollback() -> None:
    rules = load_rules([]).rules
    states = fired(HARMFUL)
    assert votes(rules, states, facts(HARMFUL)) == ("harmful",)
    assert votes(rules, states, facts(HARMFUL)._replace(fresh=False)) == ()
    assert votes(rules, states, facts("1m idle")) == ()
    flapping = {name: state._replace(flapping=True) for name, state in states.items()}
    assert votes(rules, flapping, facts(HARMFUL)) == ()


def test_alerts_of_a_target_that_is_gone_are_closed_with_the_reason() -> None:
    states = fired(HARMFUL)
    closed, (message,) = close(states, "s", "t", NOW + 900.0, "the target is no longer watched")
    assert closed["harmful"].state is State.RESOLVED
    assert message.reason is Reason.RESOLVED
    assert message.sentence == "closed after 15 min: the target is no longer watched"
    assert close(closed, "s", "t", NOW + 915.0, "once more") == ({}, ())


def test_a_message_carries_labels_the_document_and_text_made_harmless(tmp_path: Path) -> None:
    text = """\
rules:
  - id: odd
    when: {verdicts: [harmful]}
    severity: warning
    summary: "$target of $model: $speedup at $$5"
    labels: {team: inference}
"""
    rules = tuple(rules_of(tmp_path, text, defaults=False).values())
    given = facts(HARMFUL)
    identity = given.assessment.identity._replace(model="evil\x1b[31m\u202e$target\n" + "x" * 500)
    hostile = given.assessment._replace(identity=identity, sentence="a\r\nb\x00" + "y" * 900)
    given = given._replace(
        assessment=hostile,
        labels={"zone": "a"},
        document=lambda: {"target": "t"},
    )
    _, (message,) = step(applying(rules, given), {}, given, NOW, 15.0)
    assert message.title.startswith("t of evil [31m $target xxx")
    assert message.title.endswith("…: 0.70× at $5")
    assert len(message.title) <= wording.TITLE_LIMIT
    assert message.sentence.startswith("a b y")
    assert len(message.sentence) == wording.SENTENCE_LIMIT
    assert message.labels == {"zone": "a", "team": "inference"}
    assert message.assessment == {"target": "t"}


def test_a_clock_set_back_stops_nothing_and_repeats_nothing() -> None:
    rules = load_rules([]).rules
    states = fired(HARMFUL)
    states, told = step(
        applying(rules, facts(HARMFUL)), states, facts(HARMFUL), NOW - 7200.0, 15.0
    )
    assert told == ()
    states, told = step(
        applying(rules, facts(HARMFUL)), states, facts(HARMFUL), NOW - 7185.0, 15.0
    )
    assert told == ()
    assert states["harmful"].state is State.FIRING


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rule": "a"}', '{"rule":"a","at":"x"}', "7"])
def test_a_state_that_cannot_be_read_is_said_to_be_so(text: str) -> None:
    with pytest.raises(StoreError, match="state of an alert"):
        AlertState.from_json(text)


def test_a_stored_state_is_small_and_may_hold_keys_of_a_later_version() -> None:
    state = fired(HARMFUL)["harmful"]
    text = state.to_json()
    assert len(text) < 600
    assert AlertState.from_json(text[:-1] + ',"later": 1}') == state


# -- files -------------------------------------------------------------------------------


def test_a_rule_of_ones_own_changes_only_the_keys_it_gives(tmp_path: Path) -> None:
    text = """\
rules:
  - id: harmful
    for: 10m
    labels: {team: inference}
  - id: dropped
    enabled: false
  - id: mine
    when: {running: {above: 48}}
    severity: info
    summary: "$target is busy"
"""
    rules = rules_of(tmp_path, text)
    shipped = {rule.id: rule for rule in load_rules([]).rules}
    assert rules["harmful"] == replace(
        shipped["harmful"], hold_seconds=600.0, hold_windows=1, labels=(("team", "inference"),)
    )
    assert "dropped" not in rules
    assert rules["mine"].only.roles == ("speculative",)


def test_another_condition_does_not_inherit_the_way_out_of_the_old_one(tmp_path: Path) -> None:
    text = "rules: [{id: acceptance_below_threshold, when: {verdicts: [degraded]}}]"
    assert rules_of(tmp_path, text)["acceptance_below_threshold"].leave is None


RULE = "rules: [{id: mine, severity: info, summary: s, when: %s}]"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rules: []", "mine.yaml:1: rules: must have at least one entry"),
        (
            "rules:\n  - id: harmful\n    for: {duraton: 5m}\n",
            "mine.yaml:3: rules[0].for.duraton: is not a known key; did you mean 'duration'?",
        ),
        (
            "rules:\n  - id: harmful\n    fro: 5m\n",
            "mine.yaml:3: rules[0].fro: is not a known key; did you mean 'for'?",
        ),
        (
            "rules: [{id: harmful, severity: critcal}]",
            "mine.yaml:1: rules[0].severity: is not one of the known words; "
            "did you mean 'critical'?",
        ),
        (
            "rules: [{id: mine, severity: info, summary: s}]",
            "mine.yaml:1: rules[0].when: is missing: no earlier rule has this id",
        ),
        (
            RULE % "{}",
            "mine.yaml:1: rules[0].when: must have at least one condition: verdicts, causes, "
            "actions, alarm, baseline or a limit such as acceptance_rate: {below: 0.4}",
        ),
        (
            RULE % "{acceptance_rate: {below: 40}}",
            "mine.yaml:1: rules[0].when.acceptance_rate.below: must lie between 0 and 1",
        ),
        (
            RULE % "{acceptance_rate: {below: low}}",
            "mine.yaml:1: rules[0].when.acceptance_rate.below: must be a number, "
            "or 'threshold' for the service's own",
        ),
        (
            RULE % "{acceptance_rate: {below: 0.4, above: 0.5}}",
            "mine.yaml:1: rules[0].when.acceptance_rate: must have one of below and above",
        ),
        (
            RULE % "{speedup: {below: threshold}}",
            "mine.yaml:1: rules[0].when.speedup.below: must be a number: "
            "only acceptance_rate has a threshold",
        ),
        (
            RULE % "{acceptance_rate: {below: 0.4}}, leave: {acceptance_rate: {below: 0.5}}",
            "mine.yaml:1: rules[0].leave.acceptance_rate.below: "
            "must be on the other side than in when: write above",
        ),
        (
            RULE % "{acceptance_rate: {below: 0.4}}, leave: {acceptance_rate: {above: 0.3}}",
            "mine.yaml:1: rules[0].leave.acceptance_rate.above: is below the bound in when, "
            "so the alert would end while its condition holds",
        ),
        (
            "rules: [{id: harmful, mutes: [droped]}]",
            "mine.yaml:1: rules[0].mutes[0]: is not the id of a rule; did you mean 'dropped'?",
        ),
        (
            "rules: [{id: harmful, mutes: all}]",
            "mine.yaml:1: rules[0].mutes: mutes 'target_down', which mutes it back: "
            "neither would be told",
        ),
        (
            'rules: [{id: harmful, summary: "$targt"}]',
            "mine.yaml:1: rules[0].summary: has an unknown field; did you mean 'target'?",
        ),
        (
            'rules: [{id: harmful, summary: "costs 5$"}]',
            "mine.yaml:1: rules[0].summary: has a '$' that begins no field: "
            "write $$ for the sign itself",
        ),
        (
            "rules: [{id: harmful, repeat: {every: 4h, at_most: 1h}}]",
            "mine.yaml:1: rules[0].repeat.at_most: must not be shorter than every",
        ),
        (
            "rules:\n  - id: harmful\n  - id: harmful\n",
            "mine.yaml:3: rules[1].id: is the id of rules[0] already",
        ),
    ],
)
def test_a_mistake_is_one_line_with_its_place_and_its_fix(
    tmp_path: Path, text: str, line: str
) -> None:
    assert line in mistakes(tmp_path, text)


def test_the_configuration_names_rule_files_and_shows_their_mistakes(tmp_path: Path) -> None:
    config = tmp_path / "monitor.yaml"
    service = "services: [{name: a, threshold: 0.3, speculative: {targets: [http://gpu1]}}]\n"
    (tmp_path / "mine.yaml").write_text("rules: [{id: harmful, enabled: false}]")
    config.write_text(f"alerts: {{rules: [mine.yaml]}}\n{service}")
    settings = load(config).settings()
    assert "harmful" not in {rule.id for rule in settings.rules}
    assert settings.targets[0].threshold_is_set
    (tmp_path / "mine.yaml").write_text("rules: [{id: harmful, sverity: info}]")
    with pytest.raises(ConfigError) as caught:
        load(config).settings()
    assert str(caught.value).startswith(f"{config}:1: alerts.rules: {tmp_path}/mine.yaml:1: ")
    config.write_text(f"alerts: {{default_rules: false}}\n{service}")
    assert load(config).settings().rules == ()


def test_rules_count_for_the_hash_of_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "monitor.yaml"
    config.write_text(
        "alerts: {rules: [mine.yaml]}\n"
        "services: [{name: a, speculative: {targets: [http://gpu1]}}]\n"
    )
    hashes: list[str] = []
    for time in ("2m", "2m", "3m"):
        (tmp_path / "mine.yaml").write_text(f"rules: [{{id: harmful, for: {time}}}]  # {hashes}")
        hashes.append(load(config).settings().config_hash)
    assert hashes[0] == hashes[1] != hashes[2]


def test_every_shipped_rule_has_a_runbook_and_tests_that_it_fires_and_that_it_does_not() -> None:
    tests = (ROOT / "alerts" / "default.test.yaml").read_text()
    pages = {path.stem for path in (ROOT / "docs" / "runbooks").glob("*.md")} - {"README"}
    rules = load_rules([]).rules
    assert pages == {rule.id for rule in rules}
    for rule in rules:
        assert rule.runbook == f"docs/runbooks/{rule.id}.md"
        assert f" {rule.id} first" in tests


def test_shipped_tests_pass() -> None:
    outcomes = run_file(ROOT / "alerts" / "default.test.yaml")
    assert [outcome for outcome in outcomes if outcome.failures] == []
    assert len(outcomes) > 40


def test_the_examples_of_the_documentation_hold(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "alerts.md").read_text()
    _, rules, tests = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "my-rules.yaml").write_text(rules)
    (tmp_path / "my-rules.test.yaml").write_text(tests)
    assert [outcome.failures for outcome in run_file(tmp_path / "my-rules.test.yaml")] == [()]


def test_the_documentation_names_every_rule_and_every_key() -> None:
    page = (ROOT / "docs" / "alerts.md").read_text()
    for rule in load_rules([]).rules:
        assert f"| [{rule.id}](runbooks/{rule.id}.md) | {rule.severity.value} |" in page
    for name, field in RuleEntry.model_fields.items():
        assert f"| `{field.alias or name}` |" in page


def told_of(rule_ids: tuple[str, ...], looks: list[Facts]) -> list[tuple[str, Reason]]:
    """What is told over some looks, a quarter of a minute apart, by rules without patience."""
    impatient = {
        rule.id: replace(rule, hold_seconds=0.0, hold_windows=1)
        for rule in load_rules([]).rules
        if rule.id in rule_ids
    }
    states: dict[str, AlertState] = {}
    told = []
    for number, look in enumerate(looks):
        at = NOW + 15.0 * number
        seen = look._replace(assessment=look.assessment._replace(at=at))
        states, messages = step(impatient, states, seen, at, 15.0)
        told += [(message.rule, message.reason) for message in messages]
    return told


def test_a_rollback_speaks_for_the_rules_that_vote_for_it_and_for_all_they_mute() -> None:
    bad = facts(f"{HARMFUL} acceptance_rate=0.1..0.2 threshold=0.40")
    quiet = [bad._replace(moving=True)] * 3
    for rule in ("harmful", "acceptance_below_threshold"):
        assert told_of((rule, "harmful"), quiet) == []
    # What fired meanwhile and still does is told afterwards.
    assert told_of(("harmful",), [*quiet, bad]) == [("harmful", Reason.FIRST)]


def test_a_rollback_is_no_reason_to_be_silent_about_a_server_that_is_down() -> None:
    down = facts("1m down")._replace(moving=True)
    assert told_of(("target_down", "harmful"), [down]) == [("target_down", Reason.FIRST)]
