"""Reads the latest state of all targets for ``monitor status`` and the page."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, ScalarSelect, and_, func, select

from monitor.model import Verdict
from monitor.store.rows import ServiceStatus, TargetStatus
from monitor.store.tables import services, target_states, targets, verdicts

_latest = verdicts.alias("latest")


def load_statuses(connection: Connection) -> list[ServiceStatus]:
    """All live targets by service, both in the order of their names."""
    state = target_states.c
    query = (
        select(services.c.name, targets.c.name, targets.c.role, _latest.c.verdict, _since())
        .add_columns(state.at, state.assessed_at, state.assessment, state.problem)
        .join_from(targets, services)
        .outerjoin(target_states, state.target_id == targets.c.id)
        .outerjoin(
            _latest, and_(_latest.c.target_id == targets.c.id, _latest.c.at == _latest_at())
        )
        .where(targets.c.retired_at.is_(None))
    )
    rows = sorted(connection.execute(query).all(), key=lambda row: (row[0], row[1]))
    return [
        ServiceStatus(service, tuple(_status(row) for row in members))
        for service, members in groupby(rows, key=lambda row: row[0])
    ]


def _status(row: Row[*tuple[Any, ...]]) -> TargetStatus:
    target, role, verdict, *rest = row[1:]
    return TargetStatus(target, role, Verdict(verdict) if verdict else None, *rest)


def _latest_at() -> ScalarSelect[float]:
    newest = verdicts.alias("newest")
    return (
        select(func.max(newest.c.at)).where(newest.c.target_id == targets.c.id).scalar_subquery()
    )


def _since() -> ScalarSelect[float]:
    """When the latest verdict began: the first change after the last other verdict."""
    other, same = verdicts.alias("other"), verdicts.alias("same")
    last_other = (
        select(func.max(other.c.at))
        .where(other.c.target_id == targets.c.id, other.c.verdict != _latest.c.verdict)
        .correlate(targets, _latest)
        .scalar_subquery()
    )
    # Times are positive, so that -1 stands for "there was no other verdict".
    return (
        select(func.min(same.c.at))
        .where(same.c.target_id == targets.c.id, same.c.at > func.coalesce(last_other, -1.0))
        .correlate(targets, _latest)
        .scalar_subquery()
    )
