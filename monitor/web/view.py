"""What the web server shows, as plain values: the daemon fills them in, the web reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from monitor.alerting.model import Severity
from monitor.model import Alarm, Assessment, Counts, Figures
from monitor.store.space import Space


@dataclass(frozen=True, slots=True)
class FiringAlert:
    """An alert that fires about a target."""

    rule: str
    severity: Severity
    incident: str = ""
    since: float = 0.0
    """When what it tells of began."""
    title: str = ""


@dataclass(frozen=True, slots=True)
class TargetView:
    """One target as of now. Two views are equal if no round has been between them."""

    service: str
    target: str
    role: str
    assessment: Assessment | None
    """None before the first round."""
    windows: Callable[[], Mapping[float, Figures]] = field(compare=False)
    """The figures of each configured window by its length; takes some work."""
    page_age: float | None = field(compare=False)
    """Seconds since the last page that came; None before the first."""
    scrape_seconds: float | None
    """How long the last fetch took, failed or not."""
    rounds: int
    late: int
    """Rounds left out because the one before was still running."""
    tick_errors: int
    errors: Mapping[str, int]
    """Failed scrapes by kind."""
    alarms: tuple[Alarm, ...] = ()
    """What the detector of changes stands by."""
    threshold: float = 0.40
    """Acceptance rate from which down an alert may be raised."""
    threshold_is_set: bool = False
    """Whether the threshold was set for this very service."""
    since: float | None = None
    """Since when the verdict holds, whatever its cause and action were."""
    totals: Counts = field(default_factory=Counts)
    """What the target did since it is watched by this process."""
    alerts: Sequence[FiringAlert] = ()


@dataclass(frozen=True, slots=True)
class RollbackView:
    """Where the rollback of one service stands."""

    service: str
    mode: str
    phase: str
    plan: str | None
    share: float
    """Share of the traffic that the baseline side has by the plan."""
    since: float | None
    why: str | None
    acts: Mapping[str, int] = field(default_factory=dict)
    """Tries of acts since the start, by how they ended."""
    errors: int = 0
    """Turns that ended in an error."""
    is_hurt: bool = False
    """Whether its windows ask for a rollback now."""


@dataclass(frozen=True, slots=True)
class ReceiverView:
    """What became of the messages for one receiver."""

    receiver: str
    sent: int
    retried: int
    """Attempts that failed and were, or will be, repeated."""
    dead: int
    """Messages that were given up."""
    waiting: int
    """As of the last minute."""
    oldest: float | None
    """For how many seconds the oldest of them has waited."""


@dataclass(frozen=True, slots=True)
class Health:
    """The state of the daemon itself."""

    loop_age: float
    loop_limit: float
    waiting_for: str | None
    """Why the daemon is not ready yet; None when it is."""
    rounds_missed: int = 0
    rounds_skipped: int = 0
    rounds_failed: int = 0
    scheduler_rebuilds: int = 0
    clock_lead: float = 0.0
    rows_queued: int = 0
    rows_written: int = 0
    rows_dropped: int = 0
    write_errors: int = 0
    write_age: float = 0.0
    reload_ok: bool = True
    reload_at: float = 0.0
    """When the configuration was last loaded with success."""
    config_hash: str = ""
    receivers: Sequence[ReceiverView] = ()
    rollbacks: Sequence[RollbackView] = ()
    frozen: str | None = None
    """Why no traffic is moved because too many services are hurt at once."""
    fence: int | None = None
    """Number of the lease under which it leads; None while it does not."""
    space: Space | None = None
    """The size of the database; None before it was measured."""

    @property
    def alive(self) -> bool:
        """Whether rounds are started as they should be."""
        return self.loop_age <= self.loop_limit


class Monitored(Protocol):
    """What the web server asks of the daemon; all of it is safe from any thread."""

    def targets(self) -> Sequence[TargetView]:
        """All targets in the order of the configuration."""
        ...

    def health(self) -> Health:
        """The state of the daemon itself."""
        ...

    def status(self) -> dict[str, Any]:
        """The document of ``monitor status --json``."""
        ...

    def reload(self) -> None:
        """Loads the configuration again; raises ``MonitorError`` and keeps the old on failure."""
        ...
