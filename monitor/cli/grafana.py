"""``monitor grafana``: dashboards, data sources and alert rules as files or through the API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.cli import exits
from monitor.cli.apps import group
from monitor.cli.grafana_options import (
    DatasourceOption,
    PasswordEnvOption,
    PasswordFileOption,
    PostgresqlOption,
    PrometheusOption,
    RulesOption,
    Sources,
    TokenEnvOption,
    TokenFileOption,
    UrlOption,
    read_settings,
    read_wanted,
)
from monitor.cli.options import CaFileOption, ConfigOption, JsonOption
from monitor.cli.output import clean, print_error, print_json, print_text
from monitor.clock import SystemClock
from monitor.grafana import files, provision
from monitor.grafana.client import Grafana
from monitor.grafana.items.base import Act, Change
from monitor.grafana.provision import Step
from monitor.grafana.verify import Check
from monitor.grafana.verify import verify as run_checks
from monitor.settings import GrafanaSettings

SCHEMA = "monitor.grafana/1"
_LINES = 10
"""Differences shown of each thing; --json has all."""

app = group("Bring dashboards and alert rules to a Grafana.")

ForceOption = Annotated[
    bool, typer.Option("--force", help="Also where somebody has edited it, or made it.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]


@app.command()
def render(
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write into.")],
    path: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Where Grafana will see that folder; default: DIR."),
    ] = None,
    prometheus: PrometheusOption = None,
    datasource: DatasourceOption = None,
    postgresql: PostgresqlOption = None,
    postgresql_password_file: PasswordFileOption = None,
    postgresql_password_env: PasswordEnvOption = None,
    rules: RulesOption = True,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> int:
    """Write files for a Grafana that is provisioned from files."""
    sources = Sources(
        prometheus, datasource, postgresql, postgresql_password_file, postgresql_password_env
    )
    wanted = read_wanted(sources, config, rules=rules)
    written = files.write(files.render(wanted, path or str(out.absolute())), out)
    if json:
        print_json(
            {
                "schema": SCHEMA,
                "files": [{"path": name, "changed": new} for name, new in written.items()],
            }
        )
    else:
        lines = [f"{'written' if new else 'unchanged':10}{name}" for name, new in written.items()]
        print_text("\n".join(lines))
    return exits.OK


@app.command()
def apply(
    *,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    token_env: TokenEnvOption = None,
    ca_file: CaFileOption = None,
    prometheus: PrometheusOption = None,
    datasource: DatasourceOption = None,
    postgresql: PostgresqlOption = None,
    postgresql_password_file: PasswordFileOption = None,
    postgresql_password_env: PasswordEnvOption = None,
    rules: RulesOption = True,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> int:
    """Bring everything to a Grafana through its API, after showing what will change."""
    sources = Sources(
        prometheus, datasource, postgresql, postgresql_password_file, postgresql_password_env
    )
    settings = read_settings(url, token_file, token_env, ca_file, config)
    things = provision.items(read_wanted(sources, config, rules=rules))
    with _opened(settings) as grafana:
        steps = provision.plan(grafana, things, force=force)
        return _carry_out(steps, provision.apply(grafana, steps), dry_run=dry_run, json=json)


@app.command()
def remove(
    *,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    token_env: TokenEnvOption = None,
    ca_file: CaFileOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> int:
    """Take away what 'apply' has made, and nothing else."""
    settings = read_settings(url, token_file, token_env, ca_file, config)
    with _opened(settings) as grafana:
        steps = provision.plan_removal(grafana, provision.removable(), force=force)
        return _carry_out(steps, provision.remove(grafana, steps), dry_run=dry_run, json=json)


@app.command()
def verify(
    *,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    token_env: TokenEnvOption = None,
    ca_file: CaFileOption = None,
    prometheus: PrometheusOption = None,
    datasource: DatasourceOption = None,
    rules: RulesOption = True,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> int:
    """Try everything on a Grafana, beside what is there, and leave nothing behind."""
    settings = read_settings(url, token_file, token_env, ca_file, config)
    wanted = read_wanted(Sources(prometheus, datasource), config, rules=rules)
    checks = []
    with _opened(settings) as grafana:
        for check in run_checks(grafana, wanted, SystemClock().utc()):
            checks.append(check)
            if not json:
                _print_check(check)
    passed = all(check.passed for check in checks)
    if json:
        print_json(
            {
                "schema": SCHEMA,
                "passed": passed,
                "checks": [check._asdict() for check in checks],
            }
        )
    return exits.OK if passed else exits.BAD


@contextmanager
def _opened(settings: GrafanaSettings) -> Iterator[Grafana]:
    grafana = Grafana(settings)
    try:
        # Anything else that answers would be taken for a Grafana in which nothing is there yet.
        grafana.health()
        yield grafana
    finally:
        grafana.close()


def _carry_out(
    steps: Sequence[Step], running: Iterable[Step], *, dry_run: bool, json: bool
) -> int:
    """Shows the plan, then what comes of each step."""
    if not json:
        print_text("\n".join(line for step in steps for line in _plan_lines(step.change)))
    ended = list(steps) if dry_run else list(running)
    problems = [step for step in ended if step.open]
    if json:
        print_json({"schema": SCHEMA, "dry_run": dry_run, "steps": [_document(s) for s in ended]})
    for step in problems:
        print_error(_problem(step))
    if not json:
        print_text(_summary(ended, dry_run=dry_run))
    return exits.BAD if problems else exits.OK


def _plan_lines(change: Change) -> list[str]:
    why = f": {clean(change.reason)}" if change.reason else ""
    more = len(change.lines) - _LINES
    return [
        f"{change.act.value:10}{change.kind} {change.name}{why}",
        *(f"{'':12}{clean(line)}" for line in change.lines[:_LINES]),
        *([f"{'':12}and {more} more differences"] if more > 0 else []),
    ]


def _problem(step: Step) -> str:
    change = step.change
    if step.problem is not None:
        return step.problem
    return f"{change.kind} {change.name}: {change.reason}"


def _summary(steps: Sequence[Step], *, dry_run: bool) -> str:
    changed = sum(step.done for step in steps)
    left = sum(step.open for step in steps)
    if dry_run:
        count = sum(s.change.act in (Act.CREATE, Act.UPDATE, Act.REMOVE) for s in steps)
        return f"{count} to be changed, nothing was"
    as_it_is = len(steps) - changed - left
    return f"{changed} changed, {as_it_is} as they should be, {left} not"


def _document(step: Step) -> dict[str, Any]:
    change = step.change
    return {
        "kind": change.kind,
        "name": change.name,
        "action": change.act.value,
        "done": step.done,
        "reason": change.reason or None,
        "differences": list(change.lines),
        "problem": step.problem,
    }


def _print_check(check: Check) -> None:
    text = f"{'ok' if check.passed else 'FAILED':8}{check.name}: {clean(check.said)}"
    if check.passed:
        print_text(text)
    else:
        print_error(text)
