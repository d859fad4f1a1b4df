"""Leases: who alone may write, send and act, until when, and under which number.

A lease is a row with the time until which it holds. Each new holder gets a higher number, the
fence. Whoever was stopped for longer than its lease, and wakes up believing that it still has
it, is found out by that number: each transaction that matters asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Connection,
    Double,
    Engine,
    Row,
    cast,
    extract,
    func,
    literal_column,
    select,
    update,
)

from monitor.model import LeaseError, StoreError
from monitor.store.connect import insert_into, reading, writing
from monitor.store.holder import Holder, is_gone
from monitor.store.tables import leases

DAEMON = "daemon"
"""The lease of the one daemon that watches, sends and acts."""

Guard = Callable[[Connection], None]
"""Raises ``LeaseError`` in a transaction that is no longer ours to make."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds a lease."""

    name: str
    holder: Holder
    fence: int
    """Grows with each new holder."""
    left: float
    """Seconds until it runs out, by the clock of the database; negative where it has."""


def unguarded(_connection: Connection) -> None:
    """The guard of those who need none: commands that a person runs."""


def guard(name: str, fence: int) -> Guard:
    """Lets only the holder with this number write.

    That its time has run out is no reason against it: as long as nobody else has taken the
    lease, nobody else has done anything either. The row stays locked until the transaction
    ends, so that nobody takes it meanwhile.
    """

    def check(connection: Connection) -> None:
        query = select(leases.c.fence, leases.c.holder).where(leases.c.name == name)
        row = connection.execute(query.with_for_update(read=True)).first()
        if row is None or row.fence != fence:
            now = "nobody" if row is None else str(Holder.from_json(row.holder))
            raise LeaseError(f"the lease of the {name} belongs to {now} now")

    return check


class Leases:
    """Gives and takes leases. All is safe from any thread and any number of processes.

    All times are those of the database: the clocks of machines differ. Where a clock was set
    back, a lease that lies further ahead than any is ever given counts as run out.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def take(self, name: str, holder: Holder, seconds: float) -> Lease:
        """Takes a lease that is free; else that of whoever has it.

        It is free when its time has run out, or when the process that held it has certainly
        ended.
        """
        fresh = {"name": name, "holder": holder.to_json(), "fence": 0, "seconds": 0, "until": 0}
        with writing(self._engine) as connection:
            statement = insert_into(self._engine, leases).on_conflict_do_nothing()
            connection.execute(statement, fresh)
            found = self._read(connection, name, lock=True)
            if found is None:
                raise StoreError(f"the lease of the {name} cannot be stored")
            now, row = found
            free = row.until <= now or row.until > now + 2 * row.seconds
            if not free and not is_gone(Holder.from_json(row.holder)):
                return _lease(now, row)
            values = {"holder": holder.to_json(), "fence": row.fence + 1, "seconds": seconds}
            connection.execute(
                update(leases)
                .where(leases.c.name == name)
                .values(**values, until=now + seconds, taken_at=now)
            )
            return Lease(name, holder, row.fence + 1, seconds)

    def renew(self, name: str, fence: int, seconds: float) -> bool:
        """Prolongs a lease from now on; False when somebody else has taken it."""
        statement = update(leases).where(leases.c.name == name, leases.c.fence == fence)
        values: dict[str, Any] = {"until": _now(self._engine) + seconds, "seconds": seconds}
        with writing(self._engine) as connection:
            return connection.execute(statement.values(values)).rowcount == 1

    def release(self, name: str, fence: int) -> bool:
        """Gives a lease back, so that nobody need wait for it to run out."""
        statement = update(leases).where(leases.c.name == name, leases.c.fence == fence)
        with writing(self._engine) as connection:
            return connection.execute(statement.values(until=0.0)).rowcount == 1

    def read(self, name: str) -> Lease | None:
        """Who held a lease last, whether it has run out or not."""
        with reading(self._engine) as connection:
            found = self._read(connection, name)
        return None if found is None else _lease(*found)

    def _read(
        self, connection: Connection, name: str, *, lock: bool = False
    ) -> tuple[float, Row[Any]] | None:
        """The time of the database, and a row."""
        query = select(leases).where(leases.c.name == name)
        row = connection.execute(query.with_for_update() if lock else query).first()
        if row is None:
            return None
        # Asked after the row is locked: whoever waits for a lock must not go by an old time.
        return connection.execute(select(_now(self._engine))).scalar_one(), row


def _lease(now: float, row: Row[Any]) -> Lease:
    return Lease(row.name, Holder.from_json(row.holder), row.fence, row.until - now)


def _now(engine: Engine) -> Any:
    """Seconds since the Unix epoch by the clock of the database."""
    if engine.dialect.name == "postgresql":
        return cast(extract("epoch", func.clock_timestamp()), Double)
    return literal_column("(julianday('now') - 2440587.5) * 86400.0", Double)
