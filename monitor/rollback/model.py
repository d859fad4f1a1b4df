"""The values that the plan, the executor, the journal and the command line share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from monitor.rollback.settings import Cure, Mode


class Phase(StrEnum):
    """Where the rollback of a service stands."""

    ARMED = "armed"
    """Nothing is planned."""
    PROPOSED = "proposed"
    """A plan waits for approval."""
    CHECKING = "checking"
    """The baseline side must prove that it can serve."""
    BLOCKED = "blocked"
    """It could not, a person has been called, and it is looked at again and again."""
    STARTING = "starting"
    """The baseline side is brought up."""
    RESTARTING = "restarting"
    """The speculative side is restarted."""
    SHIFTING = "shifting"
    """Traffic is being moved to the baseline side."""
    HOLDING = "holding"
    """A step has been done and is watched."""
    VERIFYING = "verifying"
    """The last step has been done and is watched."""
    DONE = "done"
    """The baseline side serves; the speculative side is parked, not torn down."""
    RETURNING = "returning"
    """Traffic is being moved to the speculative side again."""
    TRIAL = "trial"
    """The speculative side has a share of the traffic again and is watched."""
    UNDOING = "undoing"
    """Traffic is being put where it was before the plan."""
    FAILED = "failed"
    """Given up; traffic is where it was before the plan."""
    ABORTED = "aborted"
    """The same by an operator's order; nothing happens until it is re-armed."""
    HELD = "held"
    """Stopped where it is; a person must decide."""


IDLE = frozenset({Phase.ARMED, Phase.FAILED, Phase.ABORTED})
"""Phases without a plan in progress."""


class Do(StrEnum):
    """The acts of a plan."""

    START = "start"
    RESTART = "restart"
    SHIFT = "shift"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True)
class Step:
    """One act that the executor has to carry out."""

    id: str
    """Idempotency id, the same over all tries."""
    do: Do
    share: float | None = None
    """Share of the baseline side to set; None where the act sets none."""


class Order(StrEnum):
    """What an operator can ask for."""

    APPROVE = "approve"
    RUN = "run"
    ABORT = "abort"
    REARM = "rearm"


@dataclass(frozen=True, slots=True)
class Command:
    """One order of an operator."""

    id: str
    service: str
    order: Order
    who: str
    at: float
    plan: str | None = None
    """The plan that the operator had in mind; an order about another one is refused."""
    force: bool = False
    """Re-arm although the speculative side is the one that was rejected."""


class Kind(StrEnum):
    """What a piece of news is about."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"
    STARTED = "started"
    BLOCKED = "blocked"
    STEP = "step"
    DONE = "done"
    FAILED = "failed"
    ABORTED = "aborted"
    HELD = "held"
    REFUSED = "refused"
    REARMED = "rearmed"
    TRIAL = "trial"
    RESTORED = "restored"
    FROZEN = "frozen"
    """So many services are hurt at once that the monitor is suspect: nothing moves."""


@dataclass(frozen=True, slots=True)
class News:
    """One decision with what it rests on: a row of the audit, and a message to people."""

    service: str
    at: float
    kind: Kind
    mode: Mode
    phase: Phase
    """Where it led to."""
    sentence: str
    plan: str | None = None
    cure: Cure | None = None
    share: float = 0.0
    """Share of the traffic that the baseline side has by the plan."""
    who: str | None = None
    """The operator behind it."""
    pages: bool = False
    """Whether a person must act on it now."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """JSON values: windows, intervals, findings; enough to understand it a year later."""
