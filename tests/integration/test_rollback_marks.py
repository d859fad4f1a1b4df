"""Rollbacks are marked in Grafana once, from their beginning to their end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_grafana import TOKEN, State, fake_grafana
from pydantic import SecretStr
from store_rows import NOON
from test_store_rollbacks import PLAN, PROPOSED, record, then

from monitor.daemon.marker import Marker
from monitor.model import GrafanaError
from monitor.rollback.model import Kind, News, Phase
from monitor.settings import GrafanaSettings
from monitor.store.holder import this_process
from monitor.store.lease import DAEMON
from monitor.store.repository import Repository

BEGUN = then(Kind.APPROVED, Phase.CHECKING, 1)


@pytest.fixture
def grafana() -> Iterator[State]:
    with fake_grafana() as state:
        yield state


@pytest.fixture
def store(repository: Repository) -> Repository:
    repository.leases.take(DAEMON, this_process(), 600.0)
    return repository


@pytest.fixture
def marker(store: Repository, grafana: State) -> Marker:
    settings = GrafanaSettings(grafana.url, SecretStr(TOKEN))
    return Marker(store.marks, lambda: settings)


def save(store: Repository, news: News, plan: str | None) -> None:
    store.rollbacks.save(record(news, plan=plan), fence=1)


def test_a_plan_is_a_region_from_its_approval_to_its_end(
    store: Repository, marker: Marker, grafana: State
) -> None:
    save(store, PROPOSED, PLAN)
    marker.work()
    assert not grafana.annotations  # A proposal moves nothing yet.
    save(store, BEGUN, PLAN)
    save(store, then(Kind.DONE, Phase.DONE, 5), PLAN)
    for _ in range(2):
        marker.work()
    (mark,) = grafana.annotations.values()
    assert mark["time"] == round((NOON + 60.0) * 1000)
    assert mark["tags"] == ["spec-decode", "rollback", "service:chat", f"plan:{PLAN}"]
    assert "timeEnd" not in mark
    save(store, then(Kind.RESTORED, Phase.ARMED, 9), None)
    for _ in range(2):
        marker.work()
    (mark,) = grafana.annotations.values()
    assert mark["timeEnd"] == round((NOON + 540.0) * 1000)
    assert sum(method == "PATCH" for method, _ in grafana.writes) == 1


def test_a_mark_whose_answer_was_lost_is_found_again(
    store: Repository, marker: Marker, grafana: State
) -> None:
    save(store, BEGUN, PLAN)
    grafana.fail("POST", "/api/annotations", "lost")
    with pytest.raises(GrafanaError):
        marker.work()
    marker.work()
    assert len(grafana.annotations) == 1
    assert store.marks.to_begin() == []


def test_a_grafana_that_is_away_gets_its_marks_later(
    store: Repository, marker: Marker, grafana: State
) -> None:
    save(store, BEGUN, PLAN)
    grafana.fail("GET", "/api/annotations", '503 {"message": "starting"}', count=9)
    with pytest.raises(GrafanaError):
        marker.work()
    assert not grafana.annotations
    grafana.faults.clear()
    save(store, then(Kind.FAILED, Phase.FAILED, 3), None)
    marker.work()
    marker.work()
    (mark,) = grafana.annotations.values()
    assert (mark["time"], mark["timeEnd"]) == (
        round((NOON + 60.0) * 1000),
        round((NOON + 180.0) * 1000),
    )
