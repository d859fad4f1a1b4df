"""Stories of a target whose curve is exchanged while it is watched."""

from __future__ import annotations

from traffic import INTERVAL, Server

from monitor.health.baseline import Baseline, BaselinePoint
from monitor.health.judging import JudgeSettings
from monitor.health.target import TargetState
from monitor.model import Assessment, Verdict


def curve(name: str, tpot: float) -> Baseline:
    return Baseline(name, tuple(BaselinePoint(n, tpot) for n in (1.0, 64.0)))


SLOW = curve("slow", 0.020)
QUICK = curve("quick", 0.005)


class Watcher:
    """A target state and what it says."""

    def __init__(self) -> None:
        self.server = Server()
        self.state = TargetState("t", INTERVAL, JudgeSettings())

    def watch(self, minutes: float) -> Assessment:
        for _ in range(int(minutes * 60.0 / INTERVAL)):
            self.state.observe(self.server.look())
            answer = self.state.assess(self.server.now)
            self.state.memory.verdict = (answer.verdict, answer.cause, answer.action)
        return answer

    def speedup(self, seconds: float) -> float:
        found = self.state.assess_window(seconds, self.server.now).speedup
        assert found is not None
        return found.value


def test_a_curve_that_comes_later_is_compared_with_from_then_on() -> None:
    watcher = Watcher()
    assert watcher.watch(10).verdict is Verdict.UNPROVEN
    watcher.state.use_baseline(SLOW)
    answer = watcher.watch(10)
    assert answer.verdict is Verdict.HEALTHY
    assert answer.baseline is not None
    assert answer.baseline.name == "slow"


def test_a_speedup_is_never_over_two_curves() -> None:
    watcher = Watcher()
    watcher.state.use_baseline(SLOW)
    watcher.watch(30)
    over_slow = watcher.speedup(3600.0)
    watcher.state.use_baseline(QUICK)
    assert watcher.state.assess_window(3600.0, watcher.server.now).speedup is None
    answer = watcher.watch(5)
    assert answer.verdict is Verdict.HARMFUL
    # A quarter of the time per token makes a quarter of the speedup, in every window.
    for seconds in (60.0, 300.0, 3600.0, 86_400.0):
        assert abs(watcher.speedup(seconds) / over_slow - 0.25) < 0.02


def test_the_same_curve_known_better_goes_on() -> None:
    watcher = Watcher()
    watcher.state.use_baseline(SLOW)
    watcher.watch(30)
    before = watcher.speedup(3600.0)
    watcher.state.use_baseline(curve("slow", 0.021))
    assert watcher.speedup(3600.0) == before


def test_a_curve_that_is_taken_away_leaves_no_speedup_and_a_note_why() -> None:
    watcher = Watcher()
    watcher.state.use_baseline(SLOW)
    watcher.watch(10)
    watcher.state.use_baseline(None, "no baseline: it went")
    answer = watcher.watch(1)
    assert (answer.speedup, answer.baseline) == (None, None)
    assert "no baseline: it went" in answer.notes
    watcher.state.use_baseline(SLOW)
    assert watcher.watch(1).notes == ()
    assert watcher.speedup(3600.0) > 1.0


def test_a_curve_exchanged_during_warm_up_is_not_mixed_either() -> None:
    watcher = Watcher()
    watcher.state.use_baseline(SLOW)
    watcher.watch(5)
    watcher.server.restart()
    watcher.watch(0.5)
    watcher.state.use_baseline(QUICK)
    answer = watcher.watch(0.25)
    window = answer.window
    assert window is not None
    assert window.warming_up
    counts = window.counts
    assert 0.0 < counts.compared_seconds < counts.decode_seconds
    assert counts.baseline_seconds < counts.compared_seconds
