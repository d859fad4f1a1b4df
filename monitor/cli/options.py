"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
