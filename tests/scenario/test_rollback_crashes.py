"""Killed at any point, a rollback ends as if nothing had happened, and does each act once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rollback_stage import POLICY, Fuse, Stage

from monitor.model import Cause
from monitor.rollback.model import Kind, Order, Phase
from monitor.rollback.settings import Shift, Trial, Verify

QUICK = replace(
    POLICY,
    shift=Shift(steps=(0.5, 1.0), hold=20.0),
    verify=Verify(seconds=30.0),
    trial=Trial(hold=120.0, good_windows=2),
)
PARTS = 4
End = tuple[Phase, float, list[Kind], dict[str, str], list[str]]


def there(fuse: Fuse) -> Stage:
    """From the collapse to the parked side, with a baseline that must be started."""
    stage = Stage(QUICK, fuse=fuse)
    stage.world.baseline.up = False
    stage.world.baseline.load_seconds = 40.0
    stage.hurt()
    stage.run(1200.0, until=Phase.DONE)
    return stage


def and_back(fuse: Fuse) -> Stage:
    """From the parked side through a trial to where all began."""
    stage = there(Fuse())
    stage.fuse.points, stage.fuse.at = 0, fuse.at
    stage.mend()
    stage.run(30.0)
    stage.order(Order.REARM)
    stage.run(1200.0, until=Phase.ARMED)
    fuse.points = stage.fuse.points
    return stage


def undone(fuse: Fuse) -> Stage:
    """A baseline that fails under the traffic."""
    stage = Stage(QUICK, fuse=fuse)
    stage.world.baseline.error_share = 0.5
    stage.hurt()
    stage.run(1200.0, until=Phase.FAILED)
    return stage


def aborted(fuse: Fuse) -> Stage:
    """An operator's order in mid-shift."""
    stage = Stage(QUICK, fuse=fuse)
    stage.hurt()
    stage.run(1200.0, until=Phase.HOLDING)
    stage.order(Order.ABORT)
    stage.run(300.0, until=Phase.ABORTED)
    return stage


def restarted(fuse: Fuse) -> Stage:
    """A speculative side that decays with its uptime."""
    stage = Stage(QUICK, fuse=fuse)
    stage.cause = Cause.UPTIME_DECAY
    stage.world.speculative.load_seconds = 40.0
    stage.hurt()
    stage.run(1200.0, until=Phase.RESTARTING)
    stage.run(1200.0, until=Phase.ARMED)
    return stage


def end_of(stage: Stage) -> End:
    """What must not depend on where the process died. Times differ, and so do names of plans."""
    return (
        stage.where(),
        stage.world.share,
        stage.told,
        {key.rpartition("-")[2]: row.status for key, row in stage.book.steps.items()},
        sorted(key.rpartition("-")[2] for key in stage.world.applied.elements()),
    )


@pytest.mark.parametrize("story", [there, and_back, undone, aborted, restarted])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_crash_at_any_point_changes_nothing(story: object, part: int) -> None:
    assert callable(story)
    fuse = Fuse()
    whole: Stage = story(fuse)
    assert set(whole.world.applied.values()) == {1}
    for at in range(1 + part, fuse.points + 1, PARTS):
        stage: Stage = story(Fuse(at))
        assert stage.restarts == 1, at
        assert end_of(stage) == end_of(whole), at
        assert stage.world.fences == sorted(stage.world.fences)
        assert stage.world.needless == 0, (at, "where traffic goes is looked at first")


def test_a_process_that_wakes_up_late_does_nothing() -> None:
    stage = there(Fuse())
    late = stage.executor
    stage.order(Order.ABORT)
    stage.begin()
    stage.run(300.0, until=Phase.ABORTED)
    fences, states = list(stage.world.fences), dict(stage.book.states)
    stage.order(Order.REARM)
    for _ in range(10):
        late.turn()
    assert (stage.world.fences, stage.book.states) == (fences, states)


def test_without_lease_or_database_nothing_is_done() -> None:
    for fault in ("lease", "database", "short"):
        stage = Stage(QUICK)
        stage.hurt()
        stage.lease.number = None if fault == "lease" else stage.lease.number
        stage.lease.left = 2.5 if fault == "short" else stage.lease.left
        stage.book.is_down = fault == "database"
        stage.run(1200.0)
        assert not stage.world.fences, fault
        stage.lease.number, stage.lease.left, stage.book.is_down = 1, 30.0, False
        stage.run(1200.0, until=Phase.DONE)
        assert set(stage.world.applied.values()) == {1}


def test_what_cannot_be_stored_is_not_done() -> None:
    stage = Stage(QUICK)
    stage.hurt()
    stage.book.is_full = True
    stage.run(1200.0)
    assert (stage.where(), stage.world.fences) == (Phase.ARMED, [])
    stage.book.is_full = False
    stage.run(1200.0, until=Phase.HOLDING)
    stage.book.is_full = True
    stage.run(600.0)
    assert len(stage.world.fences) == 1
    stage.book.is_full = False
    stage.run(1200.0, until=Phase.DONE)
    assert set(stage.world.applied.values()) == {1}
