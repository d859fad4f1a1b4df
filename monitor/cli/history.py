"""``monitor history``: the past of one target in equal steps."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import partial
from typing import Annotated, Any

import typer

from monitor.cli import exits
from monitor.cli.apps import single
from monitor.cli.locate import database_url
from monitor.cli.options import (
    ConfigOption,
    DatabaseOption,
    EndOption,
    JsonOption,
    StartOption,
    TargetOption,
    checked,
)
from monitor.cli.output import print_json
from monitor.cli.render_history import print_history
from monitor.cli.stored import stored
from monitor.cli.times import parse_point
from monitor.clock import SystemClock
from monitor.config.values import parse_duration
from monitor.model import ConfigError
from monitor.report import iso
from monitor.store.rows import HistoryRow

SCHEMA = "monitor.history/1"

app = single()


@app.command()
def history(
    *,
    target: TargetOption,
    start: StartOption = "-1h",
    end: EndOption = "now",
    step: Annotated[str, typer.Option(metavar="T", help="Length of a row: 60s, 5m, 1h.")] = "60s",
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
) -> int:
    """Show verdicts and figures of a target over time, from the database alone."""
    if json and as_csv:
        raise ConfigError("give one of --json and --csv")
    now = SystemClock().utc()
    read = partial(parse_point, now=now)
    span = checked("--start", read, start), checked("--end", read, end)
    if span[0] >= span[1]:
        raise ConfigError("--start must lie before --end")
    seconds = _step(step)
    with stored(database_url(database, config)) as repository:
        rows = repository.history(target, *span, seconds)
    if json:
        documents = [_document(row) for row in rows]
        print_json({"schema": SCHEMA, "target": target, "rows": documents})
    elif as_csv:
        _print_csv(rows)
    else:
        print_history([_document(row) for row in rows])
    return exits.OK if rows else exits.NO_VERDICT


def _document(row: HistoryRow) -> dict[str, Any]:
    return asdict(row) | {"at": iso(row.at)}


def _print_csv(rows: Sequence[HistoryRow]) -> None:
    names = [field.name for field in fields(HistoryRow)]
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_document(row) for row in rows)


def _step(text: str) -> float:
    step = checked("--step", parse_duration, text)
    if step < 1:
        raise ConfigError("--step must be at least 1s")
    return step
