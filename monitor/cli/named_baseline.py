"""Finds the baseline that ``--baseline FILE|NAME`` means."""

# Files need no database, and it takes longer to import than a check takes to run.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.baseline_file import load_baseline
from monitor.health.baseline import Baseline
from monitor.model import ConfigError, StoreError

if TYPE_CHECKING:
    from monitor.store.repository import Repository


def find_baseline(argument: str, database: str | None) -> Baseline:
    """The curve in a file of that name, else the stored baseline of that name."""
    if is_file_name(argument):
        return load_baseline(Path(argument))
    from monitor.cli.locate import checked_database
    from monitor.cli.stored import stored
    from monitor.config.schema import DEFAULT_DATABASE

    try:
        with stored(checked_database(database or DEFAULT_DATABASE)) as repository:
            return stored_baseline(argument, repository)
    except StoreError as error:
        raise ConfigError(
            f"baseline {argument!r} is no file, and cannot be looked up: {error}"
        ) from None


def stored_baseline(argument: str, repository: Repository, service: str | None = None) -> Baseline:
    """The same where the database is open already; names of ``service`` come first."""
    if is_file_name(argument):
        return load_baseline(Path(argument))
    return repository.baselines.find(service, argument).baseline


def is_file_name(argument: str) -> bool:
    """Whether a file is meant: there is one, or the text looks like nothing else."""
    return os.sep in argument or argument.endswith(".json") or Path(argument).exists()
