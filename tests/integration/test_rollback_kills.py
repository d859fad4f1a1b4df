"""Daemons that are killed or frozen in the middle of a rollback, as processes of their own."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import hook_server
import pytest
import requests
from daemon_stage import Running, eventually, running
from hook_server import Handler, Hook
from rollback_process import Process, process
from rollback_world import World, clock, world
from scrape_peers import PATIENCE

from monitor.model import StoreError
from monitor.rollback.model import Phase
from monitor.store import schema
from monitor.store.connect import open_store
from monitor.store.repository import Repository

LEASE = 4.0
"""Long enough for an act, and short enough to be waited for."""

Outcome = tuple[str, float, list[tuple[str, float | None, str]], list[str]]


class Trap:
    """Sees each request to the hook, before and after it is carried out."""

    def __init__(self) -> None:
        self.springs: Callable[[str, str], bool] = lambda _where, _what: False
        """Whether nothing more is done with a request, not even answered."""


@contextmanager
def trapped() -> Iterator[tuple[World, Trap]]:
    """A world whose hook has a trap."""
    trap = Trap()

    class Trapped(Handler):
        def do_GET(self) -> None:  # noqa: N802 - the name of the base class
            if not trap.springs("observe", str(len(self.server.applied))):
                super().do_GET()

        def do_POST(self) -> None:  # noqa: N802 - the name of the base class
            if not trap.springs("order", str(len(self.server.applied))):
                super().do_POST()

        def _reply(self, status: int, document: object) -> None:
            applied = self.command == "POST" and status == 200
            if not (applied and trap.springs("applied", self.server.applied[-1])):
                super()._reply(status, document)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hook_server, "_Handler", Trapped)
        with world() as made:
            yield made, trap


def outcome(database: str, hook: Hook) -> Outcome:
    """Where it all ended, without names and times."""
    engine = open_store(database)
    try:
        rollbacks = Repository(engine).rollbacks
        stored = rollbacks.states()["chat"]
        plan = rollbacks.plans()[0].plan
        steps = [(step.do, step.share, step.status) for step in rollbacks.steps(plan)]
        kinds = [d.kind for d in rollbacks.decisions(plan=plan) if d.kind != "step"]
    finally:
        engine.dispose()
    return stored.phase, float(hook.share), steps, kinds


def is_done(database: str) -> bool:
    try:
        engine = open_store(database, must_exist=True)
    except StoreError:
        return False
    try:
        stored = Repository(engine).rollbacks.states().get("chat")
        return stored is not None and stored.phase == Phase.DONE
    except StoreError:
        return False
    finally:
        engine.dispose()


def test_killed_at_every_step_it_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    began = time.time()
    quiet = f"sqlite:///{tmp_path / 'quiet.db'}"
    with world() as made, running(made.settings(quiet), clock=clock(began)):
        eventually(lambda: is_done(quiet))
        wanted = outcome(quiet, made.hook)

    database = f"sqlite:///{tmp_path / 'monitor.db'}"
    killed: list[tuple[str, str]] = []
    with trapped() as (made, trap):
        alive: list[Process] = []

        def springs(where: str, what: str) -> bool:
            if (where, what) in killed or not alive:
                return False
            killed.append((where, what))
            alive.pop().kill()
            return True

        trap.springs = springs
        while not is_done(database):
            with process(database, made, began, LEASE) as daemon:
                alive.append(daemon)
                eventually(lambda: not alive or is_done(database))
                alive.clear()
        found = outcome(database, made.hook)
        applied = made.hook.applied
    assert found == wanted
    assert len(applied) == len(set(applied)) == 2
    first, second = applied
    assert sorted(killed) == sorted(
        [
            *(("observe", str(number)) for number in range(3)),
            *(("order", str(number)) for number in range(2)),
            ("applied", first),
            ("applied", second),
        ]
    )


@contextmanager
def standby(database: str, made: World, began: float) -> Iterator[Running]:
    given = replace(made.settings(database), lease_seconds=LEASE)
    stage = Running(given, clock=clock(began))
    stage.begin()
    try:
        yield stage
    finally:
        stage.stop()


@pytest.mark.parametrize("where", ["observe", "order"])
def test_a_leader_that_is_frozen_in_mid_shift_wakes_up_and_does_not_act(
    postgresql_url: str, where: str
) -> None:
    schema.upgrade(postgresql_url)
    began = time.time()
    frozen, thawed = threading.Event(), threading.Event()
    with trapped() as (made, trap), process(postgresql_url, made, began, LEASE) as leader:

        def springs(at: str, what: str) -> bool:
            # The first time that the leader is about to set the second share.
            if at == where and what == "1" and not frozen.is_set():
                leader.popen.send_signal(signal.SIGSTOP)
                frozen.set()
                # What it has sent arrives late, as by a slow network.
                thawed.wait(PATIENCE)
            return False

        trap.springs = springs
        assert frozen.wait(PATIENCE)
        with standby(postgresql_url, made, began) as second:
            eventually(lambda: is_done(postgresql_url))
            orders = len(made.hook.orders)
            thawed.set()
            leader.popen.send_signal(signal.SIGCONT)
            # It finds out, and stands by; the other one goes on leading.
            rounds = second.rounds("spec")
            eventually(lambda: second.rounds("spec") >= rounds + 5)
            assert second.daemon.health().fence == 2
        phase, share, steps, _ = outcome(postgresql_url, made.hook)
        assert (phase, share) == (Phase.DONE, 1.0)
        assert [status for _, _, status in steps] == ["done", "done"]
        applied, fences = made.hook.applied, [order["fence"] for order in made.hook.orders]
    assert len(applied) == len(set(applied)) == 2
    assert len(fences) == orders
    assert fences == sorted(fences)
    assert set(fences) == {1, 2}


def test_the_trap_is_told_of_each_request() -> None:
    seen: list[tuple[str, str]] = []

    def springs(where: str, what: str) -> bool:
        seen.append((where, what))
        return False

    with trapped() as (made, trap):
        trap.springs = springs
        act: dict[str, Any] = {"id": "a-1", "fence": 1, "action": "shift", "share": 0.5}
        assert requests.post(made.hook.url, json=act, timeout=10).status_code == 200
        assert requests.get(made.hook.url, timeout=10).json() == {"share": 0.5}
    assert seen == [("order", "0"), ("applied", "a-1"), ("observe", "1")]
