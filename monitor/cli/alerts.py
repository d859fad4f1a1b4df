"""``monitor alerts``: check alert rules with their tests, and show those in force."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.alerting.rule_tests import SUFFIX, Outcome, run_file
from monitor.alerting.ruleset import Ruleset, default_rules_file, load_rules
from monitor.alerting.wording import explain
from monitor.cli import alerts_delivery, alerts_export, exits
from monitor.cli.apps import group
from monitor.cli.locate import find_config, rules_in_force
from monitor.cli.options import ConfigOption, JsonOption
from monitor.cli.output import print_error, print_json, print_text

SCHEMA = "monitor.rules/1"

app = group("Show alerts, check their rules, and see to their delivery.")

app.command("list")(alerts_delivery.list_)
app.command("show")(alerts_delivery.show)
app.command("test")(alerts_delivery.try_receiver)
app.command()(alerts_export.export)
app.add_typer(alerts_delivery.deadletter, name="deadletter")

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Files with rules, or with tests (*.test.yaml). Default: those of the "
        "configuration on top of the shipped ones.",
        show_default=False,
    ),
]


@app.command()
def check(
    files: FilesArgument = None, *, config: ConfigOption = None, json: JsonOption = False
) -> int:
    """Check rules, say each in a sentence, and run the tests given or found beside them."""
    paths, tests, ruleset = _given(files, config)
    outcomes = [outcome for test in tests for outcome in run_file(test)]
    failed = [outcome for outcome in outcomes if outcome.failures]
    if json:
        print_json({**_document(ruleset), "tests": [_outcome(o) for o in outcomes]})
    else:
        print_text("\n".join([*_rule_lines(ruleset), "", _summary(ruleset, paths, outcomes)]))
        for outcome in failed:
            print_error("\n".join([f"{outcome.file}: {outcome.name}:", *outcome.failures]))
    return exits.BAD if failed else exits.OK


@app.command()
def rules(
    files: FilesArgument = None, *, config: ConfigOption = None, json: JsonOption = False
) -> int:
    """Show the rules in force: the shipped ones with the changes of your files."""
    _paths, _tests, ruleset = _given(files, config)
    if json:
        print_json(_document(ruleset))
    else:
        print_text("\n".join(_rule_lines(ruleset)))
    return exits.OK


def _given(
    files: Sequence[Path] | None, config: Path | None
) -> tuple[list[Path], list[Path], Ruleset]:
    """The rule files, the test files, and the rules they add up to."""
    if files:
        paths = [path for path in files if not path.name.endswith(SUFFIX)]
        tests = [path for path in files if path.name.endswith(SUFFIX)]
        # The shipped file is there already; given by name it is not put on top of itself.
        shipped = default_rules_file()
        own = [path for path in paths if not _is_same(path, shipped)]
        return paths, _with_neighbours(paths, tests), load_rules(own)
    paths, ruleset = rules_in_force(config)
    configured = find_config(config) is not None
    return paths, _with_neighbours(paths if configured else [default_rules_file()], []), ruleset


def _is_same(path: Path, other: Path) -> bool:
    return path.exists() and path.resolve() == other.resolve()


def _with_neighbours(paths: Sequence[Path], tests: Sequence[Path]) -> list[Path]:
    """The given tests, and those that lie beside the rules: mine.test.yaml beside mine.yaml."""
    beside = [path.with_name(path.stem + SUFFIX) for path in paths]
    return list(dict.fromkeys([*tests, *(path for path in beside if path.is_file())]))


def _rule_lines(ruleset: Ruleset) -> list[str]:
    lines = [explain(rule) for rule in ruleset.rules]
    if ruleset.off:
        lines.append(f"switched off: {', '.join(ruleset.off)}")
    return lines or ["there are no rules"]


def _summary(ruleset: Ruleset, paths: Sequence[Path], outcomes: Sequence[Outcome]) -> str:
    where = ", ".join(str(path) for path in paths) or "the shipped rules"
    passed = sum(not outcome.failures for outcome in outcomes)
    tests = f"{passed} of {len(outcomes)} tests passed" if outcomes else "no tests were found"
    return f"{where}: {len(ruleset.rules)} rules in force, {tests}"


def _document(ruleset: Ruleset) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "rules": [
            {
                "id": rule.id,
                "severity": rule.severity,
                "sentence": explain(rule),
                "summary": rule.summary,
                "for": rule.hold_seconds,
                "windows": rule.hold_windows,
                "keep_firing_for": rule.keep_firing,
                "no_data_after": rule.no_data_after,
                "repeat": None if rule.repeat is None else rule.repeat._asdict(),
                "mutes": list(rule.mutes),
                "labels": dict(rule.labels),
                "runbook": rule.runbook,
                "votes_for_rollback": rule.votes_for_rollback,
            }
            for rule in ruleset.rules
        ],
        "off": list(ruleset.off),
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "file": outcome.file,
        "test": outcome.name,
        "passed": not outcome.failures,
        "failures": list(outcome.failures),
    }
