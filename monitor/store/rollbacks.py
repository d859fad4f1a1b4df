"""Rollbacks in the database: the journal of their executor, the audit, orders of operators."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Row, func, insert, select, update

from monitor.alerting.documents import redacted
from monitor.alerting.routes import NOWHERE, Routing
from monitor.model import StoreError
from monitor.rollback.model import Command, News, Order, Phase
from monitor.rollback.ports import Record, StepRow
from monitor.rollback.settings import Mode
from monitor.rollback.state import State
from monitor.store.connect import insert_into, reading, writing
from monitor.store.lease import DAEMON, guard
from monitor.store.rollback_news import tell
from monitor.store.tables import (
    rollback_decisions,
    rollback_orders,
    rollback_steps,
    rollbacks,
    services,
)
from monitor.store.text import clean_document, clean_optional, clean_text, to_json


@dataclass(frozen=True, slots=True)
class StoredRollback:
    """Where the rollback of one service stands."""

    service: str
    at: float
    mode: str
    phase: str
    plan: str | None
    state: str
    version: int
    """Counts the changes."""
    fence: int
    """Number of the lease under which it was changed last."""

    def read(self) -> State:
        """The whole state; what cannot be read says so, for those who only show it."""
        if not self.state:
            return State(self.service)
        try:
            return State.from_json(self.state)
        except StoreError as error:
            return State(self.service, why=str(error))


@dataclass(frozen=True, slots=True)
class Decision:
    """One row of the audit."""

    id: int
    service: str
    at: float
    kind: str
    mode: str
    phase: str
    plan: str | None
    cure: str | None
    share: float
    who: str | None
    pages: bool
    sentence: str
    evidence: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """One plan, as its decisions tell it."""

    plan: str
    service: str
    mode: str
    cure: str | None
    began_at: float
    at: float
    """When the latest decision about it was taken."""
    kind: str
    """What that was."""
    phase: str
    share: float
    sentence: str


class Rollbacks:
    """Reads and writes rollbacks, each call in a transaction of its own. Safe from any thread.

    It is the journal of the executor (``monitor.rollback.ports.Journal``).
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.routing: Routing = NOWHERE
        """Whom notifications go to that are written from now on."""

    # -- the journal of the executor -------------------------------------------------------

    def load(self, service: str) -> str | None:
        """The state that was stored last."""
        query = select(rollbacks.c.state).where(rollbacks.c.service == service)
        with reading(self._engine) as connection:
            return connection.execute(query).scalar() or None

    def commands(self, service: str) -> list[Command]:
        """Orders that no turn has answered yet, the oldest first."""
        column = rollback_orders.c
        query = (
            select(rollback_orders)
            .where(column.service == service, column.taken_at.is_(None))
            .order_by(column.id)
        )
        with reading(self._engine) as connection:
            return [_command(row) for row in connection.execute(query)]

    def save(self, record: Record, fence: int) -> None:
        """Stores what a turn changed, with the audit and the messages about it.

        Raises:
            LeaseError: another process has been given the lease since; nothing was stored.
            StoreError: the database does not take it; nothing was stored.
        """
        state = json.loads(record.state)
        at = float(state.get("at", 0.0))
        with writing(self._engine) as connection:
            guard(DAEMON, fence)(connection)
            self._put_state(connection, record, at, fence)
            for step in record.steps:
                self._put_step(connection, record.service, step, fence)
            # Written again after a commit whose answer was lost, a row is no news.
            fresh = [news for news in record.news if self._is_new(connection, news)]
            tell(connection, record, fresh, self.routing, at)
            if record.taken:
                keys = [int(key) for key in record.taken]
                connection.execute(
                    update(rollback_orders)
                    .where(rollback_orders.c.id.in_(keys), rollback_orders.c.taken_at.is_(None))
                    .values(taken_at=at)
                )

    def _put_state(self, connection: Connection, record: Record, at: float, fence: int) -> None:
        statement = insert_into(self._engine, rollbacks)
        new = statement.excluded
        names = ("at", "phase", "plan", "state", "fence")
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["service"],
                set_={name: new[name] for name in names} | {"version": rollbacks.c.version + 1},
            ),
            {
                "service": record.service,
                "at": at,
                "mode": Mode.OBSERVE.value,
                "phase": record.phase,
                "plan": record.plan,
                "state": clean_document(record.state),
                "version": 1,
                "fence": fence,
            },
        )

    def _put_step(self, connection: Connection, service: str, step: StepRow, fence: int) -> None:
        statement = insert_into(self._engine, rollback_steps)
        values = {**asdict(step), "detail": redacted(clean_text(step.detail))}
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["id"],
                set_={
                    name: statement.excluded[name]
                    for name in ("status", "attempts", "detail", "fence")
                },
            ),
            {**values, "service": service, "fence": fence},
        )

    def _is_new(self, connection: Connection, news: News) -> bool:
        statement = (
            insert_into(self._engine, rollback_decisions)
            .on_conflict_do_nothing()
            .returning(rollback_decisions.c.id)
        )
        values = {
            "service": news.service,
            "at": news.at,
            "kind": news.kind.value,
            "mode": news.mode.value,
            "phase": news.phase.value,
            "plan": news.plan,
            "cure": None if news.cure is None else news.cure.value,
            "share": news.share,
            "who": clean_optional(news.who),
            "pages": news.pages,
            "sentence": redacted(clean_text(news.sentence)),
            "evidence": to_json(redacted(news.evidence)),
        }
        return connection.execute(statement, values).scalar() is not None

    # -- orders of operators ---------------------------------------------------------------

    def order(
        self,
        service: str,
        order: Order,
        *,
        at: float,
        who: str,
        plan: str | None = None,
        force: bool = False,
    ) -> Command:
        """Writes an order, which the daemon that leads carries out or refuses."""
        who = clean_text(who)
        values = {"service": service, "at": at, "who": who, "kind": order.value}
        statement = insert(rollback_orders).values(**values, plan=plan, force=force)
        with writing(self._engine) as connection:
            key = connection.execute(statement.returning(rollback_orders.c.id)).scalar_one()
        return Command(str(key), service, order, who, at, plan, force)

    def is_taken(self, command: Command) -> bool:
        """Whether the daemon has answered an order."""
        query = select(rollback_orders.c.taken_at).where(rollback_orders.c.id == int(command.id))
        with reading(self._engine) as connection:
            return connection.execute(query).scalar_one() is not None

    # -- what is shown ---------------------------------------------------------------------

    def states(self) -> dict[str, StoredRollback]:
        """Where each service stands that has ever been watched for a rollback."""
        with reading(self._engine) as connection:
            return load_rollbacks(connection)

    def services(self) -> list[str]:
        """The names of all services that are known."""
        with reading(self._engine) as connection:
            return list(connection.scalars(select(services.c.name).order_by(services.c.name)))

    def plans(self, service: str | None = None, limit: int = 50) -> list[PlanSummary]:
        """The newest plans, newest first."""
        column = rollback_decisions.c
        spans = (
            select(
                column.plan, func.min(column.at).label("began"), func.max(column.id).label("id")
            )
            .where(column.plan.is_not(None))
            .group_by(column.plan)
            .subquery()
        )
        query = (
            select(column.plan, column.service, column.mode, column.cure, spans.c.began)
            .add_columns(column.at, column.kind, column.phase, column.share, column.sentence)
            .join_from(rollback_decisions, spans, column.id == spans.c.id)
            .order_by(column.id.desc())
            .limit(limit)
        )
        if service is not None:
            query = query.where(column.service == service)
        with reading(self._engine) as connection:
            return [PlanSummary(*row) for row in connection.execute(query)]

    def decisions(self, *, plan: str | None = None, service: str | None = None) -> list[Decision]:
        """The audit of a plan or a service, in the order of time."""
        column = rollback_decisions.c
        query = select(rollback_decisions).order_by(column.id)
        if plan is not None:
            query = query.where(column.plan == plan)
        if service is not None:
            query = query.where(column.service == service)
        with reading(self._engine) as connection:
            return [
                Decision(**{**row._mapping, "evidence": json.loads(row.evidence)})
                for row in connection.execute(query)
            ]

    def steps(self, plan: str) -> list[StepRow]:
        """The acts of a plan, in order."""
        column = rollback_steps.c
        names = StepRow.__dataclass_fields__
        query = (
            select(*(column[name] for name in names))
            .where(column.plan == plan)
            .order_by(column.at, column.id)
        )
        with reading(self._engine) as connection:
            return [StepRow(*row) for row in connection.execute(query)]

    def waiting(self) -> list[Command]:
        """All orders that the daemon has not answered yet."""
        query = select(rollback_orders).where(rollback_orders.c.taken_at.is_(None))
        with reading(self._engine) as connection:
            return [_command(row) for row in connection.execute(query.order_by("id"))]


