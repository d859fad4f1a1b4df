"""Finds the configuration and the database that a command is to use."""

from __future__ import annotations

import os
from pathlib import Path

from monitor.alerting.ruleset import Ruleset, load_rules
from monitor.cli.options import CONFIG_FILE, CONFIG_VARIABLE, checked
from monitor.config.load import load
from monitor.config.schema import DEFAULT_DATABASE
from monitor.config.values import check_secret_database_url


def named_config(given: Path | None) -> Path | None:
    """The configuration file that was asked for by option or variable."""
    variable = os.environ.get(CONFIG_VARIABLE)
    return given or (Path(variable) if variable else None)


def find_config(given: Path | None) -> Path | None:
    """The same, or the one in the current folder, if there is one."""
    local = Path(CONFIG_FILE)
    return named_config(given) or (local if local.exists() else None)


def checked_database(url: str) -> str:
    """``--database``, or a ``ConfigError`` that does not repeat it."""
    return checked("--database", check_secret_database_url, url)


def database_url(database: str | None, config: Path | None) -> str:
    """The database that a reading command is to look into."""
    if database is not None:
        return checked_database(database)
    path = find_config(config)
    return DEFAULT_DATABASE if path is None else load(path).database()


def rules_in_force(config: Path | None) -> tuple[list[Path], Ruleset]:
    """The user's own rule files, and what they add up to on top of the shipped rules."""
    found = find_config(config)
    if found is None:
        return [], load_rules([])
    loaded = load(found)
    alerts = loaded.config.alerts
    paths = [loaded.source.folder / name for name in alerts.rules]
    return paths, load_rules(paths, defaults=alerts.default_rules)
