"""``monitor backfill``: the past of servers, filled in as if they had been watched."""

from __future__ import annotations

import sys
from contextlib import closing
from functools import partial
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from monitor.backfill.dump import DumpSource, matchers_in
from monitor.backfill.exported import ExportSource
from monitor.backfill.pages import PagesSource
from monitor.backfill.prometheus import PrometheusSource
from monitor.cli.apps import group
from monitor.cli.backfill_run import read_setting, run_backfill
from monitor.cli.credentials import read_credentials, read_secret
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
    TargetOption,
    checked,
)
from monitor.cli.times import parse_point
from monitor.clock import SystemClock
from monitor.config.values import AUTO, parse_base_url, parse_engine
from monitor.model import ConfigError
from monitor.sources.files import STDIN
from monitor.sources.logs import LogFiles, LogSettings, in_order
from monitor.sources.promql import PrometheusApi
from monitor.store.text import public_url

app = group(
    "Fill in the past from Prometheus, saved pages, dumps or logs, as if watched.",
    epilog="Running it again changes nothing; interrupted, it goes on where it stopped.",
)

ServiceOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Service of targets that are not configured."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Do everything but write, and say what was found.")
]
FromOption = Annotated[
    str | None,
    typer.Option("--start", metavar="TIME", help="ISO time, epoch seconds or -30d: before now."),
]
UntilOption = Annotated[str, typer.Option("--end", metavar="TIME", help="The same, or now.")]
OneTargetOption = Annotated[
    str | None, typer.Option("--target", metavar="NAME", help="Name for all that is found.")
]
LabelOption = Annotated[str, typer.Option(metavar="LABEL", help="Label that tells targets apart.")]


@app.command()
def prometheus(
    url: Annotated[str, typer.Argument(metavar="URL", help="What stands before /api/v1.")],
    *,
    start: Annotated[
        str, typer.Option(metavar="TIME", help="ISO time, epoch seconds or -30d: before now.")
    ],
    end: UntilOption = "now",
    query_labels: Annotated[
        str, typer.Option(metavar="MATCHERS", help='Which series: job="vllm",cluster="a".')
    ] = "",
    target_label: LabelOption = "instance",
    target: OneTargetOption = None,
    service: ServiceOption = None,
    org: Annotated[
        str | None, typer.Option(metavar="ID", help="X-Scope-OrgID, the tenant of Mimir.")
    ] = None,
    username: Annotated[
        str | None, typer.Option(metavar="NAME", help="For basic authentication.")
    ] = None,
    password_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File that holds its password.")
    ] = None,
    password_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Variable that holds its password.")
    ] = None,
    bearer_file: BearerFileOption = None,
    bearer_env: BearerEnvOption = None,
    ca_file: CaFileOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    insecure: InsecureOption = False,
    timeout: Annotated[
        float, typer.Option(min=1, metavar="S", help="Seconds for one answer.")
    ] = 60.0,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> int:
    """Read raw series of Prometheus, VictoriaMetrics, Mimir or Thanos."""
    span = _span(start, end)
    setting = read_setting(config, database)
    address = checked("the URL", parse_base_url, url)
    credentials = read_credentials(
        bearer_file,
        bearer_env,
        ca_file,
        cert,
        key,
        verify=not insecure,
        username=username,
        password=read_secret(password_file, password_env, "--password"),
    )
    naming = setting.naming(target_label, service, target)
    api = PrometheusApi(address, credentials, clock=SystemClock(), org=org, timeout=timeout)
    with closing(api):
        source = PrometheusSource(api, query_labels, *span, naming.name_of)
        return run_backfill(
            setting,
            source,
            naming,
            name=public_url(address),
            span=span,
            dry_run=dry_run,
            as_json=json,
        )


@app.command()
def pages(
    path: Annotated[
        Path, typer.Argument(metavar="DIR|INDEX.json", help="Saved pages of one server.")
    ],
    *,
    target: TargetOption,
    select: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only pages whose entry in the index says so."),
    ] = None,
    start: FromOption = None,
    end: UntilOption = "now",
    service: ServiceOption = None,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> int:
    """Read pages that were saved one by one, with the time each was taken at."""
    span = _span(start, end)
    setting = read_setting(config, database)
    naming = setting.naming(service=service, target=target)
    _look_for(path)
    source = PagesSource(target, path, checked("--select", matchers_in, select or []))
    return run_backfill(
        setting,
        source,
        naming,
        name=str(path),
        span=span,
        dry_run=dry_run,
        as_json=json,
    )


