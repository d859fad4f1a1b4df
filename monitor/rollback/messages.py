"""What people are told of a rollback: news as notifications, one incident for each plan."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from monitor.alerting.model import Notification, Reason, Severity, State
from monitor.model import Action
from monitor.rollback.model import Kind, News, Phase
from monitor.rollback.settings import Cure, Mode

RULE = "rollback"
"""What such notifications have in the place of the name of a rule."""
RUNBOOK = "docs/rollback.md"

_INCIDENTS = uuid.UUID("5d0c9d3f-8f5a-4f39-9c1e-0f6d1f0f7a52")
_OVER = frozenset({Kind.WITHDRAWN, Kind.EXPIRED, Kind.ABORTED, Kind.RESTORED, Kind.REARMED})
_QUIET = frozenset({Kind.STEP, Kind.REFUSED})
"""Told only if a person must act on them."""
_TITLES = {
    Kind.PROPOSED: "a rollback is proposed",
    Kind.APPROVED: "a rollback has been approved and begins",
    Kind.WITHDRAWN: "the proposed rollback is withdrawn",
    Kind.EXPIRED: "the proposed rollback is void",
    Kind.STARTED: "a rollback begins",
    Kind.BLOCKED: "the baseline side cannot take over",
    Kind.STEP: "a rollback needs attention",
    Kind.DONE: "rolled back, the speculative side is parked",
    Kind.FAILED: "a rollback has failed",
    Kind.ABORTED: "a rollback was aborted",
    Kind.HELD: "a rollback is held where it is",
    Kind.REFUSED: "an order is refused",
    Kind.REARMED: "rollbacks are armed again",
    Kind.TRIAL: "the speculative side is on trial",
    Kind.RESTORED: "the speculative side serves again",
    Kind.FROZEN: "all rollbacks are frozen",
}
_RESTART_TITLES = {
    Kind.PROPOSED: "a restart of the speculative side is proposed",
    Kind.APPROVED: "a restart of the speculative side has been approved and begins",
    Kind.STARTED: "a restart of the speculative side begins",
    Kind.DONE: "the speculative side has been restarted",
}
_TYPE = {
    Phase.PROPOSED: "'monitor rollback approve {0}' lets it go on, 'monitor rollback abort {0}'"
    " drops it",
    Phase.BLOCKED: "'monitor rollback run {0}' has the baseline side looked at again at once,"
    " 'monitor rollback abort {0}' gives it up",
    Phase.HELD: "'monitor rollback run {0}' goes on to the baseline side, 'monitor rollback abort"
    " {0}' puts traffic back, 'monitor rollback rearm {0}' tries the speculative side",
    Phase.FAILED: "'monitor rollback show {0}' has what was seen, 'monitor rollback rearm {0}'"
    " arms it before the cooldown is over",
}


def what_to_type(phase: str, service: str) -> str:
    """What a person who was called can do, in words; nothing where nobody need do anything."""
    return _TYPE[Phase(phase)].format(service) if phase in _TYPE else ""


@dataclass(frozen=True, slots=True)
class Told:
    """What was told last of an incident."""

    incident: str
    sequence: int
    started_at: float
    severity: Severity
    title: str
    is_over: bool


def incident_of(service: str, plan: str) -> str:
    """The name of the incident of a plan."""
    return str(uuid.uuid5(_INCIDENTS, f"{service}\n{plan}"))


def message(news: News, before: Told | None) -> Notification | None:
    """What to tell of a piece of news, after ``before``; None where it is for the audit alone.

    In mode observe nobody is told anything: the alerts that ask for a rollback do that.
    """
    if news.plan is None or news.mode is Mode.OBSERVE:
        return None
    if news.kind in _QUIET and not news.pages:
        return None
    over = news.kind in _OVER and not news.pages
    if over and (before is None or before.is_over):
        return None  # Nobody was told that it began.
    return Notification(
        incident=incident_of(news.service, news.plan),
        sequence=1 if before is None else before.sequence + 1,
        at=news.at,
        reason=_reason(before, over=over),
        state=State.RESOLVED if over else State.FIRING,
        rule=RULE,
        severity=_severity(news, before, over=over),
        service=news.service,
        target="",
        started_at=news.at if before is None else before.started_at,
        ended_at=news.at if over else None,
        title=f"{news.service}: {_title(news)}",
        sentence=_sentence(news),
        cause=None,
        action=_action(news).value,
        labels={"mode": news.mode.value, "plan": news.plan},
        runbook=RUNBOOK,
    )


def farewell(service: str, before: Told, at: float) -> Notification:
    """The end of an incident that nobody will tell more of."""
    return Notification(
        incident=before.incident,
        sequence=before.sequence + 1,
        at=at,
        reason=Reason.RESOLVED,
        state=State.RESOLVED,
        rule=RULE,
        severity=before.severity,
        service=service,
        target="",
        started_at=before.started_at,
        ended_at=at,
        title=before.title,
        sentence="this rollback is over; the service is armed again or has another plan",
        cause=None,
        action=Action.NONE.value,
        runbook=RUNBOOK,
    )


def _title(news: News) -> str:
    restarts = news.cure is Cure.RESTART
    return (restarts and _RESTART_TITLES.get(news.kind)) or _TITLES[news.kind]


def _sentence(news: News) -> str:
    # A proposal and a freeze say it themselves.
    says = news.kind in {Kind.PROPOSED, Kind.FROZEN} or not news.pages
    hint = "" if says else what_to_type(news.phase, news.service)
    return f"{news.sentence}; {hint}" if hint else news.sentence


def _reason(before: Told | None, *, over: bool) -> Reason:
    if over:
        return Reason.RESOLVED
    return Reason.FIRST if before is None or before.is_over else Reason.SEVERITY


def _severity(news: News, before: Told | None, *, over: bool) -> Severity:
    if over and before is not None:
        return before.severity
    if news.pages or news.kind is Kind.FAILED:
        return Severity.CRITICAL
    return Severity.INFO if news.kind is Kind.DONE else Severity.WARNING


def _action(news: News) -> Action:
    return Action.ROLL_BACK if news.kind is Kind.PROPOSED else Action.NONE
