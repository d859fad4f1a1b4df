"""``monitor alerts export``: the rules in force as files for Prometheus and Alertmanager."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from monitor.cli import exits
from monitor.cli.locate import rules_in_force
from monitor.cli.options import ConfigOption
from monitor.config.problems import did_you_mean
from monitor.model import ConfigError
from monitor.prometheus.files import EXPORTS

KindArgument = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="prometheus: from the daemon's metrics; engines: from those of vLLM and SGLang; "
        "alertmanager: routes and mutings.",
    ),
]


def export(kind: KindArgument, *, config: ConfigOption = None) -> int:
    """Print the rules in force as a file for Prometheus or Alertmanager."""
    if kind not in EXPORTS:
        raise ConfigError(f"unknown kind '{kind}'; {did_you_mean(kind, EXPORTS)}")
    _paths, ruleset = rules_in_force(config)
    sys.stdout.write(EXPORTS[kind](ruleset.rules))
    return exits.OK
