"""``monitor baseline bench``: a small load run against one server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import SecretStr

from monitor.baselines.bench import Ladder, LevelResult, choose_path, run_ladder
from monitor.baselines.documents import baseline_document, level_document
from monitor.baselines.prompts import read_prompts
from monitor.baselines.recorder import Plan, Recorder, RefusedError
from monitor.baselines.runs import points_of
from monitor.baselines.stream import HttpTransport, Request, RequestError, first_model
from monitor.cli import exits
from monitor.cli.baseline_new import (
    ActivateOption,
    NameOption,
    ServiceName,
    check_standing,
)
from monitor.cli.credentials import read_secret
from monitor.cli.locate import database_url
from monitor.cli.options import ConfigOption, DatabaseOption, JsonOption, checked
from monitor.cli.output import print_error, print_json
from monitor.cli.render_baseline import print_levels, print_stored
from monitor.cli.stored import storing
from monitor.cli.whoami import whoami
from monitor.clock import Clock, SystemClock
from monitor.config.values import AUTO, check_name, default_target_name, parse_base_url
from monitor.health.baseline import Baseline
from monitor.model import ConfigError, Identity
from monitor.settings import Credentials, Role, TargetSettings
from monitor.sources.scrape import Scraper
from monitor.store.baseline_rows import NewBaseline, Origin, Provenance, StoredBaseline
from monitor.store.baselines import check_baseline_name
from monitor.store.repository import Repository

SCHEMA = "monitor.bench/1"
_MOST_THREADS = 512
_FORCE = "--force stores it all the same"
_NO_GAP = 86_400.0


class Side(StrEnum):
    """Which side of a service is measured."""

    BASELINE = "baseline"
    SPECULATIVE = "speculative"


class Endpoint(StrEnum):
    """What is asked."""

    AUTO = "auto"
    COMPLETIONS = "completions"
    CHAT = "chat"


def bench(
    url: Annotated[str, typer.Argument(metavar="URL", help="The server to put load on.")],
    *,
    service: ServiceName,
    side: Annotated[
        Side, typer.Option(help="baseline is stored, speculative is compared with it.")
    ] = Side.BASELINE,
    name: NameOption = None,
    concurrency: Annotated[
        str, typer.Option(metavar="N,N,...", help="Requests in flight, one level each.")
    ] = "1,2,4,8,16,32",
    seconds_per_level: Annotated[
        float, typer.Option(min=1, max=3600, metavar="S", help="Time of a level.")
    ] = 20.0,
    requests_per_level: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Requests of a level, instead of its time."),
    ] = None,
    output_tokens: Annotated[
        int, typer.Option(min=2, max=32_768, metavar="N", help="Tokens of each answer.")
    ] = 128,
    prompts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Prompts, one a line; else built-in ones.")
    ] = None,
    model: Annotated[
        str, typer.Option(metavar="NAME", help="Model; auto: the first the server names.")
    ] = AUTO,
    endpoint: Annotated[
        Endpoint, typer.Option(help="auto: completions where there are, else chat.")
    ] = Endpoint.AUTO,
    timeout: Annotated[
        float,
        typer.Option(min=1, max=3600, metavar="S", help="Seconds that one request may take."),
    ] = 120.0,
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File that holds the API key.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Variable that holds the API key.")
    ] = None,
    activate: ActivateOption = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Store it even if the server speculates, or an alert is open."
        ),
    ] = False,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Put a ladder of load on a server; only the URL given is ever asked."""
    owner = checked("--service", check_name, service)
    chosen = checked("--name", check_baseline_name, name or "bench")
    base = _base_url(url)
    ladder = Ladder(
        levels=_levels(concurrency),
        seconds=seconds_per_level,
        requests=requests_per_level,
        timeout=timeout,
        prompts=checked(f"--prompts {prompts}:", read_prompts, prompts) if prompts else (),
    )
    secret = read_secret(api_key_file, api_key_env, "--api-key")
    clock = SystemClock()
    with storing(database_url(database, config)) as repository:
        against = _against(repository, owner, side)
        if side is Side.BASELINE:
            check_standing(repository, owner, force=force, way_out=_FORCE)
        load = _Load(base, secret, clock, refuse=side is Side.BASELINE and not force)
        start = clock.utc()
        results = load.run(model, output_tokens, endpoint, ladder)
        found = None
        if side is Side.BASELINE:
            parameters = {
                "url": base,
                "concurrency": concurrency,
                "seconds_per_level": seconds_per_level,
                "requests_per_level": requests_per_level,
                "output_tokens": output_tokens,
                "prompts": prompts.name if prompts is not None else "built-in",
                "endpoint": load.path,
            }
            standing = check_standing(repository, owner, force=force, way_out=_FORCE)
            new = _new(chosen, results, load, parameters, (start, clock.utc()))
            new = replace(new, reason=new.reason or standing)
            found = repository.baselines.save(owner, new, clock.utc(), activate=activate)
    _print(results, against, found, load.notes, as_json=json)
    return exits.OK


