"""Writes what a round of ticks led to, in one transaction and with little work per target.

The two statements that every tick needs are rendered once and handed to the driver as they
are: to go through SQLAlchemy for each row would cost more than the database does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from sqlalchemy import Connection, Engine, Insert, func, insert, select
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from monitor.alerting.routes import NOWHERE, Routing
from monitor.model import Identity, StoreError
from monitor.store.alerts import write_told
from monitor.store.connect import insert_into, writing
from monitor.store.covered import Keyed, without_covered
from monitor.store.fingerprint import clean_identity, differences, follow
from monitor.store.lease import Guard, unguarded
from monitor.store.orders import mark_applied
from monitor.store.rows import Change, RoundRow
from monitor.store.standing import save_standing
from monitor.store.tables import (
    events,
    fingerprints,
    samples,
    series,
    target_states,
    verdicts,
)
from monitor.store.text import (
    clean_document,
    clean_label,
    clean_optional,
    clean_text,
    to_json,
)


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of the database so that a round need not read it."""

    targets: dict[str, int]
    series: dict[tuple[str, str], int]
    """By target and label."""
    identities: dict[str, Identity]


def read_memory(connection: Connection, target_ids: Mapping[str, int]) -> Memory:
    """Reads what is stored about these targets."""
    names = {key: name for name, key in target_ids.items()}
    known_series = connection.execute(select(series.c.target_id, series.c.label, series.c.id))
    fields = (fingerprints.c[name] for name in Identity._fields)
    known = connection.execute(
        select(fingerprints.c.target_id, *fields).order_by(fingerprints.c.since)
    )
    return Memory(
        dict(target_ids),
        {(names[key], label): number for key, label, number in known_series if key in names},
        {names[key]: Identity(*parts) for key, *parts in known if key in names},
    )


class RoundWriter:
    """Writes rounds for the targets it was told about, whose keys it remembers."""

    def __init__(self, engine: Engine, guard: Guard = unguarded) -> None:
        self._engine = engine
        self._guard = guard
        self._samples_sql = _render(engine, _samples_statement(engine))
        self._states_sql = _render(engine, states_statement(engine))
        self.routing: Routing = NOWHERE
        """Whom notifications go to that are written from now on."""
        self.remember(Memory({}, {}, {}))

    def remember(self, memory: Memory) -> None:
        """Writes for these targets from now on, and for no others."""
        self._targets = memory.targets
        self._series = memory.series
        self._identities = memory.identities

    def recall(self, target: str, identity: Identity) -> None:
        """Takes this for what is known of the server of a target where the next rows begin."""
        self._identities[target] = identity

    def write(
        self, batch: Sequence[RoundRow], also: Callable[[Connection], None] | None = None
    ) -> int:
        """Writes all rows or none; the same rows again change nothing.

        Args:
            batch: rows of targets that were named before.
            also: writes what belongs into the same transaction.

        Returns:
            How many increments were left out because a figure was not finite.
        """
        self._refuse_strangers(batch)
        changed = [(row, row.change) for row in batch if row.change is not None]
        with writing(self._engine) as connection:
            self._guard(connection)
            new_series = self._add_series(connection, batch)
            keys = self._series | new_series if new_series else self._series
            keyed = [
                (keys[row.target, increment.label], increment)
                for row in batch
                for increment in row.increments
            ]
            values, refused = _sample_values(without_covered(connection, keyed))
            if values:
                connection.exec_driver_sql(self._samples_sql, values)
            if states := self._state_values(batch):
                connection.exec_driver_sql(self._states_sql, states)
            new_identities = self._write_identities(connection, batch)
            for row, change in changed:
                self._write_change(connection, row, change)
            save_standing(connection, [(row.alerts, row.now) for row in batch])
            for row in batch:
                if row.obeyed:
                    mark_applied(connection, row.obeyed, row.now)
                write_told(connection, row.alerts.told, self.routing, row.now)
            if also is not None:
                also(connection)
        # Only what has been committed may be remembered.
        self._series |= new_series
        self._identities |= new_identities
        return refused

    def _refuse_strangers(self, batch: Sequence[RoundRow]) -> None:
        strangers = {row.target for row in batch} - self._targets.keys()
        if strangers:
            raise StoreError(f"target {min(strangers)} is not registered in the database")

    def _add_series(
        self, connection: Connection, batch: Sequence[RoundRow]
    ) -> dict[tuple[str, str], int]:
        seen = {(row.target, increment.label) for row in batch for increment in row.increments}
        return {
            key: self._series_id(connection, *key) for key in sorted(seen - self._series.keys())
        }

    def _series_id(self, connection: Connection, target: str, label: str) -> int:
        values = {"target_id": self._targets[target], "label": clean_label(label)}
        statement = insert_into(self._engine, series).on_conflict_do_nothing()
        connection.execute(statement, values)
        key: int = connection.execute(select(series.c.id).filter_by(**values)).scalar_one()
        return key

    def _state_values(self, batch: Sequence[RoundRow]) -> list[tuple[object, ...]]:
        return [
            (
                self._targets[row.target],
                row.now,
                clean_optional(row.problem),
                clean_document(row.state),
                None if row.document is None else row.now,
                None if row.document is None else clean_document(row.document),
            )
            for row in batch
            if row.state is not None
        ]

    def _write_identities(
        self, connection: Connection, batch: Sequence[RoundRow]
    ) -> dict[str, Identity]:
        """Stores fingerprints that say something new and returns them by target."""
        news: dict[str, Identity] = {}
        for row in batch:
            before = news.get(row.target) or self._identities.get(row.target, Identity())
            if row.identity == before:
                continue
            after = follow(before, clean_identity(row.identity))
            if after != before:
                self._write_identity(connection, row, before, after)
                news[row.target] = after
        return news

    def _write_identity(
        self, connection: Connection, row: RoundRow, before: Identity, after: Identity
    ) -> None:
        target_id = self._targets[row.target]
        statement = insert_into(self._engine, fingerprints).on_conflict_do_nothing()
        values = {"target_id": target_id, "since": row.now, **after._asdict()}
        changed = differences(before, after)
        if _is_new(connection, statement, values) and changed:
            detail = {"before": before._asdict(), "after": after._asdict()}
            add_event(
                connection, row.now, "fingerprint", changed, target_id=target_id, detail=detail
            )

    def _write_change(self, connection: Connection, row: RoundRow, change: Change) -> None:
        target_id = self._targets[row.target]
        words = {
            "verdict": str(change.verdict),
            "cause": None if change.cause is None else str(change.cause),
            "action": str(change.action),
        }
        values = {
            "target_id": target_id,
            "at": row.now,
            **words,
            "sentence": clean_text(change.sentence),
            "document": clean_document(change.document),
        }
        statement = insert_into(self._engine, verdicts).on_conflict_do_nothing()
        # Events have no natural key; the row of the verdict tells whether this one is new.
        if _is_new(connection, statement, values):
            detail = {**words, "problem": row.problem}
            add_event(
                connection, row.now, "verdict", change.sentence, target_id=target_id, detail=detail
            )


