"""A rollback by a real daemon: windows that prove a loss, a plan, traffic moved by a hook."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from daemon_stage import Running, eventually, running
from rollback_world import POLICY, START, World, clock, world
from sqlalchemy import Engine
from structlog.testing import capture_logs

from monitor.alerting.routes import Routing, parse_matcher
from monitor.alerting.silences import Silence
from monitor.rollback.model import Order, Phase
from monitor.rollback.settings import Mode
from monitor.settings import DaemonSettings
from monitor.store.connect import open_store
from monitor.store.repository import Repository
from monitor.web.metrics import MetricsPage

LATER = START + 3600.0
"""A time of the story at which orders are given."""


@pytest.fixture
def place() -> Iterator[World]:
    with world() as made:
        yield made


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'monitor.db'}"


@contextmanager
def watched(settings: DaemonSettings) -> Iterator[tuple[Running, Repository]]:
    with running(settings, clock=clock(time.time())) as stage:
        engine: Engine = open_store(settings.database)
        try:
            yield stage, Repository(engine)
        finally:
            engine.dispose()


def phase(stage: Running) -> str:
    (view,) = stage.daemon.health().rollbacks
    return view.phase


def reaches(stage: Running, wanted: Phase) -> None:
    eventually(lambda: phase(stage) == wanted)


def test_a_service_that_loses_is_rolled_back_step_by_step(place: World, database: str) -> None:
    settings = replace(place.settings(database), routing=Routing(("nobody",)))
    with watched(settings) as (stage, repository):
        reaches(stage, Phase.DONE)
        (view,) = stage.daemon.health().rollbacks
        plan = repository.rollbacks.plans()[0]
        decisions = repository.rollbacks.decisions(plan=plan.plan)
        steps = repository.rollbacks.steps(plan.plan)
        (incident,) = [i for i in repository.alerts.incidents() if i.rule == "rollback"]
        page = MetricsPage(stage.daemon).render("")[0].decode()
        (service,) = stage.daemon.status()["services"]
    assert place.hook.share == view.share == 1.0
    assert [(order["action"], order["share"]) for order in place.hook.orders] == [
        ("shift", 0.5),
        ("shift", 1.0),
    ]
    assert [(step.do, step.share, step.status) for step in steps] == [
        ("shift", 0.5, "done"),
        ("shift", 1.0, "done"),
    ]
    assert [d.kind for d in decisions if d.kind != "step"] == ["started", "done"]
    evidence = decisions[0].evidence
    assert evidence["config"] == "one"
    assert evidence["baselines"]["spec"]["points"][0] == [1.0, 0.02]
    assert any("spec_decode_num_drafts_total" in line for line in evidence["pages"]["spec"])
    assert evidence["windows"]
    assert (incident.severity, incident.title) == (
        "info",
        "chat: rolled back, the speculative side is parked",
    )
    assert 'monitor_rollback_phase{phase="done",service="chat"} 1.0' in page
    assert 'monitor_rollback_acts_total{outcome="done",service="chat"} 2.0' in page
    assert service["rollback"]["state"] == "done"
    assert (service["rollback"]["mode"], service["rollback"]["baseline_share"]) == ("act", 1.0)


def test_a_service_that_is_observed_is_left_alone(place: World, database: str) -> None:
    settings = place.settings(database, replace(POLICY, mode=Mode.OBSERVE))
    with watched(settings) as (stage, repository):
        reaches(stage, Phase.PROPOSED)
        (decision,) = repository.rollbacks.decisions()
        assert not [i for i in repository.alerts.incidents() if i.rule == "rollback"]
    assert decision.mode == "observe"
    assert "the mode is observe" in decision.sentence
    assert not place.hook.orders


def test_a_proposal_waits_for_an_order_and_an_abort_puts_all_back(
    place: World, database: str
) -> None:
    settings = place.settings(database, replace(POLICY, mode=Mode.PROPOSE))
    with watched(settings) as (stage, repository):
        reaches(stage, Phase.PROPOSED)
        orders = repository.rollbacks
        orders.order("chat", Order.APPROVE, at=LATER, who="ann@desk")
        eventually(lambda: place.hook.share == 0.5)
        orders.order("chat", Order.ABORT, at=LATER, who="bob@desk")
        reaches(stage, Phase.ABORTED)
        eventually(lambda: not orders.waiting())
        told = [(d.kind, d.who) for d in orders.decisions() if d.who is not None]
    assert place.hook.share == 0.0
    assert told[0] == ("approved", "ann@desk")
    assert ("step", "bob@desk") in told


def test_a_plan_in_progress_goes_on_over_a_reload(place: World, database: str) -> None:
    first = place.settings(database)
    more = replace(first, config_hash="two")
    with running(first, lambda: more, clock=clock(time.time())) as stage:
        eventually(lambda: place.hook.share == 0.5)
        stage.daemon.reload()
        reaches(stage, Phase.DONE)
    assert [order["share"] for order in place.hook.orders] == [0.5, 1.0]


def test_a_plan_of_a_service_that_is_gone_is_named_at_the_start(
    place: World, database: str
) -> None:
    first = place.settings(database, replace(POLICY, mode=Mode.PROPOSE))
    with watched(first) as (stage, _):
        reaches(stage, Phase.PROPOSED)
    renamed = replace(
        first,
        targets=tuple(replace(target, service="talk") for target in first.targets),
        rollbacks={"talk": first.rollbacks["chat"]},
    )
    with capture_logs() as logs, running(renamed, clock=clock(time.time())):
        pass
    (line,) = [log for log in logs if "watched no more" in log["event"]]
    assert (line["service"], line["phase"]) == ("chat", "proposed")


def test_a_silence_that_holds_rollbacks_keeps_all_where_it_is(place: World, database: str) -> None:
    settings = place.settings(database)
    with watched(settings) as (stage, repository):
        held = Silence(
            0, (parse_matcher("service=chat"),), "ann", "deploy", 0.0, 0.0, 9e9,
            holds_rollback=True,
        )  # fmt: skip
        silence = repository.alerts.silences.add(held)
        eventually(lambda: stage.daemon.health().rollbacks[0].is_hurt)
        rounds = stage.rounds("spec")
        eventually(lambda: stage.rounds("spec") >= rounds + 6)
        assert phase(stage) == Phase.ARMED
        assert not place.hook.orders
        repository.alerts.silences.expire(silence.id, 1.0)
        reaches(stage, Phase.DONE)


def test_without_its_database_it_never_acts(place: World, database: str) -> None:
    settings = place.settings(database, replace(POLICY, mode=Mode.PROPOSE))
    with watched(settings) as (stage, repository):
        reaches(stage, Phase.PROPOSED)
        repository.rollbacks.order("chat", Order.APPROVE, at=LATER, who="ann@desk")
        rename(database, "rollback_steps", "away")
        eventually(lambda: stage.daemon.health().rollbacks[0].errors >= 2)
        rounds = stage.rounds("spec")
        eventually(lambda: stage.rounds("spec") >= rounds + 3)
        assert not place.hook.orders
        rename(database, "away", "rollback_steps")
        reaches(stage, Phase.DONE)
    assert [order["share"] for order in place.hook.orders] == [0.5, 1.0]


def rename(database: str, old: str, new: str) -> None:
    engine = open_store(database)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")
    engine.dispose()
