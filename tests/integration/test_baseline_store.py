"""Stored baselines on both databases: versions, the active one, its history, deleting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine
from store_rows import NOON, dump, full_row, increment, target

from monitor.health.baseline import BaselinePoint
from monitor.model import Engine as ModelServer
from monitor.model import Identity, StoreError
from monitor.store.baseline_rows import (
    NewBaseline,
    Origin,
    Provenance,
    SourceFile,
    StoredBaseline,
)
from monitor.store.baselines import Baselines, check_baseline_name
from monitor.store.repository import Repository
from monitor.store.rows import RoundRow

POINTS = (
    BaselinePoint(1.0, 0.012, 600.0, 40.0, 0.02, 512.0, 0.3),
    BaselinePoint(8.0, 0.020),
)
IDENTITY = Identity(ModelServer.VLLM, "0.32.0", "kimi", tensor_parallel=8)
PROVENANCE = Provenance(
    Origin.BENCH,
    "monitor",
    (SourceFile("a.json", "0" * 64),),
    {"url": "http://h", "requests": None, "levels": [1, 8]},
    "ann@gpu1",
    NOON - 60,
    NOON,
    ("a note with \0 in it",),
)


@pytest.fixture
def baselines(engine: Engine) -> Baselines:
    return Baselines(engine)


def new(name: str = "plain", tpot: float = 0.012, reason: str | None = None) -> NewBaseline:
    points = (BaselinePoint(1.0, tpot), *POINTS[1:])
    return NewBaseline(name, points, IDENTITY, PROVENANCE, reason)


def activations(engine: Engine) -> list[tuple[Any, ...]]:
    """Which baseline was made the active one when and by whom, the oldest first."""
    return [(at, key, who) for _, _, key, at, who in dump(engine)["baseline_activations"]]


def labels(found: list[StoredBaseline]) -> list[str]:
    return [one.label for one in found]


def test_what_is_saved_comes_back(baselines: Baselines) -> None:
    saved = baselines.save("chat", NewBaseline("plain", POINTS, IDENTITY, PROVENANCE), NOON)
    found = baselines.find("chat", "plain")
    assert found == saved
    assert found.points == POINTS
    assert found.identity == IDENTITY
    assert found.provenance.files == PROVENANCE.files
    assert found.provenance.parameters == PROVENANCE.parameters
    assert found.provenance.notes == ("a note with � in it",)
    assert (found.provenance.how, found.provenance.who) == (Origin.BENCH, "ann@gpu1")
    assert (found.valid, found.active, found.version, found.created_at) == (True, False, 1, NOON)
    assert found.baseline.name == "plain"
    assert found.baseline.tpot(1.0) == 0.012


def test_a_second_one_of_a_name_gets_a_number_and_changes_nothing(baselines: Baselines) -> None:
    first = baselines.save("chat", new(tpot=0.010), NOON)
    second = baselines.save("chat", new(tpot=0.011), NOON + 1)
    assert labels(baselines.listing("chat")) == ["plain", "plain#2"]
    assert baselines.find("chat", "plain#1") == first
    assert baselines.find("chat", "plain") == baselines.find("chat", "plain#2") == second
    assert baselines.find(None, str(first.id)) == first
    assert baselines.save("code", new(), NOON).version == 1


def test_savers_at_the_same_time_get_different_numbers(baselines: Baselines) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: baselines.save("chat", new(), NOON), range(8)))
    assert [one.version for one in baselines.listing("chat")] == list(range(1, 9))


def test_one_is_active_and_the_past_is_kept(baselines: Baselines, engine: Engine) -> None:
    assert baselines.active("chat") is None
    first = baselines.save("chat", new(), NOON, activate=True)
    second = baselines.save("chat", new(), NOON + 1)
    baselines.save("code", new("other"), NOON)
    assert first.active
    active = baselines.active("chat")
    assert active is not None
    assert active.name == "plain"
    assert baselines.activate("chat", "plain#2", NOON + 2, "bob@h").active
    active = baselines.active("chat")
    assert active is not None
    assert active.name == "plain#2"
    baselines.activate(None, str(first.id), NOON + 3, "bob@h")
    baselines.deactivate("chat", NOON + 4, "eve@h")
    assert baselines.active_of_all() == {}
    assert activations(engine) == [
        (NOON, first.id, "ann@gpu1"),
        (NOON + 2, second.id, "bob@h"),
        (NOON + 3, first.id, "bob@h"),
        (NOON + 4, None, "eve@h"),
    ]


def test_the_active_ones_of_all_services(baselines: Baselines) -> None:
    for service in ("chat", "code", "idle"):
        baselines.save(service, new(service), NOON, activate=service != "idle")
    found = baselines.active_of_all()
    assert {service: one.label for service, one in found.items()} == {
        "chat": "chat",
        "code": "code",
    }
    assert all(one.active for one in found.values())


def test_deleting_hides_and_keeps(baselines: Baselines, engine: Engine) -> None:
    first = baselines.save("chat", new(), NOON, activate=True)
    baselines.save("chat", new(), NOON)
    gone = baselines.delete("chat", "plain#1", NOON + 5, "bob@h")
    assert (gone.deleted_at, gone.active) == (NOON + 5, False)
    assert baselines.active("chat") is None
    assert labels(baselines.listing("chat")) == ["plain#2"]
    assert labels(baselines.listing(with_deleted=True)) == ["plain", "plain#2"]
    assert [key for _, key, _ in activations(engine)] == [first.id, None]
    for reference in ("plain#1", str(first.id)):
        with pytest.raises(StoreError, match="has no baseline"):
            baselines.activate("chat", reference, NOON, "x")
    assert len(dump(engine)["baselines"]) == 2
    # The number of a deleted one is not given away again.
    baselines.delete("chat", "plain#2", NOON, "x")
    assert baselines.save("chat", new(), NOON).label == "plain#3"


def test_a_forced_one_keeps_its_reason(baselines: Baselines) -> None:
    found = baselines.save("chat", new(reason="it speculates"), NOON)
    assert (found.valid, found.reason) == (False, "it speculates")


@pytest.mark.parametrize(
    ("service", "name", "line"),
    [
        ("chat", "plan", "service 'chat' has no baseline 'plan'; there are plain, plain#2"),
        ("chat", "plain#7", "service 'chat' has no baseline 'plain#7'; there are plain"),
        ("nope", "plain", "service 'nope' has no baseline 'plain'; none is stored yet"),
        (None, "99", "the database has no baseline '99'; there are plain, plain#2"),
        (None, "plain", "several services have a baseline 'plain': chat, code; name one"),
    ],
)
def test_what_is_not_found_is_one_line(
    baselines: Baselines, service: str | None, name: str, line: str
) -> None:
    for owner in ("chat", "chat", "code"):
        baselines.save(owner, new(), NOON)
    with pytest.raises(StoreError) as caught:
        baselines.find(service, name)
    assert line in str(caught.value)


def test_no_points_are_no_baseline(baselines: Baselines) -> None:
    with pytest.raises(StoreError, match="has no points"):
        baselines.save("chat", NewBaseline("plain", (), IDENTITY, PROVENANCE), NOON)


@pytest.mark.parametrize("name", ["", " a", "a ", "a#2", "12", "a\n", "x" * 300])
def test_names_that_could_be_mistaken_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must"):
        check_baseline_name(name)
    assert check_baseline_name("plain 2") == "plain 2"


def test_targets_and_baselines_share_their_service(
    repository: Repository, baselines: Baselines, engine: Engine
) -> None:
    baselines.save("chat", new(), NOON)
    repository.register([target("a", "chat")], NOON)
    assert len(dump(engine)["services"]) == 1
    assert [status.service for status in repository.statuses()] == ["chat"]


def test_samples_and_facts_of_a_target(repository: Repository) -> None:
    repository.register([target("a", "chat")], NOON)
    assert repository.facts("a").identity == Identity()
    repository.write_round([full_row(NOON)])
    repository.write_round([RoundRow("a", NOON + 15, [increment(NOON + 15)], "{}")])
    found = repository.samples("a", NOON, NOON + 15)
    assert [(one.label, one.end) for one in found] == [("0", NOON + 15)]
    assert [one.label for one in repository.samples("a", NOON - 1, NOON)] == ["0", "1"]
    assert repository.samples("a", NOON - 1, NOON)[0].counts.positions == (7.0, 3.5)
    facts = repository.facts("a")
    assert (facts.service, facts.role, facts.interval) == ("chat", "speculative", 15.0)
    assert facts.identity.engine is ModelServer.VLLM
