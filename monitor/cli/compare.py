"""``monitor compare``: two targets, two times of one target, or two series of saved pages."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.baselines.comparing import compare_spans
from monitor.baselines.documents import comparison_document
from monitor.baselines.spans import Span, from_pages, summarise
from monitor.cli import exits
from monitor.cli.apps import single
from monitor.cli.locate import database_url
from monitor.cli.named_baseline import find_baseline
from monitor.cli.options import ConfigOption, DatabaseOption, EndOption, JsonOption
from monitor.cli.output import print_error, print_json
from monitor.cli.pages import parse_pages, read_pages
from monitor.cli.render_baseline import print_comparison
from monitor.cli.spans import checked_span, parse_span, read_span
from monitor.cli.stored import stored
from monitor.clock import SystemClock
from monitor.model import ConfigError
from monitor.settings import DEFAULT_INTERVAL

SCHEMA = "monitor.compare/1"

Sides = tuple[Span | None, Span | None]

app = single()


@app.command()
def compare(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="A B", help="Names of two stored targets.")
    ] = None,
    *,
    start: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="For A and B: ISO time, epoch seconds or -2h: before now."
        ),
    ] = "-24h",
    end: EndOption = "now",
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="One target at two times.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="START..END", help="The first of them.")
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="START..END", help="The second of them.")
    ] = None,
    pages_a: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE[@TIME]", help="A saved page of the first; repeat it."),
    ] = None,
    pages_b: Annotated[
        list[str] | None, typer.Option(metavar="FILE[@TIME]", help="A saved page of the second.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="FILE|NAME", help="Instead of the active one of each service."),
    ] = None,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Tell whether two drafters, or one drafter at two times, accept the same."""
    ways = [bool(targets), target is not None, bool(pages_a or pages_b)]
    if sum(ways) != 1:
        raise ConfigError(
            "give two targets, or --target with --before and --after, or --pages-a and --pages-b"
        )
    if ways[2]:
        sides = _from_pages(pages_a, pages_b, baseline, database)
    else:
        url = database_url(database, config)
        if ways[0]:
            sides = _two_targets(targets or [], (start, end), baseline, url)
        else:
            sides = _two_times(str(target), (before, after), baseline, url)
    first, second = sides
    if first is None or second is None:
        print_error("nothing is stored of one of the two sides in this time")
        return exits.NO_VERDICT
    found = compare_spans(first, second)
    document = comparison_document(found)
    if json:
        print_json({"schema": SCHEMA, **document})
    else:
        print_comparison(document)
    return exits.OK if found.acceptance is not None else exits.NO_VERDICT


def _two_targets(names: list[str], span: tuple[str, str], baseline: str | None, url: str) -> Sides:
    if len(names) != 2 or names[0] == names[1]:  # noqa: PLR2004
        raise ConfigError("give the names of two different targets, as 'monitor status' shows")
    seconds = checked_span("--start and --end", *span, SystemClock().utc())
    with stored(url) as repository:
        first, second = (
            read_span(repository, name, seconds, name=name, baseline=baseline) for name in names
        )
    return first, second


def _two_times(
    target: str, spans: tuple[str | None, str | None], baseline: str | None, url: str
) -> Sides:
    before, after = spans
    if before is None or after is None:
        raise ConfigError("--target needs --before START..END and --after START..END")
    now = SystemClock().utc()
    times = parse_span("--before", before, now), parse_span("--after", after, now)
    with stored(url) as repository:
        first, second = (
            read_span(repository, target, span, name=name, baseline=baseline)
            for span, name in zip(times, ("before", "after"), strict=True)
        )
    return first, second


def _from_pages(
    first: list[str] | None, second: list[str] | None, baseline: str | None, database: str | None
) -> Sides:
    if not first or not second:
        raise ConfigError("--pages-a and --pages-b go together: give both, two pages each")
    curve = find_baseline(baseline, database) if baseline is not None else None
    now = SystemClock().utc()
    spans = []
    for name, arguments in (("a", first), ("b", second)):
        looks = list(read_pages(parse_pages(arguments, DEFAULT_INTERVAL, now)))
        identity, intervals, notes = from_pages(looks, name)
        spans.append(summarise(name, identity, intervals, curve, notes))
    return spans[0], spans[1]
