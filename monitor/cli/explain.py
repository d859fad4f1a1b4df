"""``monitor explain``: why a target has, or had, the verdict it has."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from monitor.cli import exits
from monitor.cli.apps import single
from monitor.cli.locate import database_url
from monitor.cli.options import ConfigOption, DatabaseOption, JsonOption, TargetOption, checked
from monitor.cli.output import print_error, print_json
from monitor.cli.render_explain import print_explanation
from monitor.cli.stored import stored
from monitor.cli.times import parse_point
from monitor.clock import SystemClock
from monitor.config.values import format_duration, parse_duration
from monitor.explain import explain as build
from monitor.explain.document import LONGEST_SHOWN, SHOWN_SECONDS
from monitor.model import ConfigError, Verdict
from monitor.web.status import STALE_SECONDS

app = single()


@app.command()
def explain(
    *,
    target: TargetOption,
    at: Annotated[
        str, typer.Option(metavar="TIME", help="ISO time, epoch seconds, now or -2h.")
    ] = "now",
    span: Annotated[
        str, typer.Option(metavar="T", help="How much of the past to show, at least: 6h, 30m.")
    ] = format_duration(SHOWN_SECONDS),
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Show why a target has its verdict: figures, rules in order, and what would change it."""
    now = SystemClock().utc()
    moment, seconds = _moment(at, now), _span(span)
    with stored(database_url(database, config)) as repository:
        found = repository.moment(target, moment)
    if found is None:
        print_error(f"nothing is known of {target} at that time")
        return exits.NO_VERDICT
    document = build(found, seconds)
    stale = moment - found.at > STALE_SECONDS
    if json:
        print_json(document)
    else:
        print_explanation(document, moment)
    if stale:
        print_error(
            f"no look at {target} within the last {format_duration(STALE_SECONDS)} of that time;"
            " explained is the last one before"
        )
    verdict = document["verdict"]
    return exits.exit_code(Verdict(verdict["verdict"]) if verdict else None, stale=stale)


def _moment(text: str, now: float) -> float:
    moment = checked("--at", partial(parse_point, now=now), text)
    if moment > now:
        raise ConfigError("--at must not lie in the future")
    return moment


def _span(text: str) -> float:
    seconds = checked("--span", parse_duration, text)
    if not 0.0 < seconds <= LONGEST_SHOWN:
        raise ConfigError(f"--span must lie between 1s and {format_duration(LONGEST_SHOWN)}")
    return seconds
