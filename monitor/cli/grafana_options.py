"""Options of ``monitor grafana``, read into where a Grafana is and what it should have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from pydantic import SecretStr
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from monitor.cli.credentials import read_secret
from monitor.cli.locate import find_config, rules_in_force
from monitor.cli.options import checked
from monitor.config import files, values
from monitor.config.load import load
from monitor.grafana.wanted import Postgresql, Wanted, wanted
from monitor.model import ConfigError
from monitor.settings import GrafanaSettings

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help="The Grafana; default: grafana.url of the configuration."
    ),
]
TokenFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File with a service account's token.")
]
TokenEnvOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Variable with a service account's token.")
]
PrometheusOption = Annotated[
    str | None, typer.Option(metavar="URL", help="Make a data source of this Prometheus.")
]
DatasourceOption = Annotated[
    str | None,
    typer.Option(metavar="UID", help="Use this Prometheus data source of the Grafana instead."),
]
PostgresqlOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Make a data source of the daemon's database: postgresql://USER@HOST:PORT/NAME.",
    ),
]
PasswordFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File with the password of that database.")
]
PasswordEnvOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Variable with the password of that database.")
]
RulesOption = Annotated[
    bool, typer.Option("--rules/--no-rules", help="Whether Grafana evaluates the alert rules.")
]

_POSTGRESQL_PORT = 5432
_SSL_MODES = ("disable", "require", "verify-ca", "verify-full")


class Sources(NamedTuple):
    """The options about data sources, as they were given."""

    prometheus: str | None = None
    datasource: str | None = None
    postgresql: str | None = None
    password_file: Path | None = None
    password_env: str | None = None


def read_settings(
    url: str | None,
    token_file: Path | None,
    token_env: str | None,
    ca_file: Path | None,
    config: Path | None,
) -> GrafanaSettings:
    """Where the Grafana is; options come before the configuration."""
    token = read_secret(token_file, token_env, "--token")
    found = find_config(config)
    configured = None if found is None else load(found).grafana()
    if url is not None:
        base = checked("--url", values.parse_base_url, url)
    elif configured is not None:
        base = configured.url
    else:
        raise ConfigError("give --url, or grafana.url in the configuration")
    if token is None:
        # A token goes only where it was meant for.
        token = configured.token if configured is not None and configured.url == base else None
    if token is None:
        raise ConfigError("give --token-file or --token-env with the token of a service account")
    if ca_file is not None:
        checked("--ca-file", files.check_readable, ca_file)
        return GrafanaSettings(base, token, str(ca_file))
    return GrafanaSettings(base, token, configured.ca_file if configured is not None else None)


def read_wanted(sources: Sources, config: Path | None, *, rules: bool) -> Wanted:
    """What the Grafana should have."""
    if sources.prometheus is not None and sources.datasource is not None:
        raise ConfigError("give one of --prometheus and --datasource")
    if rules and sources.prometheus is None and sources.datasource is None:
        raise ConfigError(
            "the alert rules need a Prometheus: give --prometheus URL, or --datasource with the "
            "uid of one that Grafana has, or --no-rules"
        )
    prometheus = sources.prometheus
    if prometheus is not None:
        prometheus = checked("--prometheus", values.parse_base_url, prometheus)
    if sources.datasource is not None:
        checked("--datasource", _check_uid, sources.datasource)
    return wanted(
        rules_in_force(config)[1].rules if rules else None,
        prometheus=prometheus,
        datasource=sources.datasource,
        postgresql=_postgresql(sources),
    )


def _postgresql(sources: Sources) -> Postgresql | None:
    password = read_secret(sources.password_file, sources.password_env, "--postgresql-password")
    if sources.postgresql is None:
        if password is not None:
            raise ConfigError("--postgresql-password-… needs --postgresql")
        return None
    return checked(
        "--postgresql", lambda url: _parse_postgresql(url, password), sources.postgresql
    )


def _parse_postgresql(text: str, password: SecretStr | None) -> Postgresql:
    try:
        url = make_url(text)
    except ArgumentError:
        raise ValueError("must look like postgresql://USER@HOST:PORT/NAME") from None
    if url.get_backend_name() != "postgresql":
        raise ValueError("must begin with postgresql://")
    if url.password is not None:
        raise ValueError(
            "holds a password: give it with --postgresql-password-file or -env instead"
        )
    if not (url.host and url.database and url.username):
        raise ValueError("must name user, host and database: postgresql://USER@HOST:PORT/NAME")
    mode = url.query.get("sslmode", "require")
    if mode not in _SSL_MODES:
        raise ValueError(f"has an sslmode that Grafana does not know: {', '.join(_SSL_MODES)}")
    address = f"{url.host}:{url.port or _POSTGRESQL_PORT}"
    return Postgresql(address, url.database, url.username, str(mode), password)


def _check_uid(text: str) -> None:
    if not text or not all(c.isascii() and (c.isalnum() or c in "-_") for c in text):
        raise ValueError("must be a uid: letters, digits, - and _")
