"""What a Grafana should have: data sources, dashboards and alert rules, as plain JSON values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from monitor.alerting.rules import Rule
from monitor.grafana.managed import GROUP, INTERVAL, managed_rules
from monitor.model import ConfigError
from monitor.resources import data_dir

FOLDER = "specdec"
FOLDER_TITLE = "Speculative decoding"
PROMETHEUS = "specdec-prometheus"
POSTGRESQL = "specdec-postgresql"
"""Uids of the data sources that are made here."""
POSTGRESQL_TYPE = "grafana-postgresql-datasource"


@dataclass(frozen=True, slots=True)
class Postgresql:
    """A database to read the history from."""

    address: str
    """``host:port``."""
    database: str
    user: str
    ssl_mode: str = "require"
    password: SecretStr | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Everything that a Grafana should have."""

    dashboards: Mapping[str, dict[str, Any]]
    """By uid."""
    datasources: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """By uid; without secrets."""
    secrets: Mapping[str, Mapping[str, SecretStr]] = field(default_factory=dict)
    """By uid of the data source."""
    rules: list[dict[str, Any]] = field(default_factory=list)
    """Of the one group that there is."""


def wanted(
    rules: Iterable[Rule] | None,
    *,
    prometheus: str | None = None,
    datasource: str | None = None,
    postgresql: Postgresql | None = None,
    dashboards: Mapping[str, dict[str, Any]] | None = None,
) -> Wanted:
    """What to bring to a Grafana.

    Args:
        rules: the alert rules in force; None, to bring no alerts at all.
        prometheus: the URL of a Prometheus, to make a data source of.
        datasource: the uid of a data source that is there already, instead.
        postgresql: the database of the daemon, to make a data source of.
        dashboards: by uid; the shipped ones by default.
    """
    source = PROMETHEUS if prometheus is not None else datasource
    chosen = {"datasource": source, "database": POSTGRESQL if postgresql is not None else None}
    boards = shipped_dashboards() if dashboards is None else dashboards
    made = {}
    if prometheus is not None:
        made[PROMETHEUS] = _prometheus(prometheus)
    if postgresql is not None:
        made[POSTGRESQL] = _postgresql(postgresql)
    password = postgresql.password if postgresql is not None else None
    return Wanted(
        dashboards={uid: pointed(board, chosen) for uid, board in boards.items()},
        datasources=made,
        secrets={} if password is None else {POSTGRESQL: {"password": password}},
        rules=[] if rules is None or source is None else managed_rules(rules, source),
    )


def shipped_dashboards() -> dict[str, dict[str, Any]]:
    """The dashboards that come with the program, by uid."""
    found = {}
    for path in sorted(data_dir("dashboards").glob("*.json")):
        try:
            board = json.loads(path.read_text("utf-8"))
            found[str(board["uid"])] = board
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path}: is no dashboard ({type(error).__name__})") from None
    return found


def pointed(board: Mapping[str, Any], chosen: Mapping[str, str | None]) -> dict[str, Any]:
    """A dashboard whose variables begin with the data sources that are known."""
    copy: dict[str, Any] = json.loads(json.dumps(board))
    for variable in copy.get("templating", {}).get("list", []):
        uid = chosen.get(variable.get("name", ""))
        if uid is not None and variable.get("type") == "datasource":
            variable["current"] = {"text": _name(uid), "value": uid, "selected": True}
    return copy


def rule_group(rules: Iterable[Mapping[str, Any]], folder: str) -> dict[str, Any]:
    """The whole group as the API takes it."""
    place = {"folderUID": folder, "ruleGroup": GROUP, "orgID": 1}
    return {
        "title": GROUP,
        "folderUid": folder,
        "interval": INTERVAL,
        "rules": [{**rule, **place} for rule in rules],
    }


def _prometheus(url: str) -> dict[str, Any]:
    return {
        "uid": PROMETHEUS,
        "name": _name(PROMETHEUS),
        "type": "prometheus",
        "access": "proxy",
        "url": url,
        "jsonData": {"httpMethod": "POST", "timeInterval": "15s"},
    }


def _postgresql(settings: Postgresql) -> dict[str, Any]:
    return {
        "uid": POSTGRESQL,
        "name": _name(POSTGRESQL),
        "type": POSTGRESQL_TYPE,
        "access": "proxy",
        "url": settings.address,
        "user": settings.user,
        "jsonData": {
            "database": settings.database,
            "sslmode": settings.ssl_mode,
            "postgresVersion": 1500,
        },
    }


def _name(uid: str) -> str:
    names = {
        PROMETHEUS: "Prometheus (speculative decoding)",
        POSTGRESQL: "PostgreSQL (speculative decoding)",
    }
    return names.get(uid, uid)
