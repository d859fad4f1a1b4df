"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from monitor.model import ConfigError, Engine

T = TypeVar("T")
V = TypeVar("V")

CONFIG_FILE = "monitor.yaml"
CONFIG_VARIABLE = "MONITOR_CONFIG"

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help=f"Configuration file; default ${CONFIG_VARIABLE}, else {CONFIG_FILE}.",
        show_default=False,
    ),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="MONITOR_DATABASE",
        metavar="URL",
        help="Database, instead of the configured one.",
        # The value may hold a password, which a help text must not repeat.
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of text.")
]

TargetOption = Annotated[str, typer.Option(metavar="NAME", help="Name of the target.")]
StartOption = Annotated[
    str, typer.Option(metavar="TIME", help="ISO time, epoch seconds or -2h: before now.")
]
EndOption = Annotated[str, typer.Option(metavar="TIME", help="The same, or now.")]

EngineOption = Annotated[
    str, typer.Option(metavar="NAME", help=f"auto, {', '.join(Engine)}; auto: from the page.")
]
BearerFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File that holds a bearer token.")
]
BearerEnvOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Variable that holds a bearer token.")
]
CaFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Authorities to trust (PEM).")
]
CertOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Client certificate (PEM).")]
KeyOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Key of the client certificate (PEM).")
]
InsecureOption = Annotated[
    bool, typer.Option("--insecure", help="Do not check the server's certificate.")
]


def checked(option: str, parse: Callable[[V], T], value: V) -> T:
    """What ``parse`` makes of the value of an option, or a ``ConfigError`` that names it."""
    try:
        return parse(value)
    except ValueError as error:
        raise ConfigError(f"{option} {error}") from None
