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

from monitor.rollback.model import Phase
from monitor.store import schema
from monitor.store.connect import open_store
from monitor.store.repository import Repository
from monitor.store.rollbacks import Rollbacks

LEASE = 4.0
"""Long enough for an act, and short enough to be waited for."""

LONG = 4 * PATIENCE
"""Processes of their own take their time to start on a busy machine."""

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


class Records:
    """What a database says of the rollback; one connection serves all looks."""

    def __init__(self, rollbacks: Rollbacks) -> None:
        self._rollbacks = rollbacks

    def is_done(self) -> bool:
        stored = self._rollbacks.states().get("chat")
        return stored is not None and stored.phase == Phase.DONE

    def outcome(self, hook: Hook) -> Outcome:
        """Where it all ended, without names and times."""
        stored = self._rollbacks.states()["chat"]
        plan = self._rollbacks.plans()[0].plan
        steps = [(step.do, step.share, step.status) for step in self._rollbacks.steps(plan)]
        decisions = self._rollbacks.decisions(plan=plan)
        kinds = [decision.kind for decision in decisions if decision.kind != "step"]
        return stored.phase, float(hook.share), steps, kinds


@contextmanager
def records(database: str) -> Iterator[Records]:
    """The records of a database, which is given its schema."""
    schema.upgrade(database)
    engine = open_store(database)
    try:
        yield Records(Repository(engine).rollbacks)
    finally:
        engine.dispose()


def test_killed_at_every_step_it_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    began = time.time()
    quiet = f"sqlite:///{tmp_path / 'quiet.db'}"
    with (
        records(quiet) as seen,
        world() as made,
        running(made.settings(quiet), clock=clock(began)),
    ):
        eventually(seen.is_done, LONG)
        wanted = seen.outcome(made.hook)

    database = f"sqlite:///{tmp_path / 'monitor.db'}"
    killed: list[tuple[str, str]] = []
    with records(database) as seen, trapped() as (made, trap):
        alive: list[Process] = []

        def springs(where: str, what: str) -> bool:
            if (where, what) in killed or not alive:
                return False
            killed.append((where, what))
            alive.pop().kill()
            return True

        trap.springs = springs
        while not seen.is_done():
            with process(database, made, began, LEASE) as daemon:
                alive.append(daemon)
                eventually(lambda: not alive or seen.is_done(), LONG)
                alive.clear()
        found = seen.outcome(made.hook)
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
    began = time.time()
    frozen, thawed = threading.Event(), threading.Event()
    with (
        records(postgresql_url) as seen,
        trapped() as (made, trap),
        process(postgresql_url, made, began, LEASE) as leader,
    ):

        def springs(at: str, what: str) -> bool:
            # The first time that the leader is about to set the second share.
            if at == where and what == "1" and not frozen.is_set():
                leader.popen.send_signal(signal.SIGSTOP)
                frozen.set()
                # What it has sent arrives late, as by a slow network.
                thawed.wait(LONG)
            return False

        trap.springs = springs
        assert frozen.wait(LONG)
        with standby(postgresql_url, made, began) as second:
            eventually(seen.is_done, LONG)
            orders = len(made.hook.orders)
            thawed.set()
            leader.popen.send_signal(signal.SIGCONT)
            # It finds out, and stands by; the other one goes on leading.
            rounds = second.rounds("spec")
            eventually(lambda: second.rounds("spec") >= rounds + 5)
            assert second.daemon.health().fence == 2
        phase, share, steps, _ = seen.outcome(made.hook)
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
