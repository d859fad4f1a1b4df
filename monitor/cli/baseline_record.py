"""``monitor baseline record``: watches a live server without speculation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from monitor.baselines import recorder
from monitor.baselines.recorder import Plan, Recording, RefusedError
from monitor.cli import exits
from monitor.cli.baseline_new import (
    ActivateOption,
    NameOption,
    ServiceName,
    check_standing,
    print_kept,
)
from monitor.cli.credentials import read_credentials
from monitor.cli.locate import database_url
from monitor.cli.options import (
    BearerEnvOption,
    BearerFileOption,
    CaFileOption,
    CertOption,
    ConfigOption,
    DatabaseOption,
    EngineOption,
    InsecureOption,
    JsonOption,
    KeyOption,
    checked,
)
from monitor.cli.output import as_ascii, is_plain_terminal, print_error
from monitor.cli.stored import storing
from monitor.cli.whoami import whoami
from monitor.clock import SystemClock
from monitor.config.values import (
    AUTO,
    check_name,
    default_target_name,
    parse_duration,
    parse_engine,
    parse_target_url,
)
from monitor.model import ConfigError, Engine
from monitor.settings import Credentials, Role, TargetSettings
from monitor.sources.scrape import Scraper
from monitor.store.baseline_rows import NewBaseline, Origin, Provenance
from monitor.store.baselines import check_baseline_name

_MINUTE = 60.0
_DEFAULT_MINUTES = 30.0
_FORCE = "--force stores it all the same"


def record(
    url: Annotated[str, typer.Argument(metavar="URL", help="A server without speculation.")],
    *,
    service: ServiceName,
    name: NameOption = None,
    minutes: Annotated[
        float, typer.Option(min=0.1, max=10_080, metavar="M", help="Time after which it ends.")
    ] = _DEFAULT_MINUTES,
    bins: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Loads to cover; it ends as soon as all are."),
    ] = None,
    interval: Annotated[str, typer.Option(metavar="T", help="Time between two looks: 5s.")] = "5s",
    engine: EngineOption = AUTO,
    activate: ActivateOption = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Store what was covered when it is interrupted.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Store it even if the server must not be a baseline, or an alert is open.",
        ),
    ] = False,
    bearer_file: BearerFileOption = None,
    bearer_env: BearerEnvOption = None,
    ca_file: CaFileOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    insecure: InsecureOption = False,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Watch a live server without speculation; it sends no traffic of its own."""
    owner = checked("--service", check_name, service)
    chosen = checked("--name", check_baseline_name, name or "recorded")
    plan = _plan(minutes * _MINUTE, interval, bins, force=force)
    credentials = read_credentials(
        bearer_file, bearer_env, ca_file, cert, key, verify=not insecure
    )
    settings = _target(url, owner, plan, checked("--engine", parse_engine, engine), credentials)
    with storing(database_url(database, config)) as repository:
        # First, so that half an hour does not end with a mistake that was there before it.
        check_standing(repository, owner, force=force, way_out=_FORCE)
        recording = _record(settings, plan)
        if recording.interrupted and not (keep and recording.points):
            _explain_interrupt(recording, keep=keep)
            return exits.INTERRUPTED
        if recording.reason is not None and not (force and recording.points):
            raise ConfigError(f"{settings.name} is not stored as a baseline: {recording.reason}")
        standing = check_standing(repository, owner, force=force, way_out=_FORCE)
        parameters: dict[str, object] = {"minutes": minutes, "bins": bins, "url": settings.url}
        new = _new(chosen, recording, settings, parameters)
        new = replace(new, reason=new.reason or standing)
        now = SystemClock().utc()
        found = repository.baselines.save(owner, new, now, activate=activate)
    if recording.missing:
        print_error(f"not covered: {_list(recording.missing)} running requests")
    print_kept(found, as_json=json)
    return exits.OK


def _plan(seconds: float, interval: str, bins: str | None, *, force: bool) -> Plan:
    step = checked("--interval", parse_duration, interval)
    if not 1.0 <= step <= seconds:
        raise ConfigError("--interval must be at least 1s and fit into --minutes")
    wanted = checked("--bins", recorder.parse_bins, bins) if bins is not None else ()
    return Plan(seconds, step, wanted, force)


def _target(
    url: str, service: str, plan: Plan, engine: Engine | None, credentials: Credentials
) -> TargetSettings:
    address = checked("the URL of a server", parse_target_url, url)
    return TargetSettings(
        name=default_target_name(address),
        service=service,
        url=address,
        role=Role.BASELINE,
        engine=engine,
        interval=plan.interval,
        credentials=credentials,
    )


def _record(settings: TargetSettings, plan: Plan) -> Recording:
    with _shown(plan) as shown, Scraper(settings) as scraper:
        try:
            return recorder.record(
                settings, plan, clock=SystemClock(), fetcher=scraper, shown=shown
            )
        except RefusedError as error:
            raise ConfigError(
                f"{settings.name} must not become a baseline: {error} ({_FORCE})"
            ) from None


def _new(
    name: str,
    recording: Recording,
    settings: TargetSettings,
    parameters: dict[str, object],
) -> NewBaseline:
    provenance = Provenance(
        how=Origin.RECORD,
        tool="monitor",
        parameters={**parameters, "interval": settings.interval, "looks": recording.looks},
        who=whoami(),
        start=recording.start,
        end=recording.end,
        notes=recording.notes,
    )
    return NewBaseline(
        name, recording.points, recording.identity, provenance, reason=recording.reason
    )


def _explain_interrupt(recording: Recording, *, keep: bool) -> None:
    if keep or not recording.points:
        print_error("interrupted before a load was covered; nothing is stored")
    else:
        loads = _list(tuple(point.running for point in recording.points))
        print_error(f"interrupted; nothing is stored (--keep would have kept loads {loads})")


def _list(loads: tuple[float, ...]) -> str:
    return ", ".join(f"{load:.3g}" for load in loads)


@contextmanager
def _shown(plan: Plan) -> Iterator[Callable[[recorder.Progress], None]]:
    """A bar on a terminal's standard error; elsewhere one line for each load covered."""
    if not sys.stderr.isatty():
        yield _line_printer()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeRemainingColumn(),
        TextColumn("{task.fields[loads]}"),
    )
    # The bar takes the streams over, after which they no longer tell what they can show.
    plain = is_plain_terminal()
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("watching", total=plan.seconds, loads="")

        def show(progress: recorder.Progress) -> None:
            loads = _loads(progress, plain=plain)
            bar.update(task, completed=progress.elapsed, loads=loads)

        yield show


def _loads(progress: recorder.Progress, *, plain: bool) -> str:
    """``1 ok  4 60 %  16 0 %``: each load with how much of it has been seen."""
    done = "ok" if plain else "✓"
    parts = [
        f"{load:g} {done if load in progress.covered else f'{share * 100.0:.0f} %'}"
        for load, share in progress.shares.items()
    ]
    shown = "  ".join(parts) or "no traffic yet"
    text = f"{shown}  ({progress.problem})" if progress.problem else shown
    return as_ascii(text) if plain else text


def _line_printer() -> Callable[[recorder.Progress], None]:
    known: set[float] = set()

    def show(progress: recorder.Progress) -> None:
        for load in set(progress.covered) - known:
            known.add(load)
            print_error(f"covered {load:g} running requests after {progress.elapsed:.0f} s")

    return show
