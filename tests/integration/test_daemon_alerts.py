"""From a server that drafts badly to the receiver that is told: the whole way, for real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from daemon_servers import Busy, slow
from daemon_stage import Running, eventually, running, settings, target
from hostile_receivers import Peer as Receiver
from hostile_receivers import answers, receiver, status
from pydantic import SecretStr
from scrape_peers import Peer

from monitor.alerting.receivers import ReceiverSettings, WebhookSettings
from monitor.alerting.routes import Routing
from monitor.alerting.ruleset import load_rules
from monitor.cli.runner import run
from monitor.settings import DaemonSettings, Role
from monitor.store.alerts import IncidentFilter
from monitor.store.connect import open_store
from monitor.store.repository import Repository
from monitor.web.metrics import MetricsPage

# The shipped rule but for its patience, which is told as stories under a clock by hand.
HARMFUL = [
    replace(rule, hold_seconds=0.0, hold_windows=1)
    for rule in load_rules([]).rules
    if rule.id == "harmful"
]


class Stage:
    """A server that pays nothing beside a plain one, and somebody who wants to know."""

    def __init__(self, database: str, bad: Peer, plain: Peer, hook: Receiver) -> None:
        self.hook = hook
        kind = WebhookSettings(SecretStr(hook.url))
        self.plain = replace(target("plain", plain), role=Role.BASELINE)
        self.settings: DaemonSettings = replace(
            settings(database, target("bad", bad), self.plain),
            rules=tuple(HARMFUL),
            receivers=(ReceiverSettings("oncall", kind),),
            routing=Routing(("oncall",)),
        )
        self.without_bad = replace(self.settings, targets=(self.plain,), config_hash="two")

    def heard(self) -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in self.hook.requests]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        bad, plain = (stack.enter_context(Peer(server)) for server in (slow(), Busy()))
        hook = stack.enter_context(receiver(answers(status("200 OK"))))
        yield Stage(f"sqlite:///{tmp_path / 'monitor.db'}", bad, plain, hook)


def more_rounds(daemon: Running, name: str) -> None:
    seen = daemon.rounds(name)
    eventually(lambda: daemon.rounds(name) > seen + 5)


def test_a_loss_is_told_once_also_over_a_restart_of_the_monitor(stage: Stage) -> None:
    with running(stage.settings):
        eventually(lambda: bool(stage.heard()))
    with running(stage.settings) as again:
        more_rounds(again, "bad")
    (told,) = stage.heard()
    assert "speculation costs" in json.dumps(told)
    engine = open_store(stage.settings.database)
    (incident,) = Repository(engine).alerts.incidents(IncidentFilter.OPEN)
    engine.dispose()
    assert (incident.rule, incident.target, incident.service) == ("harmful", "bad", "chat")


def test_the_status_names_what_fires_alike_from_memory_and_from_the_database(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(stage.settings) as daemon:
        eventually(lambda: bool(stage.heard()))
        (service,) = daemon.daemon.status()["services"]
    capsys.readouterr()
    assert run(["status", "--json", "--database", stage.settings.database]) == 1
    (stored,) = json.loads(capsys.readouterr().out)["services"]
    assert stored["alerts"] == service["alerts"]
    assert [(a["rule"], a["target"], a["severity"]) for a in stored["alerts"]] == [
        ("harmful", "bad", "critical")
    ]
    assert run(["status", "--database", stage.settings.database]) == 1
    assert "alert harmful (critical) about bad" in capsys.readouterr().out


def test_the_metrics_tell_what_became_of_messages(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.daemon.writer.ERRAND_SECONDS", 0.0)
    with running(stage.settings) as daemon:
        eventually(lambda: bool(stage.heard()))
        eventually(lambda: daemon.daemon.health().receivers[0].sent == 1)
        eventually(lambda: daemon.daemon.health().receivers[0].waiting == 0)
        page = MetricsPage(daemon.daemon).render("")[0].decode()
    assert 'monitor_notifications_sent_total{receiver="oncall"} 1.0' in page
    assert 'monitor_notifications_dead_total{receiver="oncall"} 0.0' in page
    assert 'monitor_notifications_waiting{receiver="oncall"} 0.0' in page


def test_who_is_taken_out_of_the_configuration_is_told_to_be_watched_no_more(
    stage: Stage,
) -> None:
    with running(stage.settings, lambda: stage.without_bad) as daemon:
        eventually(lambda: len(stage.heard()) == 1)
        daemon.daemon.reload()
        eventually(lambda: len(stage.heard()) == 2)
    assert "no longer watched" in json.dumps(stage.heard()[1])


def test_who_was_taken_out_while_the_monitor_did_not_run_is_told_as_well(stage: Stage) -> None:
    with running(stage.settings):
        eventually(lambda: len(stage.heard()) == 1)
    with running(stage.without_bad):
        eventually(lambda: len(stage.heard()) == 2)
    assert "no longer watched" in json.dumps(stage.heard()[1])
    engine = open_store(stage.settings.database)
    assert Repository(engine).alerts.by_target() == {}
    engine.dispose()


def test_who_takes_over_tells_nothing_twice_but_the_end(stage: Stage) -> None:
    second = Running(stage.settings, lambda: stage.without_bad)
    with running(stage.settings) as leader:
        eventually(lambda: len(stage.heard()) == 1)
        second.begin()
        try:
            leader.stop()
            eventually(second.daemon.started.is_set)
            more_rounds(second, "bad")
            assert len(stage.heard()) == 1
            second.daemon.reload()
            eventually(lambda: len(stage.heard()) == 2)
        finally:
            second.stop()
    begin, end = stage.heard()
    assert (begin["state"], end["state"]) == ("firing", "resolved")
    assert begin["incident"] == end["incident"]


def test_after_a_reload_new_incidents_go_to_the_new_receiver(stage: Stage) -> None:
    with receiver(answers(status("200 OK"))) as other:
        kind = WebhookSettings(SecretStr(other.url))
        bad = stage.settings.targets[0]
        moved = replace(
            stage.settings,
            targets=(replace(bad, name="worse"), stage.plain),
            receivers=(ReceiverSettings("second", kind),),
            routing=Routing(("second",)),
        )
        with running(stage.settings, lambda: moved) as daemon:
            eventually(lambda: len(stage.heard()) == 1)
            daemon.daemon.reload()
            eventually(lambda: len(other.requests) == 1)
        assert len(stage.heard()) == 1
    assert "worse" in other.requests[0].body.decode()
