"""The demo plays the recorded incident to the real daemon and sees what must be seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
from pydantic import SecretStr

from monitor.demo.http import Asked, Said, Server
from monitor.demo.play import EXPECTED, RATE, Demo, Line
from monitor.demo.router import SHARE_PATH, Router
from monitor.demo.stage import LIVE_FROM, life
from monitor.demo.tape import load_story
from monitor.engines.reader import PageReader
from monitor.model import ActuatorError, Verdict
from monitor.rollback.actuators.base import Act
from monitor.rollback.actuators.hook import HookAccess, HookActuator


def test_the_incident_is_seen_for_what_it_is_and_traffic_moved(tmp_path: Path) -> None:
    # At full speed an interval is a quarter of a second. A machine that is too busy to look
    # that often sees gaps, as it should, and is given the same story at a slower pace.
    for rate in (RATE, RATE / 5.0):
        told: list[Line] = []
        demo = Demo(f"sqlite:///{tmp_path / f'{rate:g}.db'}", told.append, rate=rate)
        with demo.playing() as address:
            assert address.startswith("http://127.0.0.1:")
            if passed := demo.tell_until_end():
                break
    assert passed, [line.text for line in told]
    verdicts = [line.verdict for line in told if line.target == "code-spec"]
    healthy, harmful = verdicts.index(Verdict.HEALTHY), verdicts.index(Verdict.HARMFUL)
    assert healthy < harmful
    assert Verdict.HARMFUL not in verdicts[:healthy]
    sentence = next(line.text for line in told if line.verdict is Verdict.HARMFUL)
    assert sentence.startswith("speculation costs ")
    messages = [line.message for line in told if line.target == "code" and line.message]
    assert messages[0] == "FIRING"
    assert messages.count("ROLLBACK") == 2
    texts = [line.text for line in told if line.target is None]
    assert "code: the router gives 100 % of the requests to plain" in texts
    assert texts[-1].startswith("code: clients wait ")
    assert texts[-1].endswith(" requests 0 failed")


def test_it_leaves_nothing_behind_when_it_is_terminated(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from monitor.cli import main; main()", "demo"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as demo:
        assert demo.stdout is not None
        assert any("database" in line for line in demo.stdout)
        assert list(tmp_path.glob("monitor-demo-*"))
        demo.terminate()
        demo.communicate()
    assert demo.returncode == 130
    assert not list(tmp_path.glob("monitor-demo-*"))


def test_the_tape_is_whole_and_small() -> None:
    story = load_story()
    assert set(story.tapes) == set(EXPECTED)
    for tape in story.tapes.values():
        assert list(tape.offsets) == sorted(tape.offsets)
        assert tape.offsets[0] == 0.0
        assert tape.page(1e9) is tape.pages[-1]
    packed = Path(load_story.__code__.co_filename).with_name("pages.tar.xz")
    assert packed.stat().st_size < 100_000


def test_a_page_that_goes_on_keeps_what_can_be_read_off_it() -> None:
    going_on = life(load_story(), "code-spec")
    assert going_on is not None
    assert 0.014 < going_on.growth.seconds_per_token < 0.017
    reader = PageReader()
    before, after = (
        reader.read(going_on.growth.page(tokens, running), at).readings[0]
        for at, tokens, running in ((0.0, 0, 0), (60.0, 5000, 4))
    )
    grown = {name: after.counters[name] - before.counters[name] for name in after.counters}
    assert grown["output_tokens"] == pytest.approx(5000)
    assert grown["accepted_tokens"] / grown["draft_tokens"] == pytest.approx(0.016, abs=0.01)
    assert grown["decode_seconds"] / 5000 == pytest.approx(going_on.growth.seconds_per_token)
    assert after.running == 4


def test_what_only_plays_its_tape_has_no_life_of_its_own() -> None:
    story = load_story()
    assert life(story, "chat-spec") is None
    assert story.tapes["code-spec"].page(LIVE_FROM) is not None


KEY = bytes(range(32))


@contextmanager
def router() -> Iterator[str]:
    """A router between two servers that say their names."""

    def named(name: str) -> Server:
        def answer(_: Asked) -> Said:
            return Said(200, name.encode())

        return Server(answer)

    spec, plain = named("spec"), named("plain")
    parts = (spec, plain, Router(spec.url, plain.url, KEY).server)
    for part in parts:
        part.start()
    try:
        yield parts[-1].url
    finally:
        for part in parts:
            part.close()


def hook(url: str, key: bytes = KEY) -> HookActuator:
    return HookActuator(HookAccess(SecretStr(url + SHARE_PATH), keys=(key,)))


def ask(url: str, count: int) -> list[str]:
    return [
        requests.post(f"{url}/v1/completions", data=json.dumps({}), timeout=5).text
        for _ in range(count)
    ]


def test_the_router_splits_as_it_is_told() -> None:
    with router() as url:
        assert set(ask(url, 4)) == {"spec"}
        hook(url).shift(0.25, Act("a", 3, 5.0))
        assert ask(url, 8).count("plain") == 2
        hook(url).shift(1.0, Act("b", 3, 5.0))
        assert set(ask(url, 4)) == {"plain"}


def test_the_router_obeys_nobody_else() -> None:
    with router() as url:
        hook(url).shift(0.5, Act("a", 3, 5.0))
        with pytest.raises(ActuatorError, match="HTTP 401"):
            hook(url, bytes(32)).shift(1.0, Act("b", 3, 5.0))
        with pytest.raises(ActuatorError, match=r"HTTP 409: .*the lease 3 is in force"):
            hook(url).shift(1.0, Act("c", 2, 5.0))
        assert hook(url).observe(5.0).share == 0.5
