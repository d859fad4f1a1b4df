"""Rollbacks as the JSON documents that ``monitor rollback`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from monitor.report import iso
from monitor.rollback.fleet import FLEET
from monitor.rollback.model import Command, Phase
from monitor.rollback.ports import StepRow
from monitor.store.rollbacks import Decision, PlanSummary, StoredRollback

TROUBLE = frozenset({Phase.BLOCKED, Phase.HELD, Phase.FAILED})
"""Phases in which a person is asked for."""


def service_document(stored: StoredRollback) -> dict[str, Any]:
    """Where the rollback of one service stands."""
    state = stored.read()
    return {
        "service": stored.service,
        "mode": stored.mode,
        "state": "idle" if stored.phase == Phase.ARMED else stored.phase,
        "plan": stored.plan,
        "baseline_share": state.share,
        "since": iso(state.since) if state.since else None,
        "why": state.why or None,
        "at": iso(stored.at),
        "rejected": [
            {"fingerprint": r.fingerprint, "at": iso(r.at), "plan": r.plan} for r in state.rejected
        ],
    }


def list_document(
    services: Mapping[str, StoredRollback], plans: Iterable[PlanSummary], frozen: str | None
) -> dict[str, Any]:
    """All services, and the newest plans."""
    return {
        "schema": "monitor.rollbacks/1",
        "frozen": frozen,
        "services": [service_document(s) for name, s in services.items() if name != FLEET],
        "plans": [plan_document(plan) for plan in plans],
    }


def plan_document(plan: PlanSummary) -> dict[str, Any]:
    """One plan, by the latest decision about it."""
    return {**asdict(plan), "began_at": iso(plan.began_at), "at": iso(plan.at)}


def decision_document(decision: Decision) -> dict[str, Any]:
    """One decision with what it rests on."""
    return {**asdict(decision), "at": iso(decision.at)}


def story_document(
    plan: PlanSummary, decisions: Iterable[Decision], steps: Iterable[StepRow]
) -> dict[str, Any]:
    """The whole audit of one plan."""
    return {
        "schema": "monitor.rollback/1",
        "plan": plan_document(plan),
        "decisions": [decision_document(decision) for decision in decisions],
        "steps": [{**asdict(step), "at": iso(step.at)} for step in steps],
    }


def order_document(command: Command, answer: Decision | None, *, taken: bool) -> dict[str, Any]:
    """An order, and what the daemon has made of it."""
    return {
        "schema": "monitor.rollback_order/1",
        "order": command.order.value,
        "service": command.service,
        "plan": command.plan,
        "who": command.who,
        "at": iso(command.at),
        "taken": taken,
        "answer": None if answer is None else decision_document(answer),
    }
