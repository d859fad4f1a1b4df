"""The document of ``monitor status --json``: the latest assessment of every service."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from monitor.alerting.model import Severity
from monitor.model import Verdict
from monitor.report import iso
from monitor.rollback.messages import RULE as ROLLBACK
from monitor.rollback.model import Phase
from monitor.store.alerts import Incident, IncidentFilter
from monitor.store.repository import Repository
from monitor.store.rollbacks import StoredRollback
from monitor.store.rows import TargetStatus
from monitor.web.view import FiringAlert, RollbackView

SCHEMA = "monitor.status/1"
_IDLE: dict[str, Any] = {"mode": "observe", "state": "idle"}
_MOST_ALERTS = 10_000
STALE_SECONDS = 900.0
"""Three times the longest interval: without a look for so long, nothing is known any more."""

SEVERITY = (
    Verdict.HARMFUL,
    Verdict.DEGRADED,
    Verdict.STALLED,
    Verdict.MISREPORTED,
    Verdict.DOWN,
    Verdict.UNRECOGNISED,
    Verdict.NOT_DRAFTING,
    Verdict.UNPROVEN,
    Verdict.NEUTRAL,
    Verdict.HEALTHY,
    Verdict.INSUFFICIENT,
    Verdict.IDLE,
    Verdict.OFF,
)
"""What the verdict on a service is when its targets differ: the first of these that occurs."""


def status_document(
    services: Mapping[str, Sequence[Mapping[str, Any]]],
    alerts: Mapping[str, Sequence[Mapping[str, Any]]],
    rollbacks: Mapping[str, RollbackView],
) -> dict[str, Any]:
    """The whole document from the targets, the alerts and the rollback of each service."""
    return {
        "schema": SCHEMA,
        "services": [
            _service(name, targets, alerts.get(name, ()), rollbacks.get(name))
            for name, targets in sorted(services.items())
        ],
    }


def stored_status(repository: Repository, now: float) -> dict[str, Any]:
    """The whole document from the database alone.

    Raises ``StoreError`` when the database does not take part.
    """
    statuses, rollbacks = repository.statuses(), repository.rollbacks.states()
    alerts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for incident in repository.alerts.incidents(IncidentFilter.OPEN, limit=_MOST_ALERTS):
        if incident.rule != ROLLBACK:  # Rollbacks have a place of their own.
            alerts[incident.service].append(_stored_alert(incident))
    return status_document(
        {status.service: [_stored_target(t, now) for t in status.targets] for status in statuses},
        alerts,
        {
            status.service: _stored_rollback(rollbacks[status.service])
            for status in statuses
            if status.service in rollbacks
        },
    )


def _stored_rollback(stored: StoredRollback) -> RollbackView:
    state = stored.read()
    return RollbackView(
        service=stored.service,
        mode=stored.mode,
        phase=stored.phase,
        plan=stored.plan,
        share=state.share,
        since=state.since or None,
        why=state.why or None,
    )


def _stored_alert(incident: Incident) -> dict[str, Any]:
    return alert_document(
        incident.target,
        FiringAlert(
            incident.rule,
            Severity(incident.severity),
            incident.id,
            incident.started_at,
            incident.title,
        ),
    )


def alert_document(target: str, alert: FiringAlert) -> dict[str, Any]:
    """One alert that fires about a target."""
    return {
        "incident": alert.incident,
        "rule": alert.rule,
        "severity": alert.severity.value,
        "target": target,
        "title": alert.title,
        "since": iso(alert.since),
    }


def _stored_target(status: TargetStatus, now: float) -> dict[str, Any]:
    return target_document(
        status.target,
        status.role,
        json.loads(status.assessment) if status.assessment else None,
        since=status.since,
        at=status.at,
        problem=status.problem,
        now=now,
    )


def target_document(
    target: str,
    role: str,
    document: Mapping[str, Any] | None,
    *,
    since: float | None,
    at: float | None,
    problem: str | None,
    now: float,
) -> dict[str, Any]:
    """One target: its assessment as JSON object, and what the assessment does not tell."""
    return {
        "target": target,
        "verdict": None,
        "sentence": "there was no look at this target yet",
        "notes": [],
        **(document or {}),
        "role": role,
        "since": None if since is None else iso(since),
        "at": None if at is None else iso(at),
        "stale": at is None or now - at > STALE_SECONDS,
        "problem": problem,
    }


def _service(
    name: str,
    targets: Sequence[Mapping[str, Any]],
    alerts: Sequence[Mapping[str, Any]],
    rollback: RollbackView | None,
) -> dict[str, Any]:
    # The plain servers of a service are there to be compared with, not to be judged.
    judged = [t for t in targets if t["role"] != "baseline"] or list(targets)
    words = {t["verdict"] for t in judged}
    verdict = next((v.value for v in SEVERITY if v.value in words), None)
    since = [t["since"] for t in judged if t["verdict"] == verdict and t["since"] is not None]
    return {
        "service": name,
        "verdict": verdict,
        "since": min(since, default=None),
        "targets": list(targets),
        "alerts": sorted(alerts, key=lambda alert: alert["since"]),
        "rollback": _IDLE if rollback is None else _rollback(rollback),
    }


def _rollback(view: RollbackView) -> dict[str, Any]:
    idle = view.phase == Phase.ARMED
    return {
        "mode": view.mode,
        "state": "idle" if idle else view.phase,
        "plan": view.plan,
        "baseline_share": view.share,
        "since": None if idle or view.since is None else iso(view.since),
        "why": view.why,
    }