class _Load:
    """A load run on one server, watched on its metrics page where it has one."""

    def __init__(self, base: str, secret: SecretStr | None, clock: Clock, *, refuse: bool) -> None:
        self._base, self._secret, self._clock = base, secret, clock
        settings = TargetSettings(
            name=default_target_name(base),
            service="bench",
            url=f"{base}/metrics",
            role=Role.BASELINE,
            gap=_NO_GAP,
            credentials=Credentials(bearer=secret),
        )
        self._scraper = Scraper(settings)
        self._recorder = Recorder(settings, Plan(0.0, 0.0, force=not refuse))
        self._unseen: str | None = None
        self.model = ""
        self.path = ""

    def run(
        self, model: str, output_tokens: int, endpoint: Endpoint, ladder: Ladder
    ) -> list[LevelResult]:
        """The ladder; raises ``ConfigError`` for a server that speculates, if that matters."""
        transport = HttpTransport(self._base, timeout=ladder.timeout, api_key=self._secret)
        with closing(transport), closing(self._scraper):
            self._look()
            self.model = self._first_model(transport) if model == AUTO else model
            request = Request(self.model, output_tokens, chat=endpoint is Endpoint.CHAT)
            if endpoint is Endpoint.AUTO:
                request = choose_path(
                    transport, self.model, output_tokens, ladder.timeout, self._clock
                )
            self.path = request.path
            return run_ladder(
                transport,
                request,
                ladder,
                clock=self._clock,
                before=lambda level: print_error(f"concurrency {level} ..."),
                after=lambda _: self._look(),
            )

    def _first_model(self, transport: HttpTransport) -> str:
        try:
            return first_model(transport)
        except RequestError as error:
            raise ConfigError(f"{default_target_name(self._base)}: {error}") from None

    def _look(self) -> None:
        try:
            problem = self._recorder.look(self._scraper, self._clock)
        except RefusedError as error:
            raise ConfigError(
                f"{self._base} must not become a baseline: {error} (--side speculative compares"
                f" it, {_FORCE})"
            ) from None
        self._unseen = self._unseen or problem

    @property
    def identity(self) -> Identity:
        """What the metrics page said of the server; else the model that was asked for."""
        found = self._recorder.identity
        return found._replace(model=found.model or self.model)

    @property
    def reason(self) -> str | None:
        """Why the server should not have become a baseline."""
        return self._recorder.reason

    @property
    def notes(self) -> list[str]:
        """What the metrics page could not tell."""
        if self._unseen is None:
            return []
        return [f"whether it speculates was not checked: no metrics page ({self._unseen})"]


def _base_url(url: str) -> str:
    base = checked("the URL of a server", parse_base_url, url)
    for ending in ("/metrics", "/chat/completions", "/completions", "/v1"):
        base = base.removesuffix(ending)
    return base.rstrip("/")


def _levels(text: str) -> tuple[int, ...]:
    try:
        levels = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise ConfigError("--concurrency must be whole numbers such as 1,2,4") from None
    if not 1 <= levels[0] <= levels[-1] <= _MOST_THREADS:
        raise ConfigError(f"--concurrency must lie between 1 and {_MOST_THREADS}")
    return tuple(levels)


def _against(repository: Repository, service: str, side: Side) -> Baseline | None:
    if side is Side.BASELINE:
        return None
    found = repository.baselines.active(service)
    if found is None:
        raise ConfigError(
            f"service {service!r} has no active baseline to compare with: measure the other"
            " side first, with --activate"
        )
    return found


def _new(
    name: str,
    results: Sequence[LevelResult],
    load: _Load,
    parameters: dict[str, object],
    span: tuple[float, float],
) -> NewBaseline:
    provenance = Provenance(
        how=Origin.BENCH,
        tool="monitor",
        parameters=parameters,
        who=whoami(),
        start=span[0],
        end=span[1],
        notes=tuple(load.notes),
    )
    points = points_of([result.run for result in results])
    return NewBaseline(name, points, load.identity, provenance, reason=load.reason)


def _print(
    results: Sequence[LevelResult],
    against: Baseline | None,
    found: StoredBaseline | None,
    notes: Sequence[str],
    *,
    as_json: bool,
) -> None:
    levels = [level_document(result, against) for result in results]
    for note in notes:
        print_error(note)
    if as_json:
        document: dict[str, Any] = {"schema": SCHEMA, "levels": levels}
        document["against"] = against.name if against is not None else None
        document["baseline"] = baseline_document(found) if found is not None else None
        print_json(document)
        return
    print_levels(levels, against=against.name if against is not None else None)
    if found is not None:
        print_stored(baseline_document(found))
