"""Orders about references: written with their event, marked with the round that obeyed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine, select
from store_rows import NOON, row, target

from monitor.health.orders import Order, OrderKind
from monitor.model import StoreError
from monitor.store.connect import reading
from monitor.store.repository import Repository
from monitor.store.tables import events, reference_orders

PIN = Order(OrderKind.PIN, 0.7)
UNPIN = Order(OrderKind.UNPIN)


def rows(engine: Engine, table: Any) -> list[Any]:
    with reading(engine) as connection:
        return list(connection.execute(select(table).order_by(table.c.id)))


def test_an_order_waits_until_a_round_shows_it_done(repository: Repository) -> None:
    repository.register([target("a"), target("b")], NOON)
    first = repository.order("a", PIN, at=NOON, who="ann@desk")
    second = repository.order("a", UNPIN, at=NOON + 1, who="ann@desk")
    other = repository.order("b", PIN, at=NOON + 2, who="bob@desk")
    assert repository.pending_orders() == [first, second, other]
    repository.write_round([row(NOON + 5, obeyed=(first.id,))])
    assert repository.pending_orders() == [second, other]
    assert [given.applied_at for given in repository.orders("a")] == [NOON + 5, None]
    # A row that was written before is not proof of anything new.
    repository.write_round([row(NOON + 9, obeyed=(first.id,))])
    assert [given.applied_at for given in repository.orders("a")] == [NOON + 5, None]


def test_an_order_is_an_event_with_its_author(repository: Repository, engine: Engine) -> None:
    repository.register([target("a")], NOON)
    given = repository.order("a", PIN, at=NOON, who="ann\0@desk")
    (event,) = rows(engine, events)
    assert (event.kind, event.at) == ("reference", NOON)
    assert event.text == "pin the reference at 70 % of a, by ann\N{REPLACEMENT CHARACTER}@desk"
    assert json.loads(event.detail)["order"] == given.id


def test_the_mark_and_the_state_are_one_transaction(
    repository: Repository, engine: Engine
) -> None:
    repository.register([target("a")], NOON)
    given = repository.order("a", PIN, at=NOON, who="ann@desk")
    with pytest.raises(StoreError):
        repository.write_round([row(NOON, obeyed=(given.id,)), row(NOON, name="stranger")])
    assert repository.pending_orders() == [given]
    assert repository.state("a") is None


def test_an_order_for_an_unknown_target_is_refused(repository: Repository, engine: Engine) -> None:
    repository.register([target("gpu1")], NOON)
    with pytest.raises(StoreError, match="near are gpu1"):
        repository.order("gpu2", PIN, at=NOON, who="ann@desk")
    assert rows(engine, reference_orders) == rows(engine, events) == []
