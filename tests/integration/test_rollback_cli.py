"""``monitor rollback`` against a real daemon, and without one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from daemon_stage import Running, eventually, running
from openai_server import Handler
from rollback_world import POLICY, World, clock, world

from monitor.cli.runner import run
from monitor.rollback.model import Phase
from monitor.rollback.settings import Mode
from monitor.store import schema

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def place() -> Iterator[World]:
    with world() as made:
        yield made


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path / 'monitor.db'}"
    monkeypatch.setenv("MONITOR_DATABASE", url)
    monkeypatch.setenv("COLUMNS", "200")
    # The clock of the story runs faster than that of the command line, and elsewhere.
    monkeypatch.setattr("monitor.cli.rollback_orders.whoami", lambda: "ann@desk")
    return url


def call(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = run(["rollback", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: Capture, *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = call(capsys, *arguments, "--json")
    # The daemon of the test logs to the same output.
    return code, json.JSONDecoder().raw_decode(out[out.index("{\n") :])[0]


def reaches(stage: Running, wanted: Phase) -> None:
    eventually(lambda: stage.daemon.health().rollbacks[0].phase == wanted)


def test_a_proposal_is_approved_and_done_and_its_story_told(
    place: World, database: str, capsys: Capture
) -> None:
    policy = replace(
        POLICY,
        mode=Mode.PROPOSE,
        # Orders are stamped by the real clock here, which is not that of the story.
        limits=replace(POLICY.limits, approval=1e9),
    )
    with running(place.settings(database, policy), clock=clock(time.time())) as stage:
        reaches(stage, Phase.PROPOSED)
        code, listed = document(capsys, "list")
        (service,) = listed["services"]
        assert (code, service["state"], service["mode"]) == (0, "proposed", "propose")
        code, _, err = call(capsys, "approve", "chta")
        assert (code, "did you mean 'chat'?" in err) == (2, True)
        run(["status", "--json"])
        status = capsys.readouterr().out
        shown = json.JSONDecoder().raw_decode(status[status.index("{\n") :])[0]
        assert shown["services"][0]["rollback"]["state"] == "proposed"
        code, out, _ = call(capsys, "approve", "chat")
        assert (code, "was approved by ann@desk" in out) == (0, True)
        reaches(stage, Phase.DONE)
        code, _, err = call(capsys, "approve", "chat")
        assert (code, "nothing is proposed for chat: its rollback is done" in err) == (2, True)
        code, answer = document(capsys, "rearm", service["plan"])
        assert (code, answer["taken"], answer["answer"]["kind"]) == (1, True, "refused")
        place.step = 0.02
        code, answer = document(capsys, "rearm", "chat", "--force")
        assert (code, answer["answer"]["who"]) == (0, "ann@desk")
        reaches(stage, Phase.ARMED)
    assert place.hook.share == 0.0
    code, story = document(capsys, "show", service["plan"])
    kinds = [decision["kind"] for decision in story["decisions"]]
    assert [kind for kind in kinds if kind != "step"][:3] == ["proposed", "approved", "done"]
    assert kinds[-1] == "restored"
    assert story["decisions"][0]["evidence"]["config"] == "one"
    code, out, _ = call(capsys, "show", "chat", "--verbose")
    assert code == 0
    for part in (
        "a loss",
        "approved by ann@desk",
        "spec_decode_num_drafts_total",
        "was compared with plain",
        f"{service['plan']}-1  shift 50 %  done",
    ):
        assert part in out, part
    code, out, _ = call(capsys, "list")
    assert (code, "chat  propose  idle" in out, service["plan"] in out) == (0, True, True)


def test_an_abort_puts_traffic_back_and_is_harmless_where_there_is_nothing(
    place: World, database: str, capsys: Capture
) -> None:
    policy = replace(
        POLICY,
        shift=replace(POLICY.shift, hold=3600.0),
        # Orders are stamped by the real clock here, which is not that of the story.
        limits=replace(POLICY.limits, approval=1e9),
    )
    with running(place.settings(database, policy), clock=clock(time.time())) as stage:
        eventually(lambda: place.hook.share == 0.5)
        code, out, _ = call(capsys, "abort", "chat")
        assert (code, "ann@desk" in out) == (0, True)
        reaches(stage, Phase.ABORTED)
        eventually(lambda: place.hook.share == 0.0)
        code, answer = document(capsys, "abort", "chat")
        assert answer["taken"]
        code, answer = document(capsys, "rearm", "chat")
        assert (code, answer["answer"]["kind"]) == (0, "rearmed")
    assert place.hook.share == 0.0


def test_an_order_without_a_daemon_is_stored_and_said_to_wait(
    place: World, database: str, capsys: Capture
) -> None:
    with running(place.settings(database, replace(POLICY, mode=Mode.OBSERVE))):
        pass
    code, _, err = call(capsys, "run", "chat", "--wait", "0.1")
    assert (code, "no daemon has answered it yet" in err) == (3, True)
    code, _, err = call(capsys, "rearm")
    assert (code, "name a service, or write --all" in err) == (2, True)
    code, answer = document(capsys, "rearm", "--all", "--wait", "0")
    assert (code, answer["service"], answer["taken"]) == (0, "*", False)


def broken(handler: Handler) -> bool:
    handler.reply(500, b"{}")
    return True


def configured(tmp_path: Path, place: World, rollback: dict[str, Any]) -> str:
    path = tmp_path / "monitor.yaml"
    service = {
        "name": "chat",
        "speculative": {"targets": [{"url": place.spec.server.url, "name": "spec"}]},
        "baseline": {"targets": [{"url": place.plain.server.url, "name": "plain"}]},
        "rollback": rollback,
    }
    path.write_text(yaml.safe_dump({"services": [service]}))
    return str(path)


def test_a_plan_says_each_step_and_what_is_in_the_way(
    place: World, database: str, tmp_path: Path, capsys: Capture
) -> None:
    with running(place.settings(database, replace(POLICY, mode=Mode.OBSERVE))):
        pass
    actuator = {"http": {"url": place.hook.url}}
    path = configured(tmp_path, place, {"mode": "act", "actuator": actuator})
    code, plan = document(capsys, "plan", "chat", "-c", path)
    assert code == 1
    assert [step for step in plan["steps"] if "post an order" in step] == [
        f"would post an order to the hook: {percent} to the baseline, and watch both sides "
        "for 120 s"
        for percent in ("10 %", "25 %", "50 %", "100 %")
    ]
    assert plan["looks"][0] == "traffic now: the hook says 0 %"
    assert plan["looks"][1].startswith("plain answered with 8 tokens")
    assert plan["obstacles"] == [
        "no daemon leads on this database: 'monitor run' does what is planned",
        "no alert with a vote for a rollback fires for it now",
    ]
    assert not place.hook.orders
    place.plain.server.misbehave = broken
    code, out, _ = call(capsys, "plan", "chat", "-c", path)
    assert (code, "plain does not answer: HTTP 500" in out) == (1, True)
    code, out, _ = call(capsys, "plan", "chat", "-c", path, "--offline")
    assert (code, "Seen now" in out) == (1, False)
    code, _, err = call(capsys, "plan", "chatt", "-c", path)
    assert (code, "is not a configured service; did you mean 'chat'?" in err) == (2, True)


def test_a_database_without_rollbacks_is_no_trouble(database: str, capsys: Capture) -> None:
    schema.upgrade(database)
    code, out, _ = call(capsys, "list")
    assert (code, "nothing is watched yet" in out) == (0, True)
    code, _, err = call(capsys, "show", "chat")
    assert (code, "there is no rollback 'chat'" in err) == (2, True)
