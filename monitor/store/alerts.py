"""Alerts in the database: states, incidents, and notifications with their outbox rows.

The functions that take a connection are for the transaction that writes a round, so that a
change of state and the notification of it are stored together or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Engine, case, func, insert, select

from monitor.alerting.documents import from_stored, to_stored
from monitor.alerting.model import Notification, Reason, State
from monitor.alerting.routes import Routing, labels_of
from monitor.alerting.silences import Silence
from monitor.model import StoreError
from monitor.store.connect import insert_into, reading, writing
from monitor.store.filled import incident_is_filled
from monitor.store.lease import Guard, unguarded
from monitor.store.outbox import Outbox, OutboxState
from monitor.store.silences import Silences, load_silences
from monitor.store.standing import AlertNews, save_standing
from monitor.store.tables import alert_states, incidents, notifications, outbox
from monitor.store.text import clean_text, to_json


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident as its newest notification tells it."""

    id: str
    rule: str
    service: str
    target: str
    severity: str
    state: str
    started_at: float
    ended_at: float | None
    at: float
    sequence: int
    title: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of one notification at one receiver."""

    sequence: int
    reason: str
    at: float
    receiver: str | None
    """None where no receiver was chosen."""
    state: OutboxState | None
    attempts: int
    next_at: float | None
    settled_at: float | None
    problem: str | None
    silence_id: int | None


@dataclass(frozen=True, slots=True)
class IncidentStory:
    """An incident with all that was said about it."""

    incident: Incident
    latest: Notification
    deliveries: tuple[Delivery, ...]


class IncidentFilter(StrEnum):
    """Which incidents are listed."""

    OPEN = "open"
    ALL = "all"


def write_news(connection: Connection, news: AlertNews, routing: Routing, now: float) -> int:
    """Stores what one tick changed; for a transaction that writes more.

    Returns:
        How many notifications were new. Those that are stored already, by incident and
        sequence, change nothing.
    """
    save_standing(connection, [(news, now)])
    return write_told(connection, news.told, routing, now)


def write_told(
    connection: Connection, told: Sequence[Notification], routing: Routing, now: float
) -> int:
    """Stores notifications with their outbox rows; how many were new."""
    if not told:
        return 0
    silences = load_silences(connection, now)
    return sum(_add(connection, one, routing, silences, now) for one in told)


class AlertStore:
    """Reads and writes alerts, each call in a transaction of its own.

    Safe from any thread.
    """

    def __init__(self, engine: Engine, guard: Guard = unguarded) -> None:
        self._engine = engine
        self._guard = guard
        self.outbox = Outbox(engine, guard)
        self.silences = Silences(engine)

    def record(self, news: AlertNews, routing: Routing, now: float) -> int:
        """Stores news in a transaction of their own; how many notifications were new."""
        with writing(self._engine) as connection:
            self._guard(connection)
            return write_news(connection, news, routing, now)

    def states(self) -> dict[tuple[str, str], str]:
        """Where all alerts stand, by rule and target."""
        column = alert_states.c
        with reading(self._engine) as connection:
            found = connection.execute(select(column.rule, column.target, column.state))
            return {(rule, target): state for rule, target, state in found}

    def by_target(self) -> dict[str, dict[str, str]]:
        """Where all alerts stand, by target and rule."""
        found: dict[str, dict[str, str]] = {}
        for (rule, target), state in self.states().items():
            found.setdefault(target, {})[rule] = state
        return found

    def services(self) -> dict[str, str]:
        """The service that each target with an open incident belonged to."""
        column = incidents.c
        query = select(column.target, column.service).where(column.ended_at.is_(None))
        with reading(self._engine) as connection:
            return {row.target: row.service for row in connection.execute(query)}

    def incidents(
        self,
        which: IncidentFilter = IncidentFilter.OPEN,
        limit: int = 100,
        service: str | None = None,
    ) -> list[Incident]:
        """The newest incidents of a service or of all, newest first."""
        query = select(*_INCIDENT).order_by(incidents.c.at.desc(), incidents.c.id).limit(limit)
        if which is IncidentFilter.OPEN:
            query = query.where(_ENDED.is_(None))
        if service is not None:
            query = query.where(incidents.c.service == service)
        with reading(self._engine) as connection:
            return [Incident(*row) for row in connection.execute(query)]

    def incident(self, key: str) -> IncidentStory:
        """One incident by its id or the beginning of it."""
        with reading(self._engine) as connection:
            found = _find_incident(connection, key)
            document = connection.execute(
                select(notifications.c.document)
                .where(notifications.c.incident == found.id)
                .order_by(notifications.c.sequence.desc())
                .limit(1)
            ).scalar_one()
            return IncidentStory(
                found, from_stored(json.loads(document)), _deliveries(connection, found.id)
            )


# One that was open where filled-in time ends is history: nobody has watched it since.
_ENDED = case(
    (incident_is_filled(), func.coalesce(incidents.c.ended_at, incidents.c.at)),
    else_=incidents.c.ended_at,
)
_INCIDENT = tuple(
    _ENDED.label(name) if name == "ended_at" else incidents.c[name]
    for name in Incident.__dataclass_fields__
)


def _add(
    connection: Connection,
    notification: Notification,
    routing: Routing,
    silences: Sequence[Silence],
    now: float,
) -> bool:
    """Stores one notification unless it is there; whether it was new."""
    n = notification
    stored = to_stored(n)
    statement = (
        insert_into(connection.engine, notifications)
        .values(
            incident=n.incident,
            sequence=n.sequence,
            at=n.at,
            reason=n.reason.value,
            document=to_json(stored),
        )
        .on_conflict_do_nothing()
        .returning(notifications.c.id)
    )
    key = connection.execute(statement).scalar()
    if key is None:
        return False
    _save_incident(connection, n, stored)
    labels = labels_of(n)
    silence = next((s for s in silences if s.covers(labels, now)), None)
    told = _told(connection, n.incident)
    rows = [
        _outbox_row(key, n, receiver, silence, now, known=receiver in told)
        for receiver in _receivers(n, routing, told)
    ]
    if rows:
        connection.execute(insert(outbox), rows)
    return True


def _receivers(n: Notification, routing: Routing, told: frozenset[str]) -> tuple[str, ...]:
    """Those the routes choose, and for news of an incident those that know of it.

    Whoever was called because of a critical alert must hear that it is only a warning now, or
    over, also where the routes would not tell him of a warning.
    """
    chosen = routing.choose(labels_of(n))
    if n.reason not in (Reason.RESOLVED, Reason.SEVERITY):
        return chosen
    return tuple(name for name in routing.receivers if name in told or name in chosen)


def _outbox_row(
    key: int,
    n: Notification,
    receiver: str,
    silence: Silence | None,
    now: float,
    *,
    known: bool,
) -> dict[str, Any]:
    state, problem, silence_id = OutboxState.WAITING, None, None
    ended = n.state is State.RESOLVED
    if ended and not known:
        # An end means nothing to whoever never heard of the beginning.
        state, problem = OutboxState.SKIPPED, "nothing was sent of this incident before"
    elif silence is not None and not ended:
        # The end is told in a silence, too: else a pager would go on for ever.
        state, silence_id = OutboxState.SILENCED, silence.id
        problem = f"silence {silence.id} by {silence.who}: {silence.why}"
    return {
        "notification_id": key,
        "receiver": receiver,
        "incident": n.incident,
        "sequence": n.sequence,
        "state": state.value,
        "attempts": 0,
        "created_at": now,
        "next_at": now,
        "settled_at": None if state is OutboxState.WAITING else now,
        "problem": problem,
        "silence_id": silence_id,
    }


def _told(connection: Connection, incident: str) -> frozenset[str]:
    """The receivers that have heard, or will hear, of an incident."""
    query = (
        select(outbox.c.receiver)
        .where(outbox.c.incident == incident)
        .where(outbox.c.state.not_in([OutboxState.SILENCED.value, OutboxState.SKIPPED.value]))
    )
    return frozenset(connection.scalars(query))


def _save_incident(connection: Connection, n: Notification, stored: Mapping[str, Any]) -> None:
    """Puts an incident where this notification tells that it stands, unless a later one did."""
    values: Mapping[str, Any] = {
        "id": n.incident,
        "rule": n.rule,
        "service": n.service,
        "target": n.target,
        "severity": n.severity.value,
        "state": n.state.value,
        "started_at": n.started_at,
        "ended_at": n.ended_at,
        "at": n.at,
        "sequence": n.sequence,
        "title": clean_text(stored["title"]),
        "sentence": clean_text(stored["sentence"]),
    }
    statement = insert_into(connection.engine, incidents).values(**values)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["id"],
            set_={name: statement.excluded[name] for name in values if name != "id"},
            where=statement.excluded.sequence > incidents.c.sequence,
        )
    )


def _find_incident(connection: Connection, key: str) -> Incident:
    exact = connection.execute(select(*_INCIDENT).where(incidents.c.id == key)).first()
    if exact is not None:
        return Incident(*exact)
    query = select(*_INCIDENT).where(incidents.c.id.startswith(key, autoescape=True)).limit(2)
    found = connection.execute(query).all()
    if len(found) == 1:
        return Incident(*found[0])
    what = "several incidents begin" if found else "no incident begins"
    raise StoreError(f"{what} with {clean_text(key, 100)!r}; 'monitor alerts list --all' lists")


def _deliveries(connection: Connection, incident: str) -> tuple[Delivery, ...]:
    column, row = notifications.c, outbox.c
    query = (
        select(column.sequence, column.reason, column.at, row.receiver, row.state, row.attempts)
        .add_columns(row.next_at, row.settled_at, row.problem, row.silence_id)
        .outerjoin_from(notifications, outbox, row.notification_id == column.id)
        .where(column.incident == incident)
        .order_by(column.sequence, row.receiver)
    )
    return tuple(
        Delivery(
            sequence=found.sequence,
            reason=found.reason,
            at=found.at,
            receiver=found.receiver,
            state=None if found.state is None else OutboxState(found.state),
            attempts=found.attempts or 0,
            next_at=found.next_at,
            settled_at=found.settled_at,
            problem=found.problem,
            silence_id=found.silence_id,
        )
        for found in connection.execute(query)
    )
