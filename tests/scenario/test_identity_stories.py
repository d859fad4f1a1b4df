"""Stories of servers that tell who they are, from their pages to the verdict."""

from __future__ import annotations

import json

import pytest
from traffic import INTERVAL, Server
from vllm_page import vllm_page

from monitor.model import Assessment, Cause, Verdict
from monitor.pipeline import Page, TargetPipeline, state_text
from monitor.settings import TargetSettings

SETTINGS = TargetSettings("t", "s", "http://t/metrics", interval=INTERVAL)
OLD = b'{"version": "0.31.0"}'
NEW = b'{"version": "0.32.0"}'


class Watcher:
    """A pipeline that looks at a server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.pipeline = TargetPipeline(SETTINGS)
        self.said: list[Assessment] = []

    def look(self, about: bytes | None = None) -> Assessment:
        self.server.look()
        page = Page(vllm_page(self.server), None, about)
        tick = self.pipeline.tick(page, self.server.now)
        assert tick.problem is None
        self.said.append(tick.assessment)
        return tick.assessment

    def watch(self, minutes: float) -> Assessment:
        for _ in range(int(minutes * 60.0 / INTERVAL)):
            self.look()
        return self.said[-1]

    def references(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.pipeline.state())["references"]
        return found

    def restart(self, q: float) -> None:
        self.server.restart()
        self.server.q = q


@pytest.mark.parametrize("pages_late", [0, 1], ids=["with the first page", "a page later"])
@pytest.mark.parametrize("minutes", [30, 60 * 5], ids=["soon", "with a learnt normal"])
def test_a_drop_at_a_restart_with_another_release_is_laid_to_the_release(
    minutes: float, pages_late: int
) -> None:
    watcher = Watcher(Server())
    watcher.look(OLD)
    assert watcher.watch(minutes).identity.engine_version == "0.31.0"
    watcher.restart(q=0.45)
    for _ in range(pages_late):
        assert watcher.look().identity.engine_version == "0.31.0"
    watcher.look(NEW)
    answer = watcher.watch(15)
    assert (answer.verdict, answer.cause) == (Verdict.DEGRADED, Cause.VERSION_CHANGE)
    assert answer.identity.engine_version == "0.32.0"


def test_a_drop_at_a_restart_with_the_same_release_is_not() -> None:
    watcher = Watcher(Server())
    watcher.look(OLD)
    watcher.watch(30)
    watcher.restart(q=0.45)
    watcher.look(OLD)
    assert watcher.watch(15).cause is Cause.SPECULATOR_CHANGED


def test_another_release_that_does_as_well_is_no_news() -> None:
    watcher = Watcher(Server())
    watcher.look(OLD)
    watcher.watch(60 * 5)
    watcher.restart(q=0.8)
    watcher.look(NEW)
    watcher.watch(30)
    said = {answer.verdict for answer in watcher.said[-60:]}
    assert said <= {Verdict.HEALTHY, Verdict.UNPROVEN, Verdict.INSUFFICIENT}


def test_what_was_learnt_stays_when_the_release_becomes_known() -> None:
    watcher = Watcher(Server())
    assert watcher.watch(60 * 5).verdict is Verdict.HEALTHY
    [(_, learnt)] = watcher.references().items()
    assert watcher.look(OLD).verdict is Verdict.HEALTHY
    [(fingerprint, kept)] = watcher.references().items()
    assert "0.31.0" in fingerprint
    assert kept == learnt


def test_what_an_earlier_monitor_learnt_stays_when_the_release_becomes_known() -> None:
    watcher = Watcher(Server())
    watcher.watch(60 * 5)
    state, learnt = watcher.pipeline.state(), [*watcher.references().values()]
    watcher.pipeline = TargetPipeline(SETTINGS)
    watcher.pipeline.restore(state, ())
    watcher.look(OLD)
    assert [*watcher.references().values()] == learnt


def test_an_endpoint_that_fails_after_a_restart_of_the_monitor_changes_nothing() -> None:
    watcher = Watcher(Server())
    watcher.look(OLD)
    watcher.watch(60 * 5)
    state = watcher.pipeline.state()
    watcher.pipeline = TargetPipeline(SETTINGS)
    watcher.pipeline.restore(state, ())
    assert watcher.look().identity.engine_version == "0.31.0"
    assert len(watcher.references()) == 1


def test_a_first_look_that_fails_repeats_the_verdict_of_the_process_before() -> None:
    watcher = Watcher(Server())
    watcher.look(OLD)
    before = watcher.watch(10)
    state = watcher.pipeline.state()
    pipeline = TargetPipeline(SETTINGS)
    pipeline.restore(state, ())
    tick = pipeline.tick_failed("connection refused", watcher.server.now + 20.0)
    answer = tick.assessment
    assert (answer.verdict, answer.cause, tick.changed) == (before.verdict, before.cause, False)
    assert answer.identity == before.identity
    assert tick.problem == "connection refused"
    late = pipeline.tick_failed("connection refused", watcher.server.now + 40.0)
    assert (late.assessment.verdict, late.changed) == (Verdict.DOWN, True)


def test_a_target_that_was_never_seen_is_down_at_once() -> None:
    assert TargetPipeline(SETTINGS).tick_failed("no", 1.0).assessment.verdict is Verdict.DOWN
    empty = TargetPipeline(SETTINGS)
    empty.restore(state_text(empty._state), ())
    assert empty.tick_failed("no", 1.0).assessment.verdict is Verdict.DOWN
