"""Reads what is known of the past of one target besides its figures, for ``monitor replay``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from monitor.health.judging import JudgeSettings
from monitor.model import Cause, Identity, Verdict
from monitor.store.fingerprint import read_identity
from monitor.store.increments import first_end
from monitor.store.registry import load_facts, load_judge
from monitor.store.rows import TargetFacts
from monitor.store.tables import (
    fingerprints,
    incidents,
    notifications,
    target_states,
    verdicts,
)


@dataclass(frozen=True, slots=True)
class Said:
    """One change of a verdict."""

    at: float
    verdict: Verdict
    cause: Cause | None
    action: str
    sentence: str
    baseline: Mapping[str, Any] | None
    """The baseline of the comparison, as the assessment tells it."""


@dataclass(frozen=True, slots=True)
class Course:
    """What was said of a target, and what it was."""

    facts: TargetFacts
    judge: JudgeSettings
    """Thresholds and spans as configured today, without a baseline."""
    gap: float | None
    said: tuple[Said, ...]
    """Changes, ascending; the first is the one in force at the beginning, if any."""
    identities: tuple[tuple[float, Identity], ...]
    """What pages told of the server, and since when, ascending."""
    first: float | None
    """End of the first sample there is; None where there is none."""
    until: float
    """Until when it was watched."""


def load_course(connection: Connection, target_id: int, start: float, end: float) -> Course:
    """What is stored about a span of time, and what held at its beginning."""
    judge, gap = load_judge(connection, target_id)
    query = select(target_states.c.at).where(target_states.c.target_id == target_id)
    watched_until = connection.execute(query).scalar()
    return Course(
        facts=load_facts(connection, target_id),
        judge=judge,
        gap=gap,
        said=_load_said(connection, target_id, start, end),
        identities=_load_identities(connection, target_id),
        first=first_end(connection, target_id),
        until=min(end, watched_until or 0.0),
    )


def load_first_told(connection: Connection, service: str) -> list[tuple[float, float | None]]:
    """When each incident of a service was first told of, and when it ended."""
    query = (
        select(func.min(notifications.c.at), incidents.c.ended_at)
        .join_from(incidents, notifications, notifications.c.incident == incidents.c.id)
        .where(incidents.c.service == service)
        .group_by(incidents.c.id)
    )
    return [(at, ended) for at, ended in connection.execute(query)]


def _load_said(
    connection: Connection, target_id: int, start: float, end: float
) -> tuple[Said, ...]:
    column = verdicts.c
    own = column.target_id == target_id
    in_force = select(func.max(column.at)).where(own, column.at <= start).scalar_subquery()
    query = (
        select(column.at, column.verdict, column.cause, column.action, column.sentence)
        .add_columns(column.document)
        .where(own, column.at <= end, column.at >= func.coalesce(in_force, start))
        .order_by(column.at)
    )
    return tuple(
        Said(
            at,
            Verdict(verdict),
            Cause(cause) if cause else None,
            action,
            sentence,
            json.loads(document).get("baseline"),
        )
        for at, verdict, cause, action, sentence, document in connection.execute(query)
    )


def _load_identities(connection: Connection, target_id: int) -> tuple[tuple[float, Identity], ...]:
    column = fingerprints.c
    query = (
        select(column.since, *(column[part] for part in Identity._fields))
        .where(column.target_id == target_id)
        .order_by(column.since)
    )
    return tuple((since, read_identity(*parts)) for since, *parts in connection.execute(query))
