"""``monitor pays``: at which load and hour speculation pays, from stored samples."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.baselines.documents import paying_document
from monitor.baselines.paying import pays as find_paying
from monitor.baselines.spans import compared, fitting
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
)
from monitor.cli.output import print_json
from monitor.cli.render_baseline import print_paying
from monitor.cli.spans import baseline_for, checked_span, read_intervals
from monitor.cli.stored import stored
from monitor.clock import SystemClock
from monitor.health.judging import JudgeSettings
from monitor.model import ConfigError
from monitor.report import iso

SCHEMA = "monitor.pays/1"

app = single()


@app.command()
def pays(
    *,
    target: TargetOption,
    start: StartOption = "-7d",
    end: EndOption = "now",
    baseline: Annotated[
        str | None,
        typer.Option(metavar="FILE|NAME", help="Instead of the service's active one."),
    ] = None,
    dead_band: Annotated[
        float, typer.Option(metavar="B", help="Speedups within 1 plus or minus this are neutral.")
    ] = JudgeSettings().dead_band,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Show the speedup by load and by hour of day, and the load where it stops paying."""
    if not 0 <= dead_band < 1:
        raise ConfigError("--dead-band must lie between 0 and 1")
    span = checked_span("--start and --end", start, end, SystemClock().utc())
    with stored(database_url(database, config)) as repository:
        facts, intervals = read_intervals(repository, target, span)
        named = baseline_for(repository, facts.service, baseline)
    curve, notes = fitting(named, facts.identity)
    found = find_paying(compared(intervals, curve), dead_band)
    document = {
        **paying_document(found, dead_band),
        "target": target,
        "start": iso(span[0]),
        "end": iso(span[1]),
        "baseline": curve.name if curve is not None else None,
        "notes": notes,
    }
    if json:
        print_json({"schema": SCHEMA, **document})
    else:
        print_paying(document)
    return exits.OK if found.bins else exits.NO_VERDICT
