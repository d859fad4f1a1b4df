"""The resolved settings that the daemon and the pipeline work with.

``config`` turns YAML and flags into these plain values; nothing below it reads files,
environment variables or defaults of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import SecretStr

from monitor.health.baseline import Baseline, QuickSpeeds
from monitor.model import Engine

DEFAULT_INTERVAL = 15.0
DEFAULT_WINDOWS = (60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0)
DEFAULT_JUDGED = (60.0, 300.0, 900.0)


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
class JudgeSettings:
    """What the verdict on a target depends on besides its pages."""

    threshold: float = 0.40
    """Acceptance rate below which a target without a proven gain is degraded."""
    dead_band: float = 0.05
    """Speedups within 1 ± this are neutral."""
    windows: tuple[float, ...] = DEFAULT_WINDOWS
    """Spans shown, in seconds, ascending."""
    judged: tuple[float, ...] = DEFAULT_JUDGED
    """Spans judged, ascending: the shortest one that allows a verdict decides."""
    baseline: Baseline | None = None
    speeds: QuickSpeeds | None = None
    """Two measured single-stream speeds, where the page has no latency."""


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
    timeout: float = 10.0
    """Total deadline of one scrape, from the connection to the last byte."""
    max_bytes: int = 64 * 1024 * 1024
    credentials: Credentials = Credentials()
    judge: JudgeSettings = JudgeSettings()


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
    config_hash: str = ""
