"""Builds notifications for the tests of their storing and delivery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from monitor.alerting.model import Notification, Reason, Severity, State
from monitor.alerting.routes import Routing
from monitor.store.alerts import AlertStore
from monitor.store.standing import AlertNews, AlertRow

NOON = 1_700_000_000.0
CANARY = "canary-3f9c1a77"
ASSESSMENT: dict[str, Any] = {
    "target": "a",
    "model": "m",
    "verdict": "harmful",
    "acceptance_rate": {"value": 0.1556, "low": 0.0988, "high": 0.2366},
    "acceptance_length": {"value": 1.778, "low": 1.49, "high": 2.18},
    "speedup": {"value": 0.662, "low": 0.60, "high": 0.73},
    "break_even": {"acceptance_length": 2.687, "acceptance_rate": 0.3374},
    "load": {"running": 1.0, "waiting": 0.0},
    "window": {"seconds": 600.0, "drafts": 1438},
}


def notification(incident: str = "inc1", sequence: int = 1, **changes: Any) -> Notification:
    made = Notification(
        incident=incident,
        sequence=sequence,
        at=NOON,
        reason=Reason.FIRST,
        state=State.FIRING,
        rule="harmful",
        severity=Severity.CRITICAL,
        service="chat",
        target="a",
        started_at=NOON - 600.0,
        ended_at=None,
        title="Speculation harms chat on a",
        sentence="speculation costs 34 % of decode speed",
        cause="weak_drafter",
        action="roll_back",
        labels={"zone": "z1"},
        assessment=ASSESSMENT,
    )
    return replace(made, **changes)


def resolved(incident: str = "inc1", sequence: int = 2, **changes: Any) -> Notification:
    ended = {"reason": Reason.RESOLVED, "state": State.RESOLVED, "ended_at": NOON + 60.0}
    return notification(incident, sequence, **{**ended, **changes})


def record(
    store: AlertStore,
    rows: Sequence[AlertRow],
    told: Sequence[Notification],
    routing: Routing,
    now: float,
) -> int:
    """Stores states and notifications as news of a tick; how many were new."""
    return store.record(AlertNews(rows, (), told), routing, now)
