"""``monitor run``: the daemon."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.apps import single
from monitor.cli.locate import checked_database, find_config, named_config
from monitor.cli.options import ConfigOption, DatabaseOption, checked
from monitor.clock import SystemClock
from monitor.config.build import build
from monitor.config.load import load, redacted
from monitor.config.problems import Source
from monitor.config.schema import Config
from monitor.config.validate import validate
from monitor.config.values import host_of, parse_listen, parse_target_url
from monitor.daemon import Daemon
from monitor.logs import configure
from monitor.model import ConfigError
from monitor.settings import DaemonSettings

app = single()


class LogFormat(StrEnum):
    """How lines of the log look."""

    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """The least important lines that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@app.command()
def run(
    *,
    config: ConfigOption = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL", help="A server to watch, without or besides a file; repeat it."
        ),
    ] = None,
    database: DatabaseOption = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address of the web server."),
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="Format of the log.")] = LogFormat.CONSOLE,
    log_level: Annotated[LogLevel, typer.Option(help="Least level logged.")] = LogLevel.INFO,
) -> int:
    """Watch all configured targets until stopped; SIGHUP reads the configuration anew."""

    def load_anew() -> DaemonSettings:
        return read_settings(config, target or [], database=database, listen=listen)

    settings = load_anew()
    configure(as_json=log_format is LogFormat.JSON, level=log_level)
    return Daemon(settings, load=load_anew, clock=SystemClock()).run()


def read_settings(
    file: Path | None,
    urls: Sequence[str],
    *,
    database: str | None = None,
    listen: str | None = None,
) -> DaemonSettings:
    """The settings from a file, from flags, or from both; flags win."""
    path = named_config(file) if urls else find_config(file)
    config, source = _read_config(path, urls)
    if listen is not None:
        config = config.model_copy(update={"listen": _checked_listen(listen)})
    if database is None:
        return build(config, source, os.environ)
    # A URL from the command line may hold a password, so it never enters the configuration,
    # which is shown and hashed.
    unset = {"database": None, "database_env": None, "database_file": None}
    settings = build(config.model_copy(update=unset), source, os.environ)
    return replace(settings, database=checked_database(database))


def _read_config(path: Path | None, urls: Sequence[str]) -> tuple[Config, Source]:
    if path is None and not urls:
        raise ConfigError(
            "nothing to watch: give --target URL or -c FILE ('monitor config init' writes one)"
        )
    source = Source("command line")
    document: dict[str, object] = {}
    services: list[object] = []
    if path is not None:
        loaded = load(path)
        if not urls:
            return loaded.config, loaded.source
        source = Source(f"{path} with --target", loaded.source.folder)
        document = redacted(loaded.config)
        services = list(redacted(loaded.config)["services"])
    document["services"] = [*services, *_services(urls)]
    config, problems = validate(document)
    if config is None:
        raise source.error(problems)
    return config, source


def _services(urls: Sequence[str]) -> list[dict[str, object]]:
    """One service for each host, in the order of the flags."""
    hosts: dict[str, list[str]] = {}
    for url in dict.fromkeys(urls):
        address = checked("--target", parse_target_url, url)
        hosts.setdefault(host_of(address), []).append(address)
    return [{"name": h, "speculative": {"targets": targets}} for h, targets in hosts.items()]


def _checked_listen(text: str) -> str:
    checked("--listen", parse_listen, text)
    return text
