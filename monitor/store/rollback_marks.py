"""Which plans are still to be marked in Grafana, and which marks are still to be ended."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import ColumnElement, Engine, Select, func, insert, select, update

from monitor.rollback.model import Kind
from monitor.rollback.settings import Mode
from monitor.store.connect import reading, writing
from monitor.store.lease import Guard, unguarded
from monitor.store.tables import rollback_decisions, rollback_marks, rollbacks

_AT_ONCE = 20
_BEGINS = (Kind.STARTED.value, Kind.APPROVED.value)


class DueMark(NamedTuple):
    """A mark that is to be made or ended."""

    plan: str
    service: str
    at: float
    """When it began, or ended."""
    text: str
    number: int | None = None
    """Of the mark in Grafana, once it is there."""


class RollbackMarks:
    """Reads and writes them, each call in a transaction of its own. Safe from any thread."""

    def __init__(self, engine: Engine, guard: Guard = unguarded) -> None:
        self._engine = engine
        self._guard = guard

    def to_begin(self) -> list[DueMark]:
        """Plans that have begun, and are not marked."""
        column = rollback_decisions.c
        began = (
            _first_or_last(func.min(column.id))
            .where(column.kind.in_(_BEGINS), column.mode != Mode.OBSERVE.value)
            .where(column.plan.not_in(select(rollback_marks.c.plan)))
        )
        return self._decisions(column.id.in_(began))

    def to_end(self) -> list[DueMark]:
        """Marks of plans that are no longer in progress."""
        column, mark = rollback_decisions.c, rollback_marks.c
        current = select(rollbacks.c.plan).where(rollbacks.c.plan.is_not(None))
        over = select(mark.plan).where(mark.ended_at.is_(None), mark.plan.not_in(current))
        ended = _first_or_last(func.max(column.id)).where(column.plan.in_(over))
        due = self._decisions(column.id.in_(ended))
        query = select(mark.plan, mark.number).where(mark.plan.in_([one.plan for one in due]))
        with reading(self._engine) as connection:
            numbers = {row.plan: row.number for row in connection.execute(query)}
        return [one._replace(number=numbers[one.plan]) for one in due]

    def begun(self, plan: str, number: int) -> None:
        """Notes that a plan is marked."""
        with writing(self._engine) as connection:
            self._guard(connection)
            connection.execute(insert(rollback_marks).values(plan=plan, number=number))

    def ended(self, plan: str, at: float) -> None:
        """Notes that a mark has been ended."""
        statement = update(rollback_marks).where(rollback_marks.c.plan == plan)
        with writing(self._engine) as connection:
            self._guard(connection)
            connection.execute(statement.values(ended_at=at))

    def _decisions(self, where: ColumnElement[bool]) -> list[DueMark]:
        column = rollback_decisions.c
        query = (
            select(column.plan, column.service, column.at, column.sentence)
            .where(where)
            .order_by(column.id)
            .limit(_AT_ONCE)
        )
        with reading(self._engine) as connection:
            return [DueMark(*row) for row in connection.execute(query)]


def _first_or_last(which: ColumnElement[int]) -> Select[int]:
    """The number of the first or the last decision of each plan."""
    column = rollback_decisions.c
    return select(which).where(column.plan.is_not(None)).group_by(column.plan)
