"""The values that alert rules, the outbox and the receivers share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How urgent an alert is."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class State(StrEnum):
    """Where an alert stands."""

    INACTIVE = "inactive"
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class Reason(StrEnum):
    """Why a notification is sent."""

    FIRST = "first"
    """The alert has begun to fire."""
    SEVERITY = "severity"
    """The same incident has become more or less urgent, or its cause is another one."""
    REPEAT = "repeat"
    """It still fires, and the time for a reminder has come."""
    RESOLVED = "resolved"
    FLAPPING = "flapping"
    """It keeps coming and going; said once, then silence until it settles."""
    NO_DATA = "no_data"
    """It fires, and for some time nothing has been known any more."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One message about one incident, as the outbox keeps it until each receiver has it."""

    incident: str
    """The same for all messages about one incident, whatever happens to its rule meanwhile."""
    sequence: int
    """Counts the messages of an incident from 1; with ``incident`` it names a message."""
    at: float
    reason: Reason
    state: State
    rule: str
    severity: Severity
    service: str
    target: str
    started_at: float
    ended_at: float | None
    title: str
    sentence: str
    """What was decided and on which figures, in one English sentence."""
    cause: str | None
    action: str
    labels: Mapping[str, str] = field(default_factory=dict)
    assessment: Mapping[str, Any] = field(default_factory=dict)
    """The document of the assessment (``monitor.report.to_document``)."""
    runbook: str | None = None
    votes_for_rollback: bool = False
