"""Leases on real databases: one holder, rising numbers, and writes of yesterday's holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
from daemon_stage import eventually
from sqlalchemy import Engine, update
from store_rows import NOON, row, target

from monitor.model import LeaseError, StoreError
from monitor.store import connect, schema
from monitor.store.connect import open_store, writing
from monitor.store.holder import Holder, is_gone, this_process
from monitor.store.lease import DAEMON, Leases, guard
from monitor.store.repository import Repository
from monitor.store.tables import leases as table

LONG = 600.0
HOLDER = """
import signal, sys
from monitor.store.connect import open_store
from monitor.store.holder import this_process
from monitor.store.lease import DAEMON, Leases

taken = Leases(open_store(sys.argv[1])).take(DAEMON, this_process(), float(sys.argv[2]))
print(taken.fence, flush=True)
while True:
    signal.pause()
"""


def somebody(name: str = "elsewhere") -> Holder:
    """A process of which nobody here can say whether it lives."""
    return replace(this_process(), host=name, place="another machine")


@pytest.fixture
def leases(engine: Engine) -> Leases:
    return Leases(engine)


def shift_time(engine: Engine, seconds: float) -> None:
    """Lets a lease be as it looks when so much time has passed."""
    with writing(engine) as connection:
        connection.execute(update(table).values(until=table.c.until - seconds))


def test_one_holder_at_a_time(leases: Leases) -> None:
    first = leases.take(DAEMON, somebody("a"), LONG)
    assert (first.fence, first.holder.host, first.left) == (1, "a", LONG)
    second = leases.take(DAEMON, somebody("b"), LONG)
    assert (second.fence, second.holder) == (1, first.holder)
    assert LONG - 60.0 < second.left <= LONG


def test_a_lease_that_ran_out_goes_to_the_next_under_a_higher_number(
    leases: Leases, engine: Engine
) -> None:
    leases.take(DAEMON, somebody("a"), LONG)
    shift_time(engine, LONG + 1)
    taken = leases.take(DAEMON, somebody("b"), LONG)
    assert (taken.fence, taken.holder.host) == (2, "b")
    assert not leases.renew(DAEMON, 1, LONG)
    assert not leases.release(DAEMON, 1)
    assert leases.renew(DAEMON, 2, LONG)


def test_a_renewed_lease_stays(leases: Leases, engine: Engine) -> None:
    leases.take(DAEMON, somebody("a"), LONG)
    shift_time(engine, LONG + 1)
    # Late, but nobody was faster.
    assert leases.renew(DAEMON, 1, LONG)
    assert leases.take(DAEMON, somebody("b"), LONG).fence == 1


def test_a_lease_that_was_given_back_is_free_at_once(leases: Leases) -> None:
    leases.take(DAEMON, somebody("a"), LONG)
    assert leases.release(DAEMON, 1)
    assert leases.take(DAEMON, somebody("b"), LONG).fence == 2
    found = leases.read(DAEMON)
    assert found is not None
    assert found.holder.host == "b"
    assert leases.read("another") is None


def test_a_clock_that_was_set_back_does_not_keep_a_lease_for_ever(
    leases: Leases, engine: Engine
) -> None:
    leases.take(DAEMON, somebody("a"), LONG)
    shift_time(engine, -3600.0)
    assert leases.take(DAEMON, somebody("b"), LONG).fence == 2


def test_only_one_of_many_gets_it(leases: Leases) -> None:
    holders = [somebody(f"h{number}") for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda holder: leases.take(DAEMON, holder, LONG), holders))
    assert {lease.fence for lease in taken} == {1}
    assert len({lease.holder for lease in taken}) == 1


def test_the_guard_refuses_what_a_former_holder_writes(
    leases: Leases, engine: Engine, repository: Repository
) -> None:
    leases.take(DAEMON, somebody("a"), LONG)
    old = Repository(engine, guard(DAEMON, 1))
    old.register([target("a")], NOON)
    old.write_round([row(NOON)])
    shift_time(engine, LONG + 1)
    old.write_round([row(NOON + 1)])  # Nobody else has done anything meanwhile.
    leases.take(DAEMON, somebody("b"), LONG)
    with pytest.raises(LeaseError, match=r"belongs to process \d+ on b now"):
        old.write_round([row(NOON + 2)])
    with pytest.raises(LeaseError):
        old.register([], NOON)
    state = repository.state("a")
    assert state is not None
    assert state.at == NOON + 1


@contextmanager
def holding(url: str, seconds: float) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that has taken the lease and does nothing with it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, url, str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def takes(leases: Leases, fence: int) -> Callable[[], bool]:
    return lambda: leases.take(DAEMON, this_process(), LONG).fence == fence


def test_the_lease_of_a_killed_process_of_this_machine_is_free_at_once(
    leases: Leases, database_url: str
) -> None:
    with holding(database_url, LONG) as (process, fence):
        assert fence == 1
        assert leases.take(DAEMON, this_process(), LONG).fence == 1
        process.kill()
        # Also while its parent has not noticed yet.
        eventually(takes(leases, 2))


def test_a_stopped_process_loses_its_lease_when_the_time_is_over(
    leases: Leases, database_url: str
) -> None:
    with holding(database_url, 1.0) as (process, _fence):
        process.send_signal(signal.SIGSTOP)
        eventually(takes(leases, 2))
        process.send_signal(signal.SIGCONT)
        assert not leases.renew(DAEMON, 1, LONG)


@pytest.fixture
def postgresql(postgresql_url: str) -> Iterator[Engine]:
    schema.upgrade(postgresql_url)
    engine = open_store(postgresql_url)
    yield engine
    engine.dispose()


def test_a_process_that_is_frozen_while_it_writes_does_not_keep_its_lease(
    postgresql: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "FROZEN_SECONDS", 0.5)
    leases = Leases(postgresql)
    fence = leases.take(DAEMON, somebody("a"), LONG).fence
    shift_time(postgresql, 2 * LONG)

    def write_slowly() -> None:
        with writing(postgresql) as frozen:
            guard(DAEMON, fence)(frozen)
            eventually(takes(leases, fence + 1))

    with pytest.raises(StoreError, match="idle"):
        write_slowly()


def test_nobody_waits_for_a_lock_for_ever(
    postgresql: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "BUSY_SECONDS", 0.2)
    leases = Leases(postgresql)
    fence = leases.take(DAEMON, somebody("a"), LONG).fence
    with writing(postgresql) as other:
        guard(DAEMON, fence)(other)
        with pytest.raises(StoreError, match="lock timeout"):
            leases.renew(DAEMON, fence, LONG)
    assert leases.renew(DAEMON, fence, LONG)


def test_of_another_machine_nothing_is_concluded() -> None:
    me = this_process()
    assert not is_gone(me)
    assert is_gone(replace(me, start="1"))
    assert is_gone(replace(me, pid=2**22 + 1))
    for place in ("", "another machine"):
        assert not is_gone(replace(me, pid=2**22 + 1, place=place))
    assert Holder.from_json(me.to_json()) == me
