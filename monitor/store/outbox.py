"""The outbox: what is still to be sent to whom, claimed so that no two senders take the same."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    and_,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from monitor.alerting.documents import from_stored
from monitor.alerting.model import Notification, Reason, State
from monitor.alerting.retry import LONGEST_ASKED
from monitor.model import StoreError
from monitor.store.connect import reading, writing
from monitor.store.lease import Guard, unguarded
from monitor.store.tables import incidents, notifications, outbox
from monitor.store.text import clean_optional, clean_text

LONGEST_WAIT = LONGEST_ASKED
"""No row waits longer for its next attempt, and no lease lasts longer."""
_TRIES = 8
"""How many rows a claim tries for when other senders are faster."""
_FREE: dict[str, Any] = {"lease_owner": None, "lease_until": None}
"""The values of a row that nobody has in hand."""


class OutboxState(StrEnum):
    """What became of a notification at a receiver."""

    WAITING = "waiting"
    SENT = "sent"
    DEAD = "dead"
    """Given up; ``problem`` says why, and it can be put back."""
    SILENCED = "silenced"
    SKIPPED = "skipped"
    """The end of an incident of which the receiver was told nothing."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A row that is ours to send until the lease runs out."""

    id: int
    owner: str
    receiver: str
    attempts: int
    """This one included."""
    created_at: float
    notification: Notification


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A notification that was given up."""

    id: int
    receiver: str
    incident: str
    sequence: int
    at: float
    attempts: int
    problem: str
    title: str


class Outbox:
    """The queue of each receiver. Safe from any thread and any number of processes.

    Rows are claimed one by one, so that two senders never have the same one in hand; ``guard``
    lets only the daemon that leads claim any.
    """

    def __init__(self, engine: Engine, guard: Guard = unguarded) -> None:
        self._engine = engine
        self._guard = guard

    def claim(self, receiver: str, owner: str, now: float, lease: float) -> Claimed | None:
        """Takes the next row that is due, for ``lease`` seconds; None where none is.

        Messages about one incident are taken in their order: an end never overtakes its
        beginning. Whoever was killed with a row in hand loses it when its lease runs out.
        """
        for key in self._due(receiver, now):
            with writing(self._engine) as connection:
                self._guard(connection)
                if self._take(connection, key, owner, now, lease):
                    return _load(connection, key, owner)
        return None

    def _due(self, receiver: str, now: float) -> list[int]:
        """The next rows that are due: one for each incident, those that wait longest first."""
        row = outbox.c
        # Numbers instead of a question or a join for each row: those cost the square of what
        # waits, where a database has no statistics yet.
        place = func.row_number().over(partition_by=row.incident, order_by=row.sequence)
        waiting = (
            select(row.id, row.state, row.next_at, row.lease_until, place.label("place"))
            .where(row.receiver == receiver, row.state == OutboxState.WAITING.value)
            .subquery()
        )
        query = (
            select(waiting.c.id)
            .where(waiting.c.place == 1, _is_free(waiting.c, now))
            .order_by(waiting.c.next_at, waiting.c.id)
            .limit(_TRIES)
        )
        with reading(self._engine) as connection:
            return list(connection.scalars(query))

    def _take(
        self, connection: Connection, key: int, owner: str, now: float, lease: float
    ) -> bool:
        # The condition is asked again here, where the row is locked: one sender wins.
        done = connection.execute(
            update(outbox)
            .where(outbox.c.id == key, _is_free(outbox.c, now))
            .values(
                lease_owner=owner,
                lease_until=now + lease,
                attempts=outbox.c.attempts + 1,
            )
        )
        return done.rowcount == 1

    def sent(self, claimed: Claimed, now: float) -> None:
        """Notes that the receiver has it.

        Also where the lease has run out meanwhile, or where it was given up because the receiver
        was taken out of the configuration: that the receiver has it stays true.
        """
        known = (OutboxState.WAITING, OutboxState.DEAD)
        self._settle(claimed.id, OutboxState.SENT, now, None, known, owner=None)

    def postpone(self, claimed: Claimed, until: float, problem: str) -> bool:
        """Gives a row back, to be tried again later; False when it is no longer ours."""
        statement = (
            update(outbox)
            .where(outbox.c.id == claimed.id, outbox.c.lease_owner == claimed.owner)
            .where(outbox.c.state == OutboxState.WAITING.value)
            .values({"next_at": until, "problem": clean_text(problem), **_FREE})
        )
        with writing(self._engine) as connection:
            return connection.execute(statement).rowcount == 1

    def bury(self, claimed: Claimed, now: float, problem: str) -> bool:
        """Gives a notification up; False when it is no longer ours."""
        waiting = (OutboxState.WAITING,)
        return self._settle(
            claimed.id, OutboxState.DEAD, now, problem, waiting, owner=claimed.owner
        )

    def dead_letters(self) -> list[DeadLetter]:
        """All that was given up, oldest first."""
        row, column = outbox.c, notifications.c
        query = (
            select(row.id, row.receiver, row.incident, row.sequence, row.settled_at, row.attempts)
            .add_columns(row.problem, column.document)
            .join_from(outbox, notifications, row.notification_id == column.id)
            .where(row.state == OutboxState.DEAD.value)
            .order_by(row.settled_at, row.id)
        )
        with reading(self._engine) as connection:
            found = list(connection.execute(query))
        return [
            DeadLetter(
                id=letter.id,
                receiver=letter.receiver,
                incident=letter.incident,
                sequence=letter.sequence,
                at=letter.settled_at,
                attempts=letter.attempts,
                problem=letter.problem or "",
                title=json.loads(letter.document)["title"],
            )
            for letter in found
        ]

    def requeue(self, now: float, *, key: int | None = None, receiver: str | None = None) -> int:
        """Puts dead letters back, one, those of a receiver, or all; how many.

        The time to give up counts anew from here.
        """
        statement = update(outbox).where(outbox.c.state == OutboxState.DEAD.value)
        if key is not None:
            statement = statement.where(outbox.c.id == key)
        if receiver is not None:
            statement = statement.where(outbox.c.receiver == receiver)
        values = {
            "state": OutboxState.WAITING.value,
            "attempts": 0,
            "created_at": now,
            "next_at": now,
            "settled_at": None,
            **_FREE,
        }
        with writing(self._engine) as connection:
            count = connection.execute(statement.values(values)).rowcount
        if key is not None and count == 0:
            raise StoreError(
                f"there is no dead letter {key}; 'monitor alerts deadletter list' lists them"
            )
        return count

    def counts(self) -> dict[tuple[str, OutboxState], int]:
        """How many rows there are, by receiver and state."""
        column = outbox.c
        query = select(column.receiver, column.state, func.count()).group_by(
            column.receiver, column.state
        )
        with reading(self._engine) as connection:
            return {
                (receiver, OutboxState(state)): count
                for receiver, state, count in connection.execute(query)
            }

    def waiting(self) -> dict[str, tuple[int, float]]:
        """How many rows wait for each receiver, and since when the oldest of them does."""
        column = outbox.c
        query = (
            select(column.receiver, func.count(), func.min(column.created_at))
            .where(column.state == OutboxState.WAITING.value)
            .group_by(column.receiver)
        )
        with reading(self._engine) as connection:
            return {name: (count, oldest) for name, count, oldest in connection.execute(query)}

    def firing(self, receiver: str) -> list[Notification]:
        """The newest message that a receiver has of each incident that is still open.

        That nothing is known any more is no news of the incident itself.
        """
        row, column = outbox.c, notifications.c
        later, said = outbox.alias("later"), notifications.alias("said")
        newer = exists().where(
            later.c.receiver == row.receiver,
            later.c.incident == row.incident,
            later.c.state == OutboxState.SENT.value,
            later.c.sequence > row.sequence,
            later.c.notification_id == said.c.id,
            said.c.reason != Reason.NO_DATA.value,
        )
        query = (
            select(column.document)
            .join_from(outbox, notifications, row.notification_id == column.id)
            .join(incidents, incidents.c.id == row.incident)
            .where(row.receiver == receiver, row.state == OutboxState.SENT.value, ~newer)
            .where(column.reason != Reason.NO_DATA.value)
            .where(incidents.c.ended_at.is_(None), incidents.c.state != State.RESOLVED.value)
            .order_by(row.id)
        )
        with reading(self._engine) as connection:
            return [from_stored(json.loads(text)) for text in connection.scalars(query)]

    def _settle(
        self,
        key: int,
        state: OutboxState,
        now: float,
        problem: str | None,
        before: Collection[OutboxState],
        *,
        owner: str | None,
    ) -> bool:
        statement = update(outbox).where(
            outbox.c.id == key, outbox.c.state.in_([known.value for known in before])
        )
        if owner is not None:
            statement = statement.where(outbox.c.lease_owner == owner)
        with writing(self._engine) as connection:
            found = connection.execute(statement.values(_settled(state, now, problem)))
            return found.rowcount == 1


def bury_strangers(connection: Connection, receivers: Collection[str], now: float) -> int:
    """Gives up what waits for receivers that are no longer configured; how many."""
    statement = (
        update(outbox)
        .where(outbox.c.state == OutboxState.WAITING.value)
        .where(outbox.c.receiver.not_in(list(receivers)))
        .values(_settled(OutboxState.DEAD, now, "the receiver is no longer configured"))
    )
    return connection.execute(statement).rowcount


def _settled(state: OutboxState, now: float, problem: str | None) -> dict[str, Any]:
    """The values of a row that is not to be sent any more."""
    text = clean_optional(problem)
    return {"state": state.value, "settled_at": now, "problem": text, **_FREE}


def _is_free(column: ReadOnlyColumnCollection[str, Any], now: float) -> ColumnElement[bool]:
    """Whether a row is due and nobody has it.

    Times further ahead than any that is ever written come from a clock that has been set
    back since, and count as past.
    """
    due = or_(column.next_at <= now, column.next_at > now + 2 * LONGEST_WAIT)
    free = or_(
        column.lease_until.is_(None),
        column.lease_until <= now,
        column.lease_until > now + LONGEST_WAIT,
    )
    return and_(column.state == OutboxState.WAITING.value, due, free)


def _load(connection: Connection, key: int, owner: str) -> Claimed:
    row, column = outbox.c, notifications.c
    query = (
        select(row.id, row.receiver, row.attempts, row.created_at, column.document)
        .join_from(outbox, notifications, row.notification_id == column.id)
        .where(row.id == key)
    )
    number, receiver, attempts, created, document = connection.execute(query).one()
    notification = from_stored(json.loads(document))
    return Claimed(number, owner, receiver, attempts, created, notification)
