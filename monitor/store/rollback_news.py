"""Turns news of rollbacks into notifications, in the transaction that stores them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, Row, select

from monitor.alerting.model import Notification, Severity
from monitor.alerting.routes import Routing
from monitor.rollback.messages import RULE, Told, farewell, incident_of, message
from monitor.rollback.model import News, Phase
from monitor.rollback.ports import Record
from monitor.store.alerts import write_news
from monitor.store.standing import AlertNews
from monitor.store.tables import incidents


def tell(
    connection: Connection, record: Record, fresh: Sequence[News], routing: Routing, now: float
) -> None:
    """Writes what people are told of ``fresh``, and ends incidents of plans that are over."""
    for news in fresh:
        if news.plan is None:
            continue
        told = message(news, _told(connection, news.service, news.plan))
        if told is not None:
            _write(connection, [told], routing, now)
    ended = [
        farewell(record.service, before, now)
        for before in _open(connection, record.service)
        if record.phase == Phase.ARMED or not _belongs(record, before)
    ]
    _write(connection, ended, routing, now)


def _write(
    connection: Connection, told: Iterable[Notification], routing: Routing, now: float
) -> None:
    notifications = tuple(told)
    if notifications:
        write_news(connection, AlertNews(told=notifications), routing, now)


def _told(connection: Connection, service: str, plan: str) -> Told | None:
    query = select(incidents).where(incidents.c.id == incident_of(service, plan))
    row = connection.execute(query).first()
    return None if row is None else _read(row)


def _open(connection: Connection, service: str) -> list[Told]:
    column = incidents.c
    query = select(incidents).where(
        column.rule == RULE, column.service == service, column.ended_at.is_(None)
    )
    return [_read(row) for row in connection.execute(query)]


def _belongs(record: Record, before: Told) -> bool:
    """Whether an incident is that of the plan in progress; without one, of the last plan."""
    if record.plan is None:
        return True
    return before.incident == incident_of(record.service, record.plan)


def _read(row: Row[tuple[object, ...]]) -> Told:
    return Told(
        incident=row.id,
        sequence=row.sequence,
        started_at=row.started_at,
        severity=Severity(row.severity),
        title=row.title,
        is_over=row.ended_at is not None,
    )
