"""Watching a live server: which loads are covered, what is refused, how it ends."""

from __future__ import annotations

import pytest
from baseline_pages import NOON, Server

from monitor.baselines.recorder import Plan, Progress, RefusedError, parse_bins, record
from monitor.clock import FakeClock
from monitor.model import Engine, PageError, ScrapeError
from monitor.pipeline import Page
from monitor.settings import Role, TargetSettings

SETTINGS = TargetSettings("plain", "chat", "http://plain", Role.BASELINE, interval=5.0)


class Watched:
    """A server that goes through loads while the clock runs; fails at the looks named."""

    def __init__(
        self,
        clock: FakeClock,
        *loads: tuple[float, float],
        failures: tuple[int, ...] = (),
        interrupt_at: int | None = None,
        draft_length: float | None = None,
        drafts_after: int = 0,
    ) -> None:
        self.server = Server(draft_length=draft_length if not drafts_after else None)
        self._clock, self._loads, self._last = clock, loads, clock.utc()
        self._failures, self._interrupt_at = failures, interrupt_at
        self._draft_length, self._drafts_after = draft_length, drafts_after
        self.looks = 0

    def fetch(self) -> Page:
        self.looks += 1
        if self.looks == self._interrupt_at:
            raise KeyboardInterrupt
        if self.looks in self._failures:
            raise ScrapeError("connection refused by plain")
        if self._drafts_after and self.looks > self._drafts_after:
            self.server.draft_length = self._draft_length
        index = min(int((self._clock.utc() - NOON) // 60), len(self._loads) - 1)
        self.server.running, self.server.tpot = self._loads[index]
        self.server.advance(self._clock.utc() - self._last)
        self._last = self._clock.utc()
        return Page(self.server.page())

    def close(self) -> None:
        pass


def plan(minutes: float = 5, *bins: float, force: bool = False) -> Plan:
    return Plan(minutes * 60, 5.0, bins, force)


def test_it_ends_when_the_loads_that_were_asked_for_are_covered() -> None:
    clock = FakeClock(NOON)
    seen: list[Progress] = []
    watched = Watched(clock, (1.0, 0.010), (4.0, 0.012), (16.0, 0.020))
    found = record(SETTINGS, plan(60, 1, 4), clock=clock, fetcher=watched, shown=seen.append)
    assert [point.running for point in found.points] == pytest.approx([1, 4], rel=0.05)
    assert [point.tpot for point in found.points] == pytest.approx([0.010, 0.012], rel=0.03)
    assert found.points[0].context == pytest.approx(50)
    assert found.identity.engine is Engine.VLLM
    assert found.identity.model == "demo"
    assert (found.reason, found.missing, found.interrupted) == (None, (), False)
    assert clock.utc() < NOON + 130
    assert seen[-1].covered == (1, 4)
    assert seen[0].shares == {1: 0.0, 4: 0.0}


def test_it_ends_when_the_time_is_over_and_says_what_is_missing() -> None:
    clock = FakeClock(NOON)
    found = record(SETTINGS, plan(2, 1, 64), clock=clock, fetcher=Watched(clock, (1.0, 0.01)))
    assert len(found.points) == 1
    assert found.missing == (64,)
    assert clock.utc() == NOON + 120


def test_a_missed_look_is_passed_over() -> None:
    clock = FakeClock(NOON)
    watched = Watched(clock, (1.0, 0.01), failures=(3, 4))
    found = record(SETTINGS, plan(2, 1), clock=clock, fetcher=watched)
    assert found.points[0].tpot == pytest.approx(0.01)


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    clock = FakeClock(NOON)
    with pytest.raises(PageError, match="plain: connection refused by plain"):
        record(SETTINGS, plan(), clock=clock, fetcher=Watched(clock, (1, 1), failures=(1,)))
    assert clock.utc() == NOON


def test_a_server_that_goes_away_is_given_up() -> None:
    clock = FakeClock(NOON)
    watched = Watched(clock, (1.0, 0.01), failures=tuple(range(3, 100)))
    with pytest.raises(PageError, match="refused"):
        record(SETTINGS, plan(60), clock=clock, fetcher=watched)
    assert clock.utc() < NOON + 120


@pytest.mark.parametrize(
    ("length", "reason"), [(2.5, "it speculates: drafts flow"), (1.01, "its drafter is dead")]
)
def test_a_server_that_speculates_is_refused(length: float, reason: str) -> None:
    clock = FakeClock(NOON)
    watched = Watched(clock, (1.0, 0.01), draft_length=length)
    watched.server.advance(600)
    with pytest.raises(RefusedError, match=reason):
        record(SETTINGS, plan(), clock=clock, fetcher=watched)
    assert watched.looks == 1


def test_a_server_that_begins_to_speculate_is_refused() -> None:
    clock = FakeClock(NOON)
    watched = Watched(clock, (1.0, 0.01), draft_length=2.0, drafts_after=6)
    with pytest.raises(RefusedError, match="speculat"):
        record(SETTINGS, plan(), clock=clock, fetcher=watched)


def test_force_records_it_and_keeps_the_reason() -> None:
    clock = FakeClock(NOON)
    watched = Watched(clock, (1.0, 0.01), draft_length=2.5)
    watched.server.advance(600)
    found = record(SETTINGS, plan(2, 1, force=True), clock=clock, fetcher=watched)
    assert found.reason == "it speculates: drafts flow"
    assert found.points


def test_too_little_traffic_gives_no_curve_unless_by_force() -> None:
    for force in (False, True):
        clock = FakeClock(NOON)
        short = plan(0.25, force=force)
        found = record(SETTINGS, short, clock=clock, fetcher=Watched(clock, (1.0, 0.01)))
        assert found.reason is not None
        assert "no load was seen for 30 s" in found.reason
        assert bool(found.points) is force


def test_an_interrupt_gives_what_was_seen() -> None:
    clock = FakeClock(NOON)
    watched = Watched(clock, (1.0, 0.01), interrupt_at=10)
    found = record(SETTINGS, plan(60), clock=clock, fetcher=watched)
    assert found.interrupted
    assert len(found.points) == 1


def test_warm_up_does_not_count() -> None:
    clock = FakeClock(NOON)
    watched = Watched(clock, (1.0, 0.01))
    watched.server.requests = 0.0
    watched.server.tokens = 0.0
    watched.server.decode_seconds = 0.0
    found = record(SETTINGS, plan(1.5), clock=clock, fetcher=watched)
    assert any("during warm-up were left out" in note for note in found.notes)


def test_bins() -> None:
    assert parse_bins("16,1,5") == (1, 4, 16)
    for bad in ("", "a", "0", "1,,2", "nan", "1e9"):
        with pytest.raises(ValueError, match="must be"):
            parse_bins(bad)
