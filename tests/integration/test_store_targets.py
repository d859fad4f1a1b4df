"""Targets: registered, retired, revived; their state and status."""

from __future__ import annotations

import json

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine
from store_rows import NOON, change, dump, row, target, vllm

from monitor.model import StoreError, Verdict
from monitor.settings import Credentials, TargetSettings
from monitor.store.repository import Repository
from monitor.store.rows import StoredState


def test_registering_again_changes_nothing(repository: Repository, engine: Engine) -> None:
    configured = [target("a"), target("b", "code")]
    first = repository.register(configured, NOON)
    before = dump(engine)
    assert repository.register(configured, NOON + 60.0) == first
    assert dump(engine) == before


def test_targets_are_retired_and_revived_under_the_same_key(
    repository: Repository, engine: Engine
) -> None:
    first = repository.register([target("a"), target("b")], NOON)
    repository.register([target("b", "code")], NOON + 60.0)
    assert [status.service for status in repository.statuses()] == ["code"]
    retired = {found[1]: found[-1] for found in dump(engine)["targets"]}
    assert retired == {"a": NOON + 60.0, "b": None}
    assert repository.register([target("a"), target("b")], NOON + 120.0) == first
    assert len(repository.statuses()[0].targets) == 2


def test_no_targets_at_all_is_fine(repository: Repository) -> None:
    repository.register([target("a")], NOON)
    assert repository.register([], NOON) == {}
    assert repository.statuses() == []


def test_credentials_are_not_stored(repository: Repository, engine: Engine) -> None:
    settings = TargetSettings(
        name="a",
        service="chat",
        url="http://user:geheim@a:8000/metrics?key=geheim",
        credentials=Credentials(bearer=SecretStr("geheim"), password=SecretStr("geheim")),
    )
    repository.register([settings], NOON)
    assert "geheim" not in repr(dump(engine))


def test_states_come_back_for_live_targets_only(repository: Repository) -> None:
    repository.register([target("a"), target("b")], NOON)
    repository.write_round([row(NOON, state='{"n": 1}', document='{"d": 1}'), row(name="b")])
    repository.write_round([row(NOON + 15.0, state='{"n": 2}')])
    repository.register([target("a")], NOON)
    assert repository.load_states() == {
        "a": StoredState(NOON + 15.0, '{"n": 2}', '{"d": 1}'),
    }


def test_status_tells_since_when_the_verdict_holds(repository: Repository) -> None:
    repository.register([target("b"), target("a"), target("new", "code")], NOON)
    story = [Verdict.HARMFUL, Verdict.HEALTHY, Verdict.HARMFUL, Verdict.HARMFUL]
    for number, verdict in enumerate(story):
        at = NOON + 15.0 * number
        repository.write_round([row(at, change=change(verdict), document=f'{{"n": {number}}}')])
    repository.write_round([row(NOON + 60.0, problem="no page: timed out")])
    chat, code = repository.statuses()
    assert [status.target for status in chat.targets] == ["a", "b"]
    status = chat.targets[0]
    assert (status.verdict, status.since) == (Verdict.HARMFUL, NOON + 30.0)
    assert (status.at, status.assessed_at) == (NOON + 60.0, NOON + 45.0)
    assert status.assessment == '{"n": 3}'
    assert status.problem == "no page: timed out"
    unseen = code.targets[0]
    assert (unseen.verdict, unseen.since, unseen.at, unseen.assessment) == (None,) * 4


def test_the_verdicts_up_to_a_moment_come_in_order(repository: Repository) -> None:
    repository.register([target("a")], NOON)
    for number, verdict in enumerate([Verdict.HARMFUL, Verdict.HEALTHY, Verdict.DOWN]):
        repository.write_round([row(NOON + number, change=change(verdict))])
    found = repository.moment("a", NOON + 1.0)
    assert found is not None
    assert [(item.at, item.verdict) for item in found.verdicts] == [
        (NOON, Verdict.HARMFUL),
        (NOON + 1.0, Verdict.HEALTHY),
    ]
    assert found.verdicts[0].sentence == "It harms."


def test_an_unknown_target_is_answered_with_near_ones(repository: Repository) -> None:
    with pytest.raises(StoreError, match="none is stored yet"):
        repository.load_history("chat-1", NOON, NOON)
    repository.register([target("chat-1"), target("other")], NOON)
    with pytest.raises(StoreError, match=r"'caht-1' in the database; near are chat-1$"):
        repository.moment("caht-1", NOON)
    with pytest.raises(StoreError, match="no target 'x'"):
        repository.event(NOON, "note", "text", target="x")
    with pytest.raises(StoreError, match="y is not registered"):
        repository.write_round([row(name="y")])


def test_a_fingerprint_is_written_when_something_new_is_known(
    repository: Repository, engine: Engine
) -> None:
    repository.register([target("a")], NOON)
    known = vllm(engine_version="0.9", model="m", draft_size=5)
    sightings = [
        vllm(engine_version="0.9"),
        known,
        vllm(),
        known._replace(draft_size=10**12),
        known._replace(engine_version="0.10", model=None),
    ]
    for number, identity in enumerate(sightings):
        repository.write_round([row(NOON + number, identity=identity)])
        repository.register([target("a")], NOON)
    assert [found[1:6] for found in dump(engine)["fingerprints"]] == [
        (NOON, "vllm", "0.9", None, None),
        (NOON + 1, "vllm", "0.9", "m", None),
        (NOON + 4, "vllm", "0.10", None, None),
    ]
    (event,) = dump(engine)["events"]
    assert event[2] == "fingerprint"
    assert event[4] == "engine_version 0.9 → 0.10"


def test_events_belong_to_a_target_or_to_the_monitor(
    repository: Repository, engine: Engine
) -> None:
    repository.register([target("a")], NOON)
    repository.event(NOON, "start", "The monitor \0 started.", detail={"version": "1\ud800"})
    repository.event(NOON + 1.0, "note", "Something.", target="a")
    general, own = dump(engine)["events"]
    assert general[3] is None
    assert general[4] == "The monitor \N{REPLACEMENT CHARACTER} started."
    assert json.loads(general[5]) == {"version": "1?"}
    assert own[3] is not None
