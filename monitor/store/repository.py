"""The one door to the database for the rest of the program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from sqlalchemy import Connection, Engine, select

from monitor.alerting.routes import NOWHERE, Routing
from monitor.health.orders import Order
from monitor.model import Increment, StoreError
from monitor.rollback.settings import Mode
from monitor.settings import Retention, TargetSettings
from monitor.store.alerts import AlertStore, write_news
from monitor.store.baselines import Baselines
from monitor.store.connect import reading, writing
from monitor.store.course import Course, load_course, load_first_told
from monitor.store.export import Row, Selection, What, export_rows
from monitor.store.history import load_history
from monitor.store.increments import load_increments, load_samples
from monitor.store.lease import Guard, Leases, unguarded
from monitor.store.moment import load_moment, load_state
from monitor.store.orders import add_order, load_orders
from monitor.store.outbox import bury_strangers
from monitor.store.pieces import seconds_kept
from monitor.store.registry import load_facts, register
from monitor.store.retention import read_dropped
from monitor.store.rollback_marks import RollbackMarks
from monitor.store.rollbacks import Rollbacks, configure
from monitor.store.rounds import RoundWriter, add_event, read_memory
from monitor.store.rows import (
    HistoryRow,
    RoundRow,
    ServiceStatus,
    StoredMoment,
    StoredOrder,
    StoredState,
    TargetFacts,
)
from monitor.store.space import Space, measure
from monitor.store.standing import AlertNews
from monitor.store.status import load_statuses
from monitor.store.tables import target_states, targets
from monitor.store.upkeep import Upkeep


@dataclass(frozen=True, slots=True)
class Adoption:
    """What another configuration changes in the database."""

    targets: Sequence[TargetSettings]
    modes: Mapping[str, Mode] = field(default_factory=dict)
    """How far rollbacks of each service may go."""
    routing: Routing = NOWHERE
    receivers: Sequence[str] | None = None
    """All there are; what waits for others is given up. None leaves them alone."""
    ended: Sequence[AlertNews] = ()
    """The ends of alerts about targets that are no longer watched."""
    text: str | None = None
    """The event to write down."""


class Repository:
    """Reads and writes what the monitor knows, each call in a transaction of its own.

    ``guard`` is asked in each transaction in which the daemon writes.

    All is safe from any thread, but ``register``, ``adopt`` and ``write_round`` share what is
    remembered of the targets: no two of them at once.
    All methods raise ``StoreError`` when the database does not take part.
    """

    def __init__(self, engine: Engine, guard: Guard = unguarded) -> None:
        self._engine = engine
        self._guard = guard
        self.baselines = Baselines(engine)
        self.alerts = AlertStore(engine, guard)
        self.leases = Leases(engine)
        self.rollbacks = Rollbacks(engine)
        self.marks = RollbackMarks(engine, guard)
        self._rounds = RoundWriter(engine, guard)

    def upkeep(self, retention: Retention, *, heeds_clock: bool = True) -> Upkeep:
        """What keeps the database in shape, for figures that are kept this long."""
        return Upkeep(self._engine, retention, heeds_clock=heeds_clock)

    def space(self) -> Space:
        """How large the database is."""
        return measure(self._engine)

    def register(self, configured: Sequence[TargetSettings], now: float) -> dict[str, int]:
        """Makes ``configured`` the live targets: adds, revives, retires; ids by name."""
        return self.adopt(Adoption(configured), now)

    def adopt(self, adoption: Adoption, now: float) -> dict[str, int]:
        """Puts another configuration in force, as a whole or not at all; ids by name."""
        with writing(self._engine) as connection:
            self._guard(connection)
            target_ids = register(connection, adoption.targets, now)
            configure(connection, adoption.modes, now)
            for news in adoption.ended:
                write_news(connection, news, adoption.routing, now)
            if adoption.receivers is not None:
                bury_strangers(connection, adoption.receivers, now)
            if adoption.text is not None:
                add_event(connection, now, "reload", adoption.text, target_id=None, detail={})
            memory = read_memory(connection, target_ids)
        # Only what has been committed may be gone by.
        self._rounds.remember(memory)
        self._rounds.routing = self.rollbacks.routing = adoption.routing
        return target_ids

    def write_round(self, batch: Sequence[RoundRow]) -> int:
        """Writes the outcome of a round for many targets, as a whole or not at all.

        Written again, the same rows change nothing.

        Returns:
            How many increments were left out because a figure was not finite.
        """
        return self._rounds.write(batch)

    def event(
        self,
        at: float,
        kind: str,
        text: str,
        *,
        target: str | None = None,
        detail: Mapping[str, object] | None = None,
    ) -> None:
        """Writes down that something happened, to one target or to the monitor itself."""
        with writing(self._engine) as connection:
            target_id = None if target is None else _target_id(connection, target)
            add_event(connection, at, kind, text, target_id=target_id, detail=detail or {})

    def load_states(self) -> dict[str, StoredState]:
        """What the last process knew about the live targets, by name."""
        state = target_states.c
        query = (
            select(targets.c.name, state.at, state.state, state.assessment)
            .join_from(targets, target_states)
            .where(targets.c.retired_at.is_(None))
        )
        with reading(self._engine) as connection:
            return {name: StoredState(*parts) for name, *parts in connection.execute(query)}

    def load_history(self, target: str, since_fine: float, now: float) -> list[Increment]:
        """The last day of a target for rebuilding its windows, ascending in time.

        Samples that end after ``since_fine`` come one by one; older ones come summed to ten
        minutes, without warm-up and without positions.
        """
        with reading(self._engine) as connection:
            return load_increments(connection, _target_id(connection, target), since_fine, now)

    def samples(self, target: str, start: float, end: float) -> list[Increment]:
        """The samples of a target that end in (``start``, ``end``], ascending in time.

        Where they were dropped, the sums of a minute or of ten that are left of them.
        """
        with reading(self._engine) as connection:
            return load_samples(connection, _target_id(connection, target), start, end)

    def facts(self, target: str) -> TargetFacts:
        """What is known of a target besides its figures."""
        with reading(self._engine) as connection:
            return load_facts(connection, _target_id(connection, target))

    def moment(self, target: str, at: float) -> StoredMoment | None:
        """What is stored about a target at a time, in one view; None before it was seen."""
        with reading(self._engine) as connection:
            return load_moment(connection, _target_id(connection, target), at)

    def state(self, target: str) -> StoredState | None:
        """What the last process knew about one target."""
        with reading(self._engine) as connection:
            return load_state(connection, _target_id(connection, target))

    def order(self, target: str, order: Order, *, at: float, who: str) -> StoredOrder:
        """Writes an order about the reference of a target, and the event that it was given."""
        with writing(self._engine) as connection:
            target_id = _target_id(connection, target)
            given = add_order(connection, target_id, target, order, at=at, who=who)
            detail = {"order": given.id, "kind": order.kind, "rate": order.rate, "who": given.who}
            text = f"{given.words} of {target}, by {given.who}"
            add_event(connection, at, "reference", text, target_id=target_id, detail=detail)
        return given

    def orders(self, target: str) -> list[StoredOrder]:
        """All orders about the reference of a target, in the order in which they were given."""
        with reading(self._engine) as connection:
            return load_orders(connection, _target_id(connection, target))

    def pending_orders(self) -> list[StoredOrder]:
        """The orders that no round has shown carried out yet, in order."""
        with reading(self._engine) as connection:
            return load_orders(connection, None)

    def statuses(self) -> list[ServiceStatus]:
        """The latest assessment of every live target, by service."""
        with reading(self._engine) as connection:
            return load_statuses(connection)

    def course(self, target: str, start: float, end: float) -> Course:
        """What was said of a target in a span of time, and what it was."""
        with reading(self._engine) as connection:
            return load_course(connection, _target_id(connection, target), start, end)

    def first_told(self, service: str) -> list[tuple[float, float | None]]:
        """When each incident of a service was first told of, and when it ended."""
        with reading(self._engine) as connection:
            return load_first_told(connection, service)

    def seconds_kept(self, at: float) -> int:
        """What is kept of a time: sums of so many seconds; 0 where the samples are there."""
        with reading(self._engine) as connection:
            return seconds_kept(read_dropped(connection), at)

    def export(self, what: What, selection: Selection) -> Iterator[Row]:
        """Rows as ``monitor export`` writes them, ascending in time and in flat memory.

        A target that is not known is a ``StoreError``.
        """
        with reading(self._engine) as connection:
            for name in selection.targets:
                _target_id(connection, name)
            yield from export_rows(connection, what, selection)

    def history(self, target: str, start: float, end: float, step: float) -> list[HistoryRow]:
        """The past of a target in steps, ascending in time.

        A step takes in the samples that end in it, its own end included; ``at`` is that end.
        Steps of which nothing is known are left out.
        """
        with reading(self._engine) as connection:
            return load_history(connection, _target_id(connection, target), start, end, step)


def _target_id(connection: Connection, name: str) -> int:
    query = select(targets.c.id).where(targets.c.name == name)
    key: int | None = connection.execute(query).scalar()
    if key is None:
        raise StoreError(_unknown(name, list(connection.scalars(select(targets.c.name)))))
    return key


def _unknown(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known) or sorted(known)[:3]
    hint = f"; near are {', '.join(near)}" if near else "; none is stored yet"
    return f"there is no target {name!r} in the database{hint}"
