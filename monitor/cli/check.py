"""``monitor check``: one answer, now, without a daemon or a database."""

# Saved pages need no network, and JSON no drawing: both are imported where they are used.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from monitor.check import (
    DEFAULT_WINDOW,
    judge_series,
    judge_settings,
    look_twice,
    spacing,
    unusable,
    widest,
)
from monitor.cli import exits
from monitor.cli.apps import single
from monitor.cli.credentials import read_credentials
from monitor.cli.named_baseline import find_baseline
from monitor.cli.options import (
    BearerEnvOption,
    BearerFileOption,
    CaFileOption,
    CertOption,
    DatabaseOption,
    EngineOption,
    InsecureOption,
    JsonOption,
    KeyOption,
    checked,
)
from monitor.cli.output import print_error, print_json
from monitor.cli.pages import parse_pages, read_pages
from monitor.clock import SystemClock
from monitor.config.values import AUTO, default_target_name, parse_engine, parse_target_url
from monitor.health.baseline import FASTEST_TPOT, SLOWEST_TPOT, QuickSpeeds
from monitor.model import Assessment, ConfigError, PageError
from monitor.report import to_document
from monitor.settings import TargetSettings
from monitor.sources.files import STDIN

SCHEMA = "monitor.check/1"
_SERVICE = "check"

app = single()


@app.command()
def check(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="URL", help="Servers to look at twice.")
    ] = None,
    *,
    page: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE[@TIME]", help="A saved page, maybe packed; '-' is stdin."),
    ] = None,
    interval: Annotated[
        float,
        typer.Option(min=0.1, max=3600, metavar="S", help="Seconds between two looks or pages."),
    ] = 15.0,
    window: Annotated[
        float, typer.Option(min=1, metavar="S", help="Seconds judged; earlier pages are history.")
    ] = DEFAULT_WINDOW,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="FILE|NAME", help="TPOT without speculation: JSON file, or stored."),
    ] = None,
    database: DatabaseOption = None,
    engine: EngineOption = AUTO,
    num_speculative_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, max=128, metavar="K", help="Proposed tokens per draft, if the page cannot tell."
        ),
    ] = None,
    tps: Annotated[
        float | None,
        typer.Option(metavar="X", help="Measured single-stream tokens/s with speculation."),
    ] = None,
    baseline_tps: Annotated[
        float | None, typer.Option(metavar="Y", help="The same without speculation.")
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(
            metavar="R", help="Acceptance rate below which it is degraded without a gain."
        ),
    ] = 0.40,
    bearer_file: BearerFileOption = None,
    bearer_env: BearerEnvOption = None,
    ca_file: CaFileOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    insecure: InsecureOption = False,
    json: JsonOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every figure.")] = False,
) -> int:
    """Tell whether speculation pays on a server, from two looks or from saved pages."""
    if bool(targets) == bool(page):
        raise ConfigError("give URLs to look at or --page FILE, one of the two")
    judge = judge_settings(
        window,
        _share("--threshold", threshold),
        find_baseline(baseline, database) if baseline else None,
        _speeds(tps, baseline_tps),
    )
    common = {
        "judge": judge,
        "engine": checked("--engine", parse_engine, engine),
        "draft_size": num_speculative_tokens,
    }
    if page:
        answers = [_check_pages(page, interval, common)]
    else:
        credentials = read_credentials(
            bearer_file, bearer_env, ca_file, cert, key, verify=not insecure
        )
        answers = _check_urls(targets or [], interval, common | {"credentials": credentials})
    return _show(answers, as_json=json, verbose=verbose)


def _check_pages(arguments: list[str], interval: float, common: Mapping[str, Any]) -> Assessment:
    pages = parse_pages(arguments, interval, SystemClock().utc())
    first = pages[0].file
    settings = TargetSettings(
        name="standard input" if first == STDIN else first,
        service=_SERVICE,
        url="",
        interval=spacing([page.at for page in pages], interval),
        gap=widest([page.at for page in pages]),
        **common,
    )
    return judge_series(read_pages(pages), settings)


def _check_urls(urls: list[str], interval: float, common: Mapping[str, Any]) -> list[Assessment]:
    # What talks to the network is not needed for saved pages.
    from monitor.sources.scrape import Scraper

    clock = SystemClock()
    targets = [_target(url, interval, common) for url in dict.fromkeys(urls)]

    def waiting() -> None:
        if sys.stderr.isatty():
            print_error(f"looked at {len(targets)}; again in {interval:g} s")

    found = look_twice(
        targets, interval=interval, clock=clock, open_fetcher=Scraper, waiting=waiting
    )
    if all(isinstance(answer, PageError) for answer in found):
        raise PageError("\n".join(str(answer) for answer in found))
    return [
        answer if isinstance(answer, Assessment) else unusable(target, str(answer), clock.utc())
        for target, answer in zip(targets, found, strict=True)
    ]


def _target(url: str, interval: float, common: Mapping[str, Any]) -> TargetSettings:
    address = checked("the URL of a target", parse_target_url, url)
    return TargetSettings(
        name=default_target_name(address),
        service=_SERVICE,
        url=address,
        interval=interval,
        **common,
    )


def _show(answers: list[Assessment], *, as_json: bool, verbose: bool) -> int:
    documents = [to_document(answer) for answer in answers]
    if as_json:
        print_json({"schema": SCHEMA, "targets": documents})
    else:
        from monitor.cli.render import print_assessments

        print_assessments(documents, verbose=verbose)
    return exits.worst(exits.exit_code(answer.verdict) for answer in answers)


def _share(option: str, value: float) -> float:
    if not 0 < value < 1:
        raise ConfigError(f"{option} must lie between 0 and 1")
    return value


def _speeds(tps: float | None, baseline_tps: float | None) -> QuickSpeeds | None:
    if tps is None and baseline_tps is None:
        return None
    if tps is None or baseline_tps is None:
        raise ConfigError("--tps and --baseline-tps go together: give both")
    slowest, fastest = 1.0 / SLOWEST_TPOT, 1.0 / FASTEST_TPOT
    if not all(slowest <= speed <= fastest for speed in (tps, baseline_tps)):
        raise ConfigError(
            f"--tps and --baseline-tps must lie between {slowest:g} and {fastest:,.0f} tokens/s"
        )
    return QuickSpeeds(tps, baseline_tps)