def configure(connection: Connection, modes: Mapping[str, Mode], now: float) -> None:
    """Notes how far the monitor may go with each service; what stands where stays."""
    statement = insert_into(connection.engine, rollbacks)
    rows = [
        {
            "service": service,
            "at": now,
            "mode": mode.value,
            "phase": Phase.ARMED.value,
            "state": "",
            "version": 0,
            "fence": 0,
        }
        for service, mode in modes.items()
    ]
    if rows:
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["service"], set_={"mode": statement.excluded.mode}
            ),
            rows,
        )


def load_rollbacks(connection: Connection) -> dict[str, StoredRollback]:
    """All stored states by service."""
    query = select(rollbacks).order_by(rollbacks.c.service)
    return {row.service: StoredRollback(**row._mapping) for row in connection.execute(query)}


def find_plan(plans: Sequence[PlanSummary], key: str) -> PlanSummary:
    """The plan with this id, or the newest of the service with this name."""
    for plan in plans:
        if key in (plan.plan, plan.service):
            return plan
    raise StoreError(f"there is no rollback {clean_text(key, 100)!r}; 'monitor rollback list'")


def _command(row: Row[Any]) -> Command:
    return Command(
        id=str(row.id),
        service=row.service,
        order=Order(row.kind),
        who=row.who,
        at=row.at,
        plan=row.plan,
        force=row.force,
    )
