"""``monitor export``: stored rows as CSV or JSON lines."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from monitor.cli import exits
from monitor.cli.apps import single
from monitor.cli.locate import database_url
from monitor.cli.options import ConfigOption, DatabaseOption, EndOption, checked
from monitor.cli.output import print_error
from monitor.cli.stored import stored
from monitor.cli.times import parse_point
from monitor.clock import SystemClock
from monitor.config.problems import did_you_mean
from monitor.exporting import STDOUT, Format, format_of, write_rows
from monitor.model import ConfigError
from monitor.store.export import COLUMNS, Selection, What

app = single()


@app.command()
def export(
    what: Annotated[str, typer.Argument(metavar="WHAT", help=f"{', '.join(What)}.")],
    *,
    target: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this target; repeatable.")
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="ISO time, epoch seconds or -2h: before now. Default: all."
        ),
    ] = "0",
    end: EndOption = "now",
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="FILE.csv or FILE.jsonl, also .gz and .zst."
        ),
    ] = STDOUT,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", help="csv or jsonl; default: by the file, or jsonl."
        ),
    ] = None,
    config: ConfigOption = None,
    database: DatabaseOption = None,
) -> int:
    """Write samples, verdict changes, alerts or decisions, in the order of time."""
    which = checked("WHAT", _read_what, what)
    chosen = _format(form, output)
    read = partial(parse_point, now=SystemClock().utc())
    span = checked("--start", read, start), checked("--end", read, end)
    if span[0] >= span[1]:
        raise ConfigError("--start must lie before --end")
    with stored(database_url(database, config)) as repository:
        rows = repository.export(which, Selection(*span, tuple(target or ())))
        number = write_rows(output, chosen, COLUMNS[which], rows)
    print_error(f"{number:,} {which} written")
    return exits.OK if number else exits.NO_VERDICT


def _read_what(text: str) -> What:
    if text not in list(What):
        raise ValueError(f"is not known; {did_you_mean(text, list(What))}")
    return What(text)


def _format(given: str | None, output: str) -> Format:
    told = format_of(output)
    if given is not None:
        if given not in list(Format):
            raise ConfigError("--format must be csv or jsonl")
        if told not in (None, given):
            raise ConfigError(f"--format {given} does not fit the name of {output}")
        return Format(given)
    if told is None and output != STDOUT:
        raise ConfigError(
            f"{output}: the name tells no format; end it in .csv or .jsonl, or give --format"
        )
    return told or Format.JSONL
