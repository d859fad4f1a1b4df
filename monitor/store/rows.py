"""What goes into the store and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from monitor.health.judging import JudgeSettings
from monitor.health.orders import Order
from monitor.model import Identity, Increment, Verdict
from monitor.store.standing import NO_NEWS, AlertNews

NOTHING_KNOWN = Identity()


class Change(NamedTuple):
    """A verdict that differs from the one before it in verdict, cause or action."""

    verdict: str
    cause: str | None
    action: str
    sentence: str
    document: str
    """The whole assessment as JSON text."""


class RoundRow(NamedTuple):
    """What one tick of one target leaves behind."""

    target: str
    now: float
    increments: Sequence[Increment]
    state: str | None
    """``TargetPipeline.state()``; None where the next process goes on from another row."""
    document: str | None = None
    """The assessment as JSON text; None keeps the stored one."""
    change: Change | None = None
    identity: Identity = NOTHING_KNOWN
    problem: str | None = None
    obeyed: Sequence[int] = ()
    """Orders that ``state`` is the first to show carried out."""
    alerts: AlertNews = NO_NEWS


@dataclass(frozen=True, slots=True)
class StoredState:
    """What the last process knew about a target."""

    at: float
    state: str
    assessment: str | None


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What is known of a target besides its figures."""

    target: str
    service: str
    role: str
    interval: float
    identity: Identity


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """The latest that is known about one target; None before its first tick."""

    target: str
    role: str
    verdict: Verdict | None
    since: float | None
    """Since when this verdict holds, whatever its cause and action were."""
    at: float | None
    assessed_at: float | None
    assessment: str | None
    """JSON text of the latest assessment."""
    problem: str | None


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The targets of one service, by name."""

    service: str
    targets: tuple[TargetStatus, ...]


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """One stored change of a verdict."""

    at: float
    verdict: Verdict
    cause: str | None
    action: str
    sentence: str
    document: str


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One step of the past; what cannot be known is None."""

    at: float
    """End of the step."""
    verdict: Verdict | None
    """The verdict in force at the end of the step."""
    drafts: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    acceptance_rate: float | None = None
    acceptance_length: float | None = None
    speedup: float | None = None
    running: float | None = None
    """Running requests as the verdict's load is, see ``health.speedup.running``."""
    tpot: float | None = None


@dataclass(frozen=True, slots=True)
class StoredOrder:
    """An order about the reference of a target."""

    id: int
    target: str
    at: float
    who: str
    order: Order
    applied_at: float | None
    """None while the daemon has not carried it out."""

    @property
    def words(self) -> str:
        """The order in words."""
        if self.order.rate is not None:
            return f"pin the reference at {100.0 * self.order.rate:.4g} %"
        return f"{self.order.kind} the reference"


@dataclass(frozen=True, slots=True)
class StoredMoment:
    """All that is stored about a target and has a bearing on its verdict at some moment."""

    facts: TargetFacts
    at: float
    """The moment, or the last that is known before it."""
    judge: JudgeSettings
    """Thresholds and spans as configured today, without a baseline."""
    gap: float | None
    state: StoredState | None
    """The latest, however much later than the moment."""
    verdicts: tuple[VerdictChange, ...]
    """Changes up to the moment, ascending; the first is the one in force at the beginning of
    the samples."""
    since: float | None
    """Since when the verdict held, whatever its cause and action were."""
    identities: tuple[tuple[float, Identity], ...]
    """What pages said of the server, and since when, ascending."""
    samples: tuple[Increment, ...]
    first_sample: float | None
    """End of the first sample there is."""
    orders: tuple[StoredOrder, ...]
    kept: int = 0
    """What is kept of the moment: sums of so many seconds; 0 where the samples are there."""

    @property
    def pace(self) -> float:
        """Seconds from one look, or what is left of some, to the next."""
        return max(self.facts.interval, float(self.kept))

    @property
    def longest(self) -> float | None:
        """Seconds between two looks that are no gap yet, where that is not told by the pace."""
        return None if self.kept else self.gap
