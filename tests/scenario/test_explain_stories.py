"""Explanations of a simulated past: what is said afterwards is what was said then."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from explain_stage import PLAIN, Watched
from traffic import INTERVAL, START, Server

from monitor.explain import explain
from monitor.health.orders import Order, OrderKind
from monitor.model import Verdict
from monitor.store import schema
from monitor.store.connect import open_store
from monitor.store.repository import Repository

GOLDEN = Path(__file__).parents[1] / "data" / "explain" / "collapse.json"
HOUR = 3600.0


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    url = f"sqlite:///{tmp_path / 'monitor.db'}"
    schema.upgrade(url)
    engine = open_store(url)
    yield Repository(engine)
    engine.dispose()


def explained(repository: Repository, at: float) -> dict[str, Any]:
    moment = repository.moment("gpu1", at)
    assert moment is not None
    document = explain(moment)
    # It must be plain JSON whatever happened.
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    return document


def collapse(watched: Watched) -> None:
    watched.watch(60 * 5)
    watched.server.q = 0.25
    watched.watch(20)
    watched.server.q = 0.8
    watched.watch(40)


def dear_steps(watched: Watched) -> None:
    watched.watch(30)
    watched.server.step = 0.060
    watched.watch(20)


def crossover(watched: Watched) -> None:
    watched.watch(30)
    watched.server.running, watched.server.step = 48.0, 0.160
    watched.watch(15)


def new_release(watched: Watched) -> None:
    watched.server.version = "0.31.0"
    watched.watch(30)
    watched.server.restart()
    watched.server.version, watched.server.q = "0.32.0", 0.45
    watched.watch(15)


def idle(watched: Watched) -> None:
    watched.watch(20)
    watched.server.running = 0.0
    watched.watch(30)
    watched.server.running = 4.0
    watched.watch(5)


def outage(watched: Watched) -> None:
    watched.watch(20)
    watched.miss(5)
    watched.watch(5)


def dead(watched: Watched) -> None:
    watched.watch(10)
    watched.server.q = 0.002
    watched.watch(5)


def slow(watched: Watched) -> None:
    watched.watch(30)
    watched.server.step *= 2.0
    watched.watch(15)


def few(watched: Watched) -> None:
    watched.server.request_drafts, watched.server.running = 3000.0, 1.0
    watched.watch(5)


STORIES: list[tuple[Callable[[Watched], None], bool]] = [
    (collapse, False),
    (dear_steps, True),
    (dear_steps, False),
    (crossover, True),
    (new_release, False),
    (idle, False),
    (idle, True),
    (outage, False),
    (dead, False),
    (slow, False),
    (few, False),
]


@pytest.mark.parametrize(("story", "compared"), STORIES)
def test_each_moment_is_explained_by_what_was_said_then(
    repository: Repository, story: Callable[[Watched], None], compared: bool
) -> None:
    watched = Watched(repository, Server(), PLAIN if compared else None)
    story(watched)
    for said in watched.said[1 :: max(len(watched.said) // 20, 1)]:
        found = explained(repository, said.at)
        again = found["judged_again"] or found["verdict"]
        assert again["verdict"] == said.verdict
        assert (again["cause"], again["action"]) == (said.cause, said.action)
        if found["judged_again"] is not None:
            assert again["sentence"] == said.sentence
            assert again["agrees"]
        deciding = [rung for rung in found["ladder"] if rung["decided"]]
        assert len(deciding) == 1
        assert deciding[0] is found["ladder"][-1]
        assert found["outlook"]


@pytest.mark.parametrize(("story", "compared"), STORIES)
def test_now_is_explained_from_what_the_daemon_remembers(
    repository: Repository, story: Callable[[Watched], None], compared: bool
) -> None:
    watched = Watched(repository, Server(), PLAIN if compared else None)
    story(watched)
    found = explained(repository, watched.server.now + 60.0)
    assert found["judged_again"]["sentence"] == watched.said[-1].sentence
    evidence = watched.state.memory.watch.drop.evidence
    assert found["detector"]["drop"]["evidence"] == pytest.approx(evidence)
    assert not any("not stored" in note for note in found["notes"])


def test_the_explanation_of_a_collapse(repository: Repository) -> None:
    """Golden; after a wanted change write it anew with ``UPDATE_GOLDEN=1``."""
    watched = Watched(repository, Server())
    watched.watch(20)
    watched.server.q = 0.25
    watched.watch(4)
    found = explained(repository, watched.server.now)
    # What is assumed of a normal that is not learnt yet belongs to the statistics.
    found["reference"] = None
    if _update():
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    assert found == json.loads(GOLDEN.read_text("utf-8"))


def _update() -> bool:
    import os  # noqa: PLC0415

    return bool(os.environ.get("UPDATE_GOLDEN"))


def test_the_detector_is_dated(repository: Repository) -> None:
    watched = Watched(repository, Server(spread=0.01))
    watched.watch(60 * 26)
    fall = watched.server.now
    watched.server.q = 0.70
    watched.watch(60)
    found = explained(repository, watched.server.now)
    drop = found["detector"]["drop"]
    assert drop["evidence"] >= 0.9 * found["detector"]["threshold"]
    assert drop["left_zero_at"] <= drop["alarm_at"]
    rule = found["ladder"][-1]
    assert (rule["rule"], rule["figures"]["fallen"]) == ("below_normal", True)
    shown = [part["drop_evidence"] for part in found["history"]]
    assert min(shown) == 0.0
    assert max(shown) >= found["detector"]["threshold"]
    (change,) = [c for c in found["changes"] if c["of"] == "acceptance_rate"]
    assert change["matters"]
    assert change["before"] == pytest.approx(0.65, abs=0.01)
    before = explained(repository, fall - 60.0)
    assert before["detector"]["drop"]["alarm_at"] is None


def test_an_older_moment_is_judged_by_the_reference_of_today_and_says_so(
    repository: Repository,
) -> None:
    watched = Watched(repository, Server(spread=0.01))
    watched.watch(60 * 51)
    said = watched.said[-4]
    found = explained(repository, said.at)
    assert found["judged_again"]["verdict"] == said.verdict == Verdict.HEALTHY
    assert any("the learnt normal is that of today" in note for note in found["notes"])


def test_a_moment_while_nobody_looked_is_explained_by_the_last_look(
    repository: Repository,
) -> None:
    watched = Watched(repository, Server())
    watched.watch(20)
    last = watched.said[-1]
    watched.server.look(2 * HOUR)
    watched.watch(20)
    found = explained(repository, last.at + HOUR)
    assert found["judged_again"]["sentence"] == last.sentence
    assert any("3600 s before the moment" in note for note in found["notes"])


def test_before_the_first_look_nothing_is_known(repository: Repository) -> None:
    watched = Watched(repository, Server())
    watched.watch(5)
    assert repository.moment("gpu1", START - HOUR) is None
    first = explained(repository, START + INTERVAL)
    assert first["ladder"][-1]["rule"] == "figures"
    assert first["judged_again"] is None
    assert first["verdict"]["verdict"] == Verdict.INSUFFICIENT


def test_memory_that_cannot_be_read_is_said(repository: Repository) -> None:
    watched = Watched(repository, Server())
    watched.watch(20)
    watched.write(state="{}")
    found = explained(repository, watched.server.now)
    assert found["judged_again"]["verdict"] == watched.said[-1].verdict
    assert any("cannot be read" in note for note in found["notes"])


def test_a_pin_of_then_is_the_normal_of_then(repository: Repository) -> None:
    watched = Watched(repository, Server())
    watched.watch(60 * 4)
    before = watched.server.now
    order = repository.order("gpu1", Order(OrderKind.PIN, 0.9), at=before, who="ann@desk")
    assert [o["id"] for o in explained(repository, before)["orders"]] == [order.id]
    watched.obey(order)
    watched.watch(60)
    found = explained(repository, watched.server.now - 60.0)
    assert found["reference"]["pinned"] == 0.9
    assert found["reference"]["normal"]["rate"] == 0.9
    assert found["orders"] == []
    assert explained(repository, before)["reference"]["pinned"] is None


def test_several_engines_and_their_outlier(repository: Repository) -> None:
    watched = Watched(repository, Server(), engines=3)
    watched.watch(20)
    watched.sick = 1
    watched.watch(10)
    said = watched.said[-1]
    found = explained(repository, said.at)
    assert found["judged_again"]["sentence"] == said.sentence
    *_, before, last = found["ladder"]
    assert (before["decided"], last["rule"], last["decided"]) == (False, "engines", True)
    assert last["because"] == said.sentence
    assert [e["verdict"] for e in found["judged_again"]["engines"]].count("harmful") == 1
