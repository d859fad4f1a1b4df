"""Loads, checks and shows configurations: what the rest of the program calls."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from monitor.config import files
from monitor.config.build import build, database_of, grafana_of, named_mistakes
from monitor.config.problems import Problem, Source
from monitor.config.schema import Config
from monitor.config.validate import validate
from monitor.config.yaml_tree import YamlError, parse_yaml
from monitor.settings import DaemonSettings, GrafanaSettings

MAX_BYTES = 1_000_000
"""A configuration of a thousand targets takes a tenth of this."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid configuration and where it came from."""

    config: Config
    source: Source

    def settings(self, environ: Mapping[str, str] = os.environ) -> DaemonSettings:
        """The settings of the daemon; reads secrets and curves."""
        return build(self.config, self.source, environ)

    def database(self, environ: Mapping[str, str] = os.environ) -> str:
        """The database URL, password included."""
        return database_of(self.config, self.source, environ)

    def grafana(self, environ: Mapping[str, str] = os.environ) -> GrafanaSettings | None:
        """Where the dashboards are brought to, if that is configured."""
        return grafana_of(self.config, self.source, environ)


def load(path: Path) -> Loaded:
    """Reads and checks a configuration file.

    Raises:
        ConfigError: with one line for each mistake.
    """
    source = Source(str(path), path.absolute().parent)
    try:
        text = files.decode(files.read_limited(path, MAX_BYTES))
    except ValueError as error:
        raise source.error([Problem((), str(error))]) from None
    return loads(text, source)


def loads(text: str, source: Source, environ: Mapping[str, str] = os.environ) -> Loaded:
    """The same for a text that is already there."""
    try:
        tree = parse_yaml(text)
    except YamlError as error:
        raise source.error(error.problems) from None
    source = Source(source.name, source.folder, tree.lines)
    config, problems = validate(tree.data, lambda config: named_mistakes(config, source, environ))
    if config is None:
        raise source.error(problems)
    return Loaded(config, source)


def load_settings(path: Path, environ: Mapping[str, str] = os.environ) -> DaemonSettings:
    """The settings that a configuration file leads to."""
    return load(path).settings(environ)


def redacted(config: Config) -> dict[str, Any]:
    """Every key with its effective value, ready to be shown.

    There is nothing to blot out: the models hold the places of secrets, never secrets.
    """
    return config.model_dump(mode="json", exclude_none=True)


def to_yaml(config: Config, *, ascii_only: bool = False) -> str:
    """YAML that loads to an equal configuration."""
    return yaml.safe_dump(redacted(config), sort_keys=False, allow_unicode=not ascii_only)
