"""Orders about references: given by a command, carried out by whoever holds the memory."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select, update

from monitor.health.orders import Order, OrderKind
from monitor.store.rows import StoredOrder
from monitor.store.tables import reference_orders, targets
from monitor.store.text import clean_text


def add_order(
    connection: Connection, target_id: int, target: str, order: Order, *, at: float, who: str
) -> StoredOrder:
    """Writes one order."""
    who = clean_text(who)
    statement = insert(reference_orders).returning(reference_orders.c.id)
    values = {"at": at, "who": who, "kind": order.kind.value, "rate": order.rate}
    key = connection.execute(statement, {"target_id": target_id, **values}).scalar_one()
    return StoredOrder(key, target, at, who, order, None)


def load_orders(connection: Connection, target_id: int | None) -> list[StoredOrder]:
    """All orders about one target; without one, those about any that still wait."""
    column = reference_orders.c
    query = (
        select(column.id, targets.c.name, column.at, column.who, column.kind, column.rate)
        .add_columns(column.applied_at)
        .join_from(reference_orders, targets)
        .order_by(column.id)
    )
    own = column.applied_at.is_(None) if target_id is None else column.target_id == target_id
    return [
        StoredOrder(key, target, at, who, Order(OrderKind(kind), rate), applied)
        for key, target, at, who, kind, rate, applied in connection.execute(query.where(own))
    ]


def mark_applied(connection: Connection, keys: Sequence[int], at: float) -> None:
    """Notes that orders were carried out; done in the transaction that writes their effect."""
    column = reference_orders.c
    connection.execute(
        update(reference_orders)
        .where(column.id.in_(keys), column.applied_at.is_(None))
        .values(applied_at=at)
    )