def add_event(
    connection: Connection,
    at: float,
    kind: str,
    text: str,
    *,
    target_id: int | None,
    detail: Mapping[str, object],
) -> None:
    """Writes one event."""
    connection.execute(
        insert(events).values(
            at=at,
            kind=clean_text(kind),
            target_id=target_id,
            text=clean_text(text),
            detail=to_json(detail),
        )
    )


def _is_new(connection: Connection, statement: Insert, values: Mapping[str, object]) -> bool:
    """Inserts one row, if it is not there yet, and tells which was the case."""
    # SQLAlchemy does not keep the count of an INSERT unless it is asked to.
    statement = statement.execution_options(preserve_rowcount=True)
    return connection.execute(statement, values).rowcount == 1


def _sample_values(keyed: Sequence[Keyed]) -> tuple[list[tuple[object, ...]], int]:
    """The rows in the order of the table's columns, and how many had to be left out."""
    values: list[tuple[object, ...]] = []
    refused = 0
    for key, (_, start, end, counts, warmup) in keyed:
        *scalars, positions = counts
        if isfinite(sum(scalars) + sum(positions)):
            # A list of finite floats is written alike in Python and JSON, but sooner here.
            values.append((key, start, end, warmup, *scalars, str(list(positions)), False))
        else:
            refused += 1
    return values, refused


def _samples_statement(engine: Engine) -> Insert:
    return insert_into(engine, samples).on_conflict_do_nothing()


def states_statement(engine: Engine) -> Insert:
    """Puts the latest state of a target in place of the one before."""
    statement = insert_into(engine, target_states)
    new, old = statement.excluded, target_states.c
    return statement.on_conflict_do_update(
        index_elements=["target_id"],
        set_={
            "at": new.at,
            "problem": new.problem,
            "state": new.state,
            "assessed_at": func.coalesce(new.assessed_at, old.assessed_at),
            "assessment": func.coalesce(new.assessment, old.assessment),
        },
    )


def _render(engine: Engine, statement: Insert) -> str:
    """The statement with one positional parameter for each column, in the table's order."""
    if engine.dialect.name == "postgresql":
        positional = PGDialect_psycopg(paramstyle="format")  # type: ignore[no-untyped-call]
        return str(statement.compile(dialect=positional))
    return str(statement.compile(dialect=engine.dialect))
