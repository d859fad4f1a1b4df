"""A rollback told to real databases, by processes that die and processes that come too late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from rollback_stage import POLICY, Book, Fuse, Stage

from monitor.model import LeaseError
from monitor.rollback.model import Command, Kind, Order, Phase
from monitor.rollback.ports import Record
from monitor.rollback.settings import Mode
from monitor.store.holder import this_process
from monitor.store.lease import DAEMON
from monitor.store.repository import Repository

PROPOSE = replace(POLICY, mode=Mode.PROPOSE)


class Kept(Book):
    """The real journal, which also remembers what went through it."""

    def __init__(self, repository: Repository, fuse: Fuse) -> None:
        super().__init__(fuse)
        self._repository = repository
        self._store = repository.rollbacks

    def load(self, service: str) -> str | None:
        return self._store.load(service)

    def commands(self, service: str) -> Sequence[Command]:
        return self._store.commands(service)

    def save(self, record: Record, fence: int) -> None:
        self._store.save(record, fence)
        super().save(record, fence)

    def ask(self, command: Command) -> None:
        c = command
        self._store.order(c.service, c.order, at=c.at, who=c.who, plan=c.plan, force=c.force)

    def lead(self) -> int:
        leases = self._repository.leases
        leases.release(DAEMON, self.fence)
        self.fence = leases.take(DAEMON, this_process(), 1e6).fence
        return self.fence


def stage_of(repository: Repository, at: int | None = None) -> Stage:
    fuse = Fuse(at)
    stage = Stage(PROPOSE, fuse=fuse, book=Kept(repository, fuse))
    stage.world.baseline.up = False
    stage.world.baseline.load_seconds = 120.0
    return stage


def test_a_rollback_and_its_way_back_as_the_database_keeps_it(repository: Repository) -> None:
    stage = stage_of(repository)
    stage.hurt()
    stage.run(600.0, until=Phase.PROPOSED)
    plan = repository.rollbacks.plans("chat")[0].plan
    stage.order(Order.APPROVE, plan=plan)
    stage.run(3600.0, until=Phase.DONE)
    stage.mend()
    stage.run(60.0)
    stage.order(Order.REARM)
    stage.run(7200.0, until=Phase.ARMED)

    kept = repository.rollbacks.decisions(service="chat")
    assert [d.kind for d in kept] == [news.kind.value for news in stage.book.news]
    assert [d.sentence for d in kept] == [news.sentence for news in stage.book.news]
    assert kept[0].evidence["windows"]["chat-1"][0]["speedup"]["high"] == 0.73
    assert {d.plan for d in kept} == {plan}
    steps = repository.rollbacks.steps(plan)
    assert [(s.do, s.share, s.status) for s in steps][:5] == [
        ("start", None, "done"), ("shift", 0.1, "done"), ("shift", 0.25, "done"),
        ("shift", 0.5, "done"), ("shift", 1.0, "done"),
    ]  # fmt: skip
    assert (steps[-1].do, steps[-1].status) == ("restore", "done")
    assert repository.rollbacks.waiting() == []


@pytest.mark.parametrize("at", [3, 8, 13, 18, 23])
def test_a_process_that_dies_is_followed_by_one_that_goes_on(
    repository: Repository, at: int
) -> None:
    stage = stage_of(repository, at)
    stage.hurt()
    stage.order(Order.RUN)
    stage.run(3600.0, until=Phase.DONE)
    assert stage.restarts == 1
    assert set(stage.world.applied.values()) == {1}
    assert {
        step.status for step in repository.rollbacks.steps(stage.book.news[-1].plan or "")
    } == {"done"}


def test_a_process_that_was_frozen_in_mid_shift_can_change_nothing(repository: Repository) -> None:
    stage = stage_of(repository)
    stage.world.baseline.up = True
    stage.order(Order.RUN)
    stage.run(600.0, until=Phase.HOLDING)
    frozen = stage.executor
    stage.begin()
    stage.order(Order.ABORT)
    stage.run(600.0, until=Phase.ABORTED)
    before = repository.rollbacks.load("chat")
    acts = list(stage.world.fences)
    # It wakes up and believes for a while that nothing has happened.
    for _ in range(60):
        stage.clock.advance(10.0)
        frozen.turn()
    assert repository.rollbacks.load("chat") == before
    assert stage.world.fences == acts
    with pytest.raises(LeaseError):
        stage.book.save(Record("chat", before or "", "armed", None), 1)
    assert stage.last() is Kind.ABORTED
