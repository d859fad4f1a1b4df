"""The shape of the configuration file, key by key.

Nothing secret is ever part of these models: a secret is given as the name of a file or of an
environment variable, so a configuration can be shown, hashed and logged as it is.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from monitor.config import values
from monitor.config.receivers import Receiver, RouteEntry
from monitor.config.rollback import Rollback, RollbackFreeze
from monitor.config.section import Duration, EnvironmentName, FileName, Name, Section, check_choice
from monitor.model import Engine
from monitor.settings import DEFAULT_INTERVAL, DEFAULT_JUDGED, DEFAULT_LEASE, DEFAULT_WINDOWS

__all__ = [
    "DEFAULT_DATABASE",
    "DEFAULT_LISTEN",
    "Auth",
    "Config",
    "Duration",
    "FileName",
    "Section",
    "Service",
    "Target",
    "Tls",
]

DEFAULT_DATABASE = "sqlite:///monitor.db"
DEFAULT_LISTEN = "127.0.0.1:9465"
_LABEL = r"^[a-zA-Z_][a-zA-Z0-9_]{0,99}$"

Interval = Annotated[Duration, Field(ge=0.1, le=300)]
Size = Annotated[
    int,
    BeforeValidator(values.parse_size, json_schema_input_type=str | int),
    Field(ge=1000, le=1024**3),
    PlainSerializer(values.format_size, return_type=str),
]
DatabaseSize = Annotated[
    int,
    BeforeValidator(values.parse_size, json_schema_input_type=str | int),
    Field(ge=10 * 1000**2),
    PlainSerializer(values.format_size, return_type=str),
]
Kept = Annotated[
    float,
    BeforeValidator(values.parse_duration, json_schema_input_type=str | float),
    Field(ge=3600, le=100 * 366 * 86400.0),
    PlainSerializer(values.format_duration, return_type=str),
]
Listen = Annotated[str, AfterValidator(lambda text: values.parse_listen(text) and text)]
Url = Annotated[str, AfterValidator(values.parse_target_url)]
DatabaseUrl = Annotated[str, AfterValidator(values.check_database_url)]
EngineName = Annotated[
    str,
    AfterValidator(values.check_engine),
    Field(json_schema_extra={"enum": [values.AUTO, *(engine.value for engine in Engine)]}),
]
Share = Annotated[float, Field(gt=0, lt=1)]


def _ascending(spans: tuple[float, ...]) -> tuple[float, ...]:
    if any(a >= b for a, b in pairwise(spans)):
        raise ValueError("must ascend, each span once, such as [1m, 5m, 15m]")
    return spans


Windows = Annotated[
    tuple[Duration, ...], Field(min_length=1, max_length=12), AfterValidator(_ascending)
]


class Scrape(Section):
    """How pages are fetched."""

    interval: Interval = Field(DEFAULT_INTERVAL, description="Time between two looks.")
    timeout: Duration | None = Field(
        None,
        description="Deadline of one look, from the connection to the last byte. "
        "Default: 10s, or two thirds of the interval where that is shorter.",
    )
    max_page_size: Size = Field(64 * 1024**2, description="Larger pages are refused.")


class Auth(Section):
    """How to authenticate at the targets of a service."""

    bearer_file: FileName | None = Field(None, description="File that holds a bearer token.")
    bearer_env: EnvironmentName | None = Field(None, description="Variable that holds it.")
    username: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="User name for basic authentication."
    )
    password_file: FileName | None = Field(None, description="File that holds the password.")
    password_env: EnvironmentName | None = Field(None, description="Variable that holds it.")

    @model_validator(mode="after")
    def _one_method(self) -> Self:
        check_choice(self, "bearer_file", "bearer_env", "username")
        check_choice(self, "password_file", "password_env")
        if bool(self.password_file or self.password_env) != (self.username is not None):
            raise ValueError("needs username together with password_file or password_env")
        return self


class Tls(Section):
    """Certificates for targets behind https; all files are PEM."""

    ca_file: FileName | None = Field(None, description="Authorities to trust.")
    cert_file: FileName | None = Field(None, description="Client certificate.")
    key_file: FileName | None = Field(None, description="Key of the client certificate.")
    verify: bool = Field(default=True, description="Whether the server's certificate is checked.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("has key_file without cert_file: name the certificate too")
        if self.ca_file is not None and not self.verify:
            raise ValueError("has ca_file with verify: false, which would ignore it: drop one")
        return self


class Target(Section):
    """One server; a plain URL in the file is short for a target with only that."""

    url: Url = Field(description="Where the server is; without a path, /metrics is asked for.")
    name: Name | None = Field(None, description="Default: host:port[/path] of the URL.")
    labels: dict[Annotated[str, Field(pattern=_LABEL)], Annotated[str, Field(max_length=200)]] = (
        Field(default_factory=dict, description="Shown with the target.")
    )
    engine: EngineName = Field(values.AUTO, description="auto: told by the page.")
    num_speculative_tokens: Annotated[int, Field(ge=1, le=128)] | None = Field(
        None, description="Proposed tokens per draft, where the page cannot tell."
    )
    interval: Interval | None = Field(None, description="Default: that of scrape.")
    timeout: Duration | None = Field(
        None,
        description="Default: that of scrape, or two thirds of a shorter interval.",
    )


def _from_url(data: object) -> object:
    return {"url": data} if isinstance(data, str) else data


TargetEntry = Annotated[Target, BeforeValidator(_from_url, json_schema_input_type=str | Target)]


class SpeculativeSide(Section):
    """The targets that run with speculation."""

    targets: tuple[TargetEntry, ...] = Field(min_length=1, description="URLs or mappings.")


class BaselineSide(Section):
    """What the service would do without speculation."""

    curve: FileName | None = Field(
        None, description="File with TPOT over running requests, measured without speculation."
    )
    targets: tuple[TargetEntry, ...] = Field((), description="Plain servers of the same model.")


class Service(Section):
    """Targets that serve one model."""

    name: Name = Field(description="Shown everywhere, and unique.")
    threshold: Share | None = Field(None, description="Overrides the general threshold.")
    dead_band: Share | None = Field(None, description="Overrides the general dead band.")
    auth: Auth | None = None
    tls: Tls | None = None
    speculative: SpeculativeSide
    baseline: BaselineSide | None = None
    rollback: Rollback | None = Field(
        None, description="Whether traffic may move to the plain servers. Default: observe."
    )


class Alerts(Section):
    """What is told, and when; docs/alerts.md explains the rules."""

    default_rules: bool = Field(default=True, description="Whether the shipped rules apply.")
    rules: tuple[FileName, ...] = Field(
        (), description="Files with rules; one with the id of an earlier rule changes it."
    )


class Grafana(Section):
    """A Grafana that shows the dashboards; docs/grafana.md explains it."""

    url: Annotated[str, AfterValidator(values.parse_base_url)] = Field(
        description="Where it is, without /api."
    )
    token_file: FileName | None = Field(None, description="File with a service account's token.")
    token_env: EnvironmentName | None = Field(None, description="Variable that holds it.")
    ca_file: FileName | None = Field(None, description="Authorities to trust, PEM.")

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        check_choice(self, "token_file", "token_env", required=True)
        return self


class Retention(Section):
    """How long figures are kept; docs/retention.md explains it. Decisions are kept for ever."""

    samples: Kept = Field(48 * 3600.0, description="Samples as they were scraped.")
    one_minute: Kept = Field(30 * 86400.0, description="Sums of a minute.")
    ten_minutes: Kept = Field(400 * 86400.0, description="Sums of ten minutes.")
    max_size: DatabaseSize | None = Field(
        None, description="In a larger database the oldest samples go sooner. Default: no limit."
    )

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if not self.samples <= self.one_minute <= self.ten_minutes:
            raise ValueError(
                "must not keep samples longer than one_minute, nor that longer than ten_minutes"
            )
        return self


class Config(Section):
    """A whole configuration file."""

    database: DatabaseUrl | None = Field(
        None, description=f"Database URL without a password. Default: {DEFAULT_DATABASE}."
    )
    database_env: EnvironmentName | None = Field(None, description="Variable that holds it.")
    database_file: FileName | None = Field(None, description="File that holds it.")
    listen: Listen = Field(DEFAULT_LISTEN, description="Address of the web server.")
    token_file: FileName | None = Field(
        None, description="File with the bearer token that callers must send."
    )
    token_env: EnvironmentName | None = Field(None, description="Variable that holds it.")
    shutdown_timeout: Duration = Field(10.0, description="Time to finish work at the end.")
    lease: Annotated[Duration, Field(ge=10, le=3600)] = Field(
        DEFAULT_LEASE,
        description="Of several daemons on one database one leads; after so long without a sign "
        "of it, another takes over.",
    )
    scrape: Scrape = Scrape()
    windows: Windows = Field(DEFAULT_WINDOWS, description="Spans that are shown, ascending.")
    judged_windows: Windows | None = Field(
        None, description="Those of windows that are judged. Default: those up to 15m."
    )
    threshold: Share = Field(
        0.40, description="Acceptance rate below which a target without a gain is degraded."
    )
    dead_band: Share = Field(0.05, description="Speedups within 1 ± this are neutral.")
    alerts: Alerts = Alerts()
    retention: Retention = Retention()
    receivers: Annotated[tuple[Receiver, ...], Field(max_length=100)] = Field(
        (), description="Who is told; docs/receivers.md explains the kinds."
    )
    routes: Annotated[tuple[RouteEntry, ...], Field(max_length=500)] = Field(
        (), description="Who is told what: the first that matches. Without any, all are told all."
    )
    rollback_freeze: RollbackFreeze = Field(
        RollbackFreeze(),
        description="When so many services are hurt at once that the monitor itself is suspect "
        "and nothing moves.",
    )
    grafana: Grafana | None = Field(None, description="Where dashboards are brought to.")
    services: tuple[Service, ...] = Field(min_length=1, description="What is watched.")

    def judged(self) -> tuple[float, ...]:
        """The spans a verdict is made from."""
        if self.judged_windows is not None:
            return self.judged_windows
        up_to = tuple(span for span in self.windows if span <= DEFAULT_JUDGED[-1])
        return up_to or self.windows[:1]
