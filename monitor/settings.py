"""The resolved settings that the daemon and the pipeline work with.

``config`` turns YAML and flags into these plain values; nothing below it reads files,
environment variables or defaults of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import SecretStr

from monitor.alerting.receivers import ReceiverSettings
from monitor.alerting.routes import NOWHERE, Routing
from monitor.alerting.rules import Rule
from monitor.health.judging import DEFAULT_JUDGED, DEFAULT_WINDOWS, JudgeSettings
from monitor.model import Engine
from monitor.rollback.actuators.base import Actuator, Starter
from monitor.rollback.settings import FleetPolicy, Policy

DEFAULT_INTERVAL = 15.0
DEFAULT_LEASE = 45.0

__all__ = [
    "DEFAULT_INTERVAL",
    "DEFAULT_JUDGED",
    "DEFAULT_LEASE",
    "DEFAULT_WINDOWS",
    "Credentials",
    "DaemonSettings",
    "GrafanaSettings",
    "JudgeSettings",
    "Retention",
    "Role",
    "RollbackSettings",
    "TargetSettings",
]


class Role(StrEnum):
    """Which side of a service a target belongs to."""

    SPECULATIVE = "speculative"
    BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to authenticate at a target; paths are of PEM files."""

    bearer: SecretStr | None = None
    username: str | None = None
    password: SecretStr | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class TargetSettings:
    """One server to scrape."""

    name: str
    service: str
    url: str
    role: Role = Role.SPECULATIVE
    labels: dict[str, str] = field(default_factory=dict)
    engine: Engine | None = None
    """None: told by the page."""
    draft_size: int | None = None
    """``num_speculative_tokens`` where the page cannot tell."""
    interval: float = DEFAULT_INTERVAL
    gap: float | None = None
    """Seconds without a page after which figures are not carried on; None: 2.5 intervals."""
    timeout: float = 10.0
    """Total deadline of one scrape, from the connection to the last byte."""
    max_bytes: int = 64 * 1024 * 1024
    credentials: Credentials = field(default_factory=Credentials)
    judge: JudgeSettings = field(default_factory=JudgeSettings)
    threshold_is_set: bool = False
    """Whether the threshold was set for this very service, and so raises its alert always."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long what is known is kept, in seconds; decisions and their evidence are kept for ever.

    ``max_bytes`` is what the database may take up: beyond it the oldest samples go sooner.
    """

    samples: float = 48 * 3_600.0
    one_minute: float = 30 * 86_400.0
    ten_minutes: float = 400 * 86_400.0
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RollbackSettings:
    """Whether, when and how traffic of a service is moved to its baseline side."""

    policy: Policy = field(default_factory=Policy)
    actuator: Actuator | None = None
    """What moves traffic; None where nothing may or can."""
    starter: Starter | None = None


@dataclass(frozen=True, slots=True)
class GrafanaSettings:
    """Where a Grafana is and how to be let in."""

    url: str
    """Without ``/api``; with the path, if it is served under one."""
    token: SecretStr
    """Of a service account."""
    ca_file: str | None = None
    timeout: float = 10.0
    """Seconds for one request, from the connection to the last byte."""


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """Everything ``monitor run`` needs."""

    database: str
    """SQLAlchemy URL."""
    targets: tuple[TargetSettings, ...]
    host: str = "127.0.0.1"
    port: int = 9465
    token: SecretStr | None = None
    """Bearer token for state-changing calls, and for all calls unless on loopback."""
    shutdown_seconds: float = 10.0
    lease_seconds: float = DEFAULT_LEASE
    """After so long without a sign of the daemon that leads, another one may take over."""
    config_hash: str = ""
    rules: tuple[Rule, ...] = ()
    """The alert rules in force."""
    receivers: tuple[ReceiverSettings, ...] = ()
    routing: Routing = NOWHERE
    """Which receivers a notification goes to."""
    rollbacks: Mapping[str, RollbackSettings] = field(default_factory=dict)
    """By service; those that are left out are observed."""
    freeze: FleetPolicy = field(default_factory=FleetPolicy)
    grafana: GrafanaSettings | None = None
    """Where dashboards are, and rollbacks are marked."""
    retention: Retention = Retention()
