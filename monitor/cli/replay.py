"""``monitor replay``: what other rules, thresholds and policies would have done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from monitor.alerting.ruleset import load_rules
from monitor.cli import exits
from monitor.cli.apps import single
from monitor.cli.locate import database_url, find_config
from monitor.cli.options import ConfigOption, DatabaseOption, EndOption, JsonOption, checked
from monitor.cli.output import clean, print_json
from monitor.cli.render_replay import document, print_results
from monitor.cli.replay_settings import InForce, Sweep, build_variant, parse_sweep, with_setting
from monitor.cli.stored import stored
from monitor.cli.times import parse_point
from monitor.clock import SystemClock
from monitor.config.load import load_settings
from monitor.model import ConfigError
from monitor.replay.outcome import Found
from monitor.replay.run import Player, Replay
from monitor.replay.stage import Stage
from monitor.replay.variant import Variant
from monitor.settings import TargetSettings
from monitor.store.repository import Repository

app = single()

_TOLD_EVERY = 500


@app.command()
def replay(
    *,
    start: Annotated[
        str, typer.Option(metavar="TIME", help="ISO time, epoch seconds or -7d: before now.")
    ] = "-7d",
    end: EndOption = "now",
    service: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this one; repeatable.")
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Alert rules to try, beside those that are shipped."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML with the keys of a service's rollback section."),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="threshold=0.3, needed=2; repeatable."),
    ] = None,
    versus: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="The same for a second one, to compare with."),
    ] = None,
    versus_rules: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rules of the second one.")
    ] = None,
    versus_policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Policy of the second one.")
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(metavar="NAME=LOW:HIGH:STEP", help="Try each value in turn."),
    ] = None,
    gpus: Annotated[
        float | None,
        typer.Option(
            min=0.001, metavar="N", help="GPUs of each target. Default: its tensor parallelism."
        ),
    ] = None,
    noticed: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="When it was noticed. Default: the first stored alert."),
    ] = None,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Run rules, thresholds and rollback policies over the stored past; nothing is written."""
    read = partial(parse_point, now=SystemClock().utc())
    span = checked("--start", read, start), checked("--end", read, end)
    if span[0] >= span[1]:
        raise ConfigError("--start must lie before --end")
    was_noticed = None if noticed is None else checked("--noticed", read, noticed)
    in_force, configured = _in_force(config)
    first = build_variant(in_force, rules=rules, policy=policy, given=given or ())
    variants, swept = [first], None
    if versus or versus_rules or versus_policy:
        if sweep is not None:
            raise ConfigError("give one of --sweep and --versus")
        second = build_variant(
            in_force, rules=versus_rules, policy=versus_policy, given=versus or ()
        )
        variants.append(second)
    elif sweep is not None:
        swept = checked("--sweep", parse_sweep, sweep)
        variants = _swept(first, swept)
    with stored(database_url(database, config)) as repository:
        stage = Stage(repository, *span, gpus)
        services = stage.players(_names(repository, service), configured)
        results = _run(services, variants, repository, span, was_noticed)
        notes = _notes(repository, span[0])
    if json:
        print_json(document(results, *span, notes))
    else:
        print_results(results, *span, notes, None if swept is None else swept.name)
    seen = any(found.looks for entries in results.values() for _, found in entries)
    return exits.OK if seen else exits.NO_VERDICT


def _in_force(config: Path | None) -> tuple[InForce, Mapping[str, TargetSettings]]:
    path = find_config(config)
    if path is None:
        return InForce(load_rules((), defaults=True).rules), {}
    settings = load_settings(path)
    names = dict.fromkeys(target.service for target in settings.targets)
    policies = {
        name: settings.rollbacks[name].policy for name in names if name in settings.rollbacks
    }
    known = {target.name: target for target in settings.targets}
    return InForce(settings.rules, policies), known


def _swept(first: Variant, sweep: Sweep) -> list[Variant]:
    return [
        with_setting(replace(first, name=f"{value:g}"), sweep.name, value)
        for value in sweep.values
    ]


def _names(repository: Repository, services: Sequence[str] | None) -> list[str]:
    known = repository.statuses()
    for wanted in services or ():
        if wanted not in {found.service for found in known}:
            raise ConfigError(f"there is no service {clean(wanted, 100)!r} in the database")
    return [
        target.target
        for found in known
        if not services or found.service in services
        for target in found.targets
    ]


def _run(
    services: Mapping[str, Sequence[Player]],
    variants: Sequence[Variant],
    repository: Repository,
    span: tuple[float, float],
    was_noticed: float | None,
) -> dict[str, list[tuple[str, Found]]]:
    results: dict[str, list[tuple[str, Found]]] = {}
    with _progress(len(services) * len(variants), span) as tick:
        for service, players in services.items():
            told = repository.first_told(service)
            for variant in variants:
                run = Replay(service, players, variant, span[0])
                noticed = partial(_noticed, was_noticed, told)
                found = run.run(noticed, tick(f"{service} {variant.name}"))
                results.setdefault(service, []).append((variant.name, found))
    return results


def _noticed(
    given: float | None, told: Sequence[tuple[float, float | None]], at: float
) -> float | None:
    """What was said, or the first message about an incident that was not over by then."""
    if given is not None:
        return given
    return min((when for when, ended in told if ended is None or ended > at), default=None)


def _notes(repository: Repository, start: float) -> list[str]:
    kept = repository.seconds_kept(start)
    if not kept:
        return []
    return [
        f"of the beginning only sums of {kept} s are kept: windows are no finer there, and alerts"
        " come that much later"
    ]


@contextmanager
def _progress(
    runs: int, span: tuple[float, float]
) -> Iterator[Callable[[str], Callable[[float], None]]]:
    """Progress on standard error, where somebody watches it."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("replay", total=runs * (span[1] - span[0]))
        done = -1

        def begin(name: str) -> Callable[[float], None]:
            nonlocal done
            done += 1
            base, looks = done * (span[1] - span[0]), 0

            def tick(at: float) -> None:
                nonlocal looks
                looks += 1
                if looks % _TOLD_EVERY == 0:
                    bar.update(task, completed=base + at - span[0], description=clean(name, 40))

            return tick

        yield begin