@app.command()
def logs(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Log of one server, rotated or not; '-' is stdin."),
    ],
    *,
    target: TargetOption,
    engine: EngineOption = AUTO,
    tz: Annotated[
        str, typer.Option(metavar="ZONE", help="Time zone of the server, such as Europe/Berlin.")
    ] = "UTC",
    year: Annotated[
        int | None,
        typer.Option(
            min=2022,
            max=2999,
            metavar="YEAR",
            help="Year of the first line, where stamps have none.",
        ),
    ] = None,
    num_speculative_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, max=128, metavar="K", help="Proposed tokens per draft, if the log cannot tell."
        ),
    ] = None,
    start: FromOption = None,
    end: UntilOption = "now",
    service: ServiceOption = None,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> int:
    """Read the log of a vLLM or SGLang server."""
    span = _span(start, end)
    setting = read_setting(config, database)
    naming = setting.naming(service=service, target=target)
    kind = checked("--engine", parse_engine, engine)
    known = naming.settings([target])[target]
    _look_for(*files)
    piped = Path(STDIN) in files
    source = LogFiles(
        in_order(files),
        LogSettings(
            target=target,
            engine=kind or known.engine,
            zone=checked("--tz", _zone, tz),
            year=year,
            now=SystemClock().utc(),
            draft_size=num_speculative_tokens or known.draft_size,
        ),
        pipe=BufferedReader(FileIO(sys.stdin.fileno(), closefd=False)) if piped else None,
    )
    return run_backfill(
        setting,
        source,
        naming,
        name=", ".join(map(str, files)),
        span=span,
        dry_run=dry_run,
        as_json=json,
    )


@app.command()
def openmetrics(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Series with times; '-' is standard input.")
    ],
    *,
    query_labels: Annotated[
        str, typer.Option(metavar="LABELS", help='Which series: job="vllm",cluster="a".')
    ] = "",
    target_label: LabelOption = "instance",
    target: OneTargetOption = None,
    start: FromOption = None,
    end: UntilOption = "now",
    service: ServiceOption = None,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> int:
    """Read a dump: OpenMetrics, exposition format with times, or 'promtool tsdb dump'."""
    span = _span(start, end)
    setting = read_setting(config, database)
    naming = setting.naming(target_label, service, target)
    matchers = checked("--query-labels", matchers_in, [query_labels])
    with closing(DumpSource(file, naming.name_of, matchers)) as source:
        return run_backfill(
            setting,
            source,
            naming,
            name=file,
            span=span,
            dry_run=dry_run,
            as_json=json,
        )


@app.command()
def export(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="What 'monitor export samples' wrote.")
    ],
    *,
    start: FromOption = None,
    end: UntilOption = "now",
    service: ServiceOption = None,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> int:
    """Read the samples of another monitor, as CSV or JSON lines."""
    span = _span(start, end)
    setting = read_setting(config, database)
    naming = setting.naming(service=service)
    return run_backfill(
        setting,
        ExportSource(file, naming.name_of),
        naming,
        name=file,
        span=span,
        dry_run=dry_run,
        as_json=json,
    )


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        raise ValueError(f"{name!r} is no time zone: write Europe/Berlin, or UTC") from None


def _span(start: str | None, end: str) -> tuple[float, float]:
    read = partial(parse_point, now=SystemClock().utc())
    first = 0.0 if start is None else checked("--start", read, start)
    last = checked("--end", read, end)
    if first >= last:
        raise ConfigError("--start must lie before --end")
    return first, last


def _look_for(*paths: Path) -> None:
    """Refuses what is not there, before a target of which nothing is known is stored for it."""
    for path in paths:
        if path != Path(STDIN) and not path.exists():
            raise ConfigError(f"{path}: no such file or folder")
