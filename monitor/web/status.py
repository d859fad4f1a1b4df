"""The document of ``monitor status --json``: the latest assessment of every service."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from monitor.model import Verdict
from monitor.report import iso
from monitor.rollback.model import Phase
from monitor.store.rollbacks import StoredRollback
from monitor.store.rows import ServiceStatus, TargetStatus
from monitor.web.view import RollbackView

SCHEMA = "monitor.status/1"
_IDLE: dict[str, Any] = {"mode": "observe", "state": "idle"}
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
    services: Mapping[str, Sequence[Mapping[str, Any]]], rollbacks: Mapping[str, RollbackView]
) -> dict[str, Any]:
    """The whole document from the targets and the rollback of each service."""
    return {
        "schema": SCHEMA,
        "services": [
            _service(name, targets, rollbacks.get(name))
            for name, targets in sorted(services.items())
        ],
    }


def stored_status(
    statuses: Sequence[ServiceStatus], rollbacks: Mapping[str, StoredRollback], now: float
) -> dict[str, Any]:
    """The whole document from the database alone."""
    return status_document(
        {status.service: [_stored_target(t, now) for t in status.targets] for status in statuses},
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
    name: str, targets: Sequence[Mapping[str, Any]], rollback: RollbackView | None
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
        "alerts": [],
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
