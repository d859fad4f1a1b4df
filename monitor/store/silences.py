"""Silences in the database."""

from __future__ import annotations

import json
from dataclasses import replace

from sqlalchemy import Connection, Engine, Row, insert, select, update

from monitor.alerting.routes import parse_matcher
from monitor.alerting.silences import Silence
from monitor.model import StoreError
from monitor.store.connect import reading, writing
from monitor.store.tables import silences
from monitor.store.text import clean_text, to_json
from monitor.weekly import parse_weekly


class Silences:
    """Adds, lists and ends silences. Safe from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, silence: Silence) -> Silence:
        """Stores a silence under a new id, which is returned with it."""
        values = {
            "matchers": to_json([str(matcher) for matcher in silence.matchers]),
            "who": clean_text(silence.who, 200),
            "why": clean_text(silence.why, 500),
            "created_at": silence.created_at,
            "starts_at": silence.starts_at,
            "ends_at": silence.ends_at,
            "weekly": None if silence.weekly is None else str(silence.weekly),
            "holds_rollback": silence.holds_rollback,
        }
        with writing(self._engine) as connection:
            statement = insert(silences).values(**values).returning(silences.c.id)
            key: int = connection.execute(statement).scalar_one()
        return replace(silence, id=key)

    def current(self, now: float) -> list[Silence]:
        """Those that are in force or will be, by id."""
        with reading(self._engine) as connection:
            return load_silences(connection, now)

    def all(self) -> list[Silence]:
        """All there ever were, by id."""
        with reading(self._engine) as connection:
            query = select(silences).order_by(silences.c.id)
            return [_silence(row) for row in connection.execute(query)]

    def expire(self, key: int, now: float) -> None:
        """Ends a silence before its time."""
        statement = (
            update(silences)
            .where(silences.c.id == key, silences.c.expired_at.is_(None))
            .where(silences.c.ends_at > now)
            .values(expired_at=now)
        )
        with writing(self._engine) as connection:
            if connection.execute(statement).rowcount != 1:
                raise StoreError(f"there is no silence {key} in force ('monitor silence list')")


def load_silences(connection: Connection, now: float) -> list[Silence]:
    """The silences that have not come to their end."""
    column = silences.c
    query = (
        select(silences)
        .where(column.ends_at > now, column.expired_at.is_(None))
        .order_by(column.id)
    )
    return [_silence(row) for row in connection.execute(query)]


def _silence(row: Row[tuple[object, ...]]) -> Silence:
    return Silence(
        id=row.id,
        matchers=tuple(parse_matcher(text) for text in json.loads(row.matchers)),
        who=row.who,
        why=row.why,
        created_at=row.created_at,
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        weekly=None if row.weekly is None else parse_weekly(row.weekly),
        holds_rollback=row.holds_rollback,
        expired_at=row.expired_at,
    )
