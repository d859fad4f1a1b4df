"""Runs a backfill for the command line: progress on standard error, then text or JSON."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from monitor.alerting.rules import Rule
from monitor.alerting.ruleset import load_rules
from monitor.backfill.ingest import Ingest, Summary
from monitor.backfill.looks import Source
from monitor.backfill.naming import Naming
from monitor.cli import exits
from monitor.cli.locate import checked_database, find_config
from monitor.cli.output import clean, print_error, print_json, print_text
from monitor.clock import SystemClock
from monitor.config.load import load_settings
from monitor.config.schema import DEFAULT_DATABASE
from monitor.config.values import format_duration
from monitor.model import MonitorError
from monitor.report import iso
from monitor.settings import TargetSettings
from monitor.store.backfill import PastStore
from monitor.store.connect import open_store, parse_url, sqlite_path
from monitor.store.repository import Repository
from monitor.store.rollup import roll_up
from monitor.store.schema import ensure_ready
from monitor.turn.curves import Curves

SCHEMA = "monitor.backfill/1"
_MOST_ALERTS = 20
_MOST_NOTES = 10
_SCALE = 1000


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a backfill writes to, and what it goes by."""

    database: str
    targets: tuple[TargetSettings, ...]
    rules: Sequence[Rule]

    def naming(
        self, label: str = "instance", service: str | None = None, target: str | None = None
    ) -> Naming:
        """How the targets that are found are named."""
        return Naming(self.targets, label, service, target)


def read_setting(config: Path | None, database: str | None) -> Setting:
    """From the configuration if there is one; without it, the rules that come with the monitor."""
    path = find_config(config)
    if path is None:
        url = DEFAULT_DATABASE if database is None else checked_database(database)
        return Setting(url, (), load_rules((), defaults=True).rules)
    settings = load_settings(path)
    url = settings.database if database is None else checked_database(database)
    return Setting(url, settings.targets, settings.rules)


def run_backfill(
    setting: Setting,
    source: Source,
    naming: Naming,
    *,
    name: str,
    span: tuple[float, float],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Fills in what a source holds, shows what became of it, and returns the exit code.

    Args:
        setting: where to.
        source: where from.
        naming: of the targets that the source has found.
        name: of the source, as it is kept beside what it filled in.
        span: looks outside of it are left out.
        dry_run: whether nothing is written.
        as_json: whether the outcome is one JSON document.
    """
    now = SystemClock().utc()
    with _database(setting.database, dry_run=dry_run) as url:
        engine = open_store(url)
        try:
            ensure_ready(engine)
            store = PastStore(engine, naming.settings(source.targets), now, dry_run)
            curves = Curves(Repository(engine))
            curves.refresh()
            ingest = Ingest(
                store, curves, setting.rules, source, name=name, start=span[0], end=span[1]
            )
            began = SystemClock().monotonic()
            with _progress(source, ingest.summary) as tick:
                summary = _run(ingest, tick)
                if not dry_run:
                    while roll_up(engine, now):
                        pass
            seconds = SystemClock().monotonic() - began
        finally:
            engine.dispose()
    if as_json:
        print_json(_document(summary, source.findings.notes, dry_run=dry_run))
    else:
        print_text(_text(summary, source.findings.notes, seconds, dry_run=dry_run))
    return exits.OK if summary.samples or summary.skipped else exits.NO_VERDICT


def _run(ingest: Ingest, tick: Callable[[float], None]) -> Summary:
    try:
        summary = ingest.run(tick)
        if summary.end is not None:
            tick(summary.end)
        return summary
    except (MonitorError, KeyboardInterrupt):
        if ingest.stored:
            print_error("what came before this is stored; the same command goes on from there")
        raise


@contextmanager
def _database(url: str, *, dry_run: bool) -> Iterator[str]:
    """The database; for a dry run on a file that does not exist, one that is thrown away."""
    path = sqlite_path(parse_url(url))
    if not dry_run or path is None or path.exists():
        yield url
        return
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/monitor.db"


class _Rate(ProgressColumn):
    """Looks a second."""

    def render(self, task: Task) -> Text:
        taken, elapsed = task.fields["taken"], task.elapsed or 0.0
        return Text(f"{taken / elapsed:,.0f} looks/s" if elapsed > 0.0 else "")


@contextmanager
def _progress(source: Source, summary: Summary) -> Iterator[Any]:
    """Shows on a terminal how far a run has come, its rate and what time remains."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("backfill", total=None, taken=0)

        def tick(at: float) -> None:
            done = source.findings.done
            progress.update(
                task,
                description=iso(at)[:16],
                total=None if done is None else _SCALE,
                completed=0 if done is None else done * _SCALE,
                taken=summary.samples + sum(summary.skipped.values()),
            )

        yield tick


def _document(summary: Summary, notes: Sequence[str], *, dry_run: bool) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "dry_run": dry_run,
        "targets": sorted(summary.targets),
        "samples": summary.samples,
        "windows": summary.windows,
        "skipped": dict(summary.skipped),
        "start": None if summary.start is None else iso(summary.start),
        "end": None if summary.end is None else iso(summary.end),
        "verdicts": {verdict.value: count for verdict, count in summary.verdicts.items()},
        "changes": summary.changes,
        "alerts": [
            {
                "rule": one.rule,
                "target": one.target,
                "state": one.state.value,
                "at": iso(one.at),
            }
            for one in summary.alerts
        ],
        "notes": [*notes],
    }


def _text(summary: Summary, notes: Sequence[str], seconds: float, *, dry_run: bool) -> str:
    lines = [_headline(summary, seconds, dry_run=dry_run)]
    if summary.verdicts:
        counts = ", ".join(f"{v.value} {n:,}" for v, n in summary.verdicts.most_common())
        lines.append(f"  verdicts: {counts}; {summary.changes:,} changes")
    shown = summary.alerts[:_MOST_ALERTS]
    lines += [f"  {iso(a.at)[:19]}  {a.rule} {a.state.value}: {clean(a.target)}" for a in shown]
    if len(summary.alerts) > len(shown):
        lines.append(f"  … and {len(summary.alerts) - len(shown)} more changes of alerts")
    lines += [f"  skipped {count:,}: {reason}" for reason, count in summary.skipped.most_common()]
    lines += [f"  note: {clean(note)}" for note in notes[:_MOST_NOTES]]
    return "\n".join(lines)


def _headline(summary: Summary, seconds: float, *, dry_run: bool) -> str:
    if summary.start is None or summary.end is None:
        return "nothing to fill in"
    done = "would fill in" if dry_run else "filled in"
    count = len(summary.targets)
    targets = "1 target" if count == 1 else f"{count} targets"
    rate = summary.samples / max(seconds, 1e-9)
    return (
        f"{done} {targets} from {iso(summary.start)[:19]} to {iso(summary.end)[:19]} UTC:"
        f" {summary.samples:,} looks, {summary.windows:,} windows"
        f" ({format_duration(round(seconds, 1))}, {rate:,.0f} looks/s)"
    )
