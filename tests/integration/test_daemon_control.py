"""What a running daemon compares with when the configuration names no curve."""

from __future__ import annotations

import json
import urllib.request
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from daemon_servers import Busy, quick, slow
from daemon_stage import Running, eventually, running, settings, target
from scrape_peers import Peer

from monitor.demo.servers import ScaledClock
from monitor.health.baseline import BaselinePoint
from monitor.model import Assessment, Identity, Verdict
from monitor.settings import Role, TargetSettings
from monitor.store.baseline_rows import NewBaseline, Origin, Provenance
from monitor.store.connect import open_store
from monitor.store.repository import Repository

START = 1_790_000_000.0
RATE = 100.0
"""A minute passes in 0.6 s, so that the daemon looks for another curve that often."""


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'monitor.db'}"


def plain(name: str, peer: Peer) -> TargetSettings:
    return replace(target(name, peer), role=Role.BASELINE)


def answer_of(stage: Running, name: str) -> Assessment | None:
    return next(v.assessment for v in stage.daemon.targets() if v.target == name)


def comes(stage: Running, name: str, verdict: Verdict) -> None:
    def holds() -> bool:
        answer = answer_of(stage, name)
        return answer is not None and answer.verdict is verdict

    eventually(holds)


def baseline_of(stage: Running, name: str) -> str | None:
    answer = answer_of(stage, name)
    return answer.baseline.name if answer is not None and answer.baseline is not None else None


def notes(stage: Running, name: str, beginning: str) -> bool:
    answer = answer_of(stage, name)
    return answer is not None and any(note.startswith(beginning) for note in answer.notes)


def get(stage: Running, path: str) -> str:
    address = f"http://127.0.0.1:{stage.daemon.port}{path}"
    with urllib.request.urlopen(address, timeout=30) as response:
        text: str = response.read().decode()
    return text


def activate(database: str, name: str, tpot: float) -> None:
    """What ``monitor baseline import --activate`` does, in another process."""
    engine = open_store(database)
    points = (BaselinePoint(1.0, tpot), BaselinePoint(64.0, tpot))
    new = NewBaseline(name, points, Identity(), Provenance(Origin.IMPORT, "test"))
    Repository(engine).baselines.save("chat", new, START, activate=True)
    engine.dispose()


def test_a_plain_server_beside_a_speculative_one_tells_whether_it_pays(database: str) -> None:
    with ExitStack() as stack:
        peers = {
            name: stack.enter_context(Peer(server))
            for name, server in (("good", quick()), ("bad", slow()), ("plain", Busy()))
        }
        targets = (
            target("good", peers["good"]),
            target("bad", peers["bad"]),
            plain("plain", peers["plain"]),
        )
        stage = stack.enter_context(running(settings(database, *targets)))
        comes(stage, "good", Verdict.HEALTHY)
        comes(stage, "bad", Verdict.HARMFUL)
        comes(stage, "plain", Verdict.OFF)
        good = answer_of(stage, "good")
        assert good is not None
        assert good.speedup is not None
        assert good.speedup.value == pytest.approx(0.010 / 0.0064, rel=1e-3)
        assert (baseline_of(stage, "bad"), baseline_of(stage, "plain")) == (
            "control of chat",
            None,
        )
        service = json.loads(get(stage, "/api/v1/status"))["services"][0]
        assert service["targets"][0]["baseline"]["name"] == "control of chat"
        line = 'monitor_baseline_matches{service="chat",target="good",baseline="control of chat"}'
        assert f"{line} 1.0" in get(stage, "/metrics")


def test_a_plain_server_that_drafts_is_not_taken_for_one(database: str) -> None:
    dead = Busy(step=0.012, accepted=0.0)
    with Peer(quick()) as good, Peer(dead) as peer:
        targets = target("good", good), plain("plain", peer)
        with running(settings(database, *targets)) as stage:
            comes(stage, "plain", Verdict.HARMFUL)

            eventually(lambda: notes(stage, "good", "no baseline from the plain servers: plain"))
            eventually(lambda: notes(stage, "plain", "not used as a baseline: its drafter"))
            assert baseline_of(stage, "good") is None
            comes(stage, "good", Verdict.UNPROVEN)


def test_a_stored_baseline_is_taken_up_and_given_up_without_a_restart(database: str) -> None:
    clock = ScaledClock(START, RATE)
    with Peer(quick()) as good, Peer(Busy()) as peer:
        targets = [
            replace(found, interval=0.2 * RATE, gap=None)
            for found in (target("good", good), plain("plain", peer))
        ]
        with running(settings(database, *targets), clock=clock) as stage:
            eventually(lambda: baseline_of(stage, "good") == "control of chat")
            activate(database, "measured", tpot=0.0032)
            eventually(lambda: baseline_of(stage, "good") == "measured")
            # Nothing of the comparison with the control is left in the speedup.
            comes(stage, "good", Verdict.HARMFUL)
            found = answer_of(stage, "good")
            assert found is not None
            assert found.speedup is not None
            assert found.speedup.value == pytest.approx(0.5, rel=1e-3)
            engine = open_store(database)
            Repository(engine).baselines.deactivate("chat", START, "test")
            engine.dispose()
            eventually(lambda: baseline_of(stage, "good") == "control of chat")
            comes(stage, "good", Verdict.HEALTHY)


def test_a_reload_takes_up_a_stored_baseline_at_once(database: str) -> None:
    with Peer(quick()) as good:
        first = settings(database, target("good", good))
        with running(first, lambda: first) as stage:
            eventually(lambda: stage.rounds("good") >= 3)
            activate(database, "measured", tpot=0.0128)
            stage.daemon.reload()
            comes(stage, "good", Verdict.HEALTHY)
            assert baseline_of(stage, "good") == "measured"


def test_a_new_process_knows_the_control_from_the_store(database: str) -> None:
    with Peer(quick()) as good:
        with Peer(Busy()) as peer:
            first = settings(database, target("good", good), plain("plain", peer))
            with running(first) as stage:
                comes(stage, "good", Verdict.HEALTHY)
                stage.stop()
        # The plain server is gone for good, its curve is not.
        with running(first) as stage:
            comes(stage, "good", Verdict.HEALTHY)
            assert baseline_of(stage, "good") == "control of chat"
