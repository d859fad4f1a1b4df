"""Real routers: workers are swapped under live load, and no request fails."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from hostile_receivers import answers, receiver, status
from live_load import load, wait_until
from plain_workers import Worker, workers
from pydantic import SecretStr

from monitor.model import ActuatorError
from monitor.rollback.actuators.base import Act
from monitor.rollback.actuators.routers import Dialect, RouterActuator, SglangRouter, VllmRouter

# One process for all, as they share what was started.
pytestmark = pytest.mark.xdist_group("routers")
ACT = Act("chat-1-1", fence=1, timeout=30.0)
KEY = "a-key-of-the-router"
PROGRAMS: dict[str, tuple[Callable[[], Dialect], list[str]]] = {
    "sglang": (SglangRouter, ["sglang-router", "launch", "--log-level", "error"]),
    "vllm": (VllmRouter, ["vllm-router", "--log-level", "error"]),
}
_TRIES = 5


@dataclass
class Router:
    """A router with two speculative workers, and two baseline ones that it does not know."""

    port: int
    dialect: Dialect
    workers: list[Worker]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        urls = [worker.url for worker in self.workers]
        return urls[:2], urls[2:]

    def actuator(self, **rest: Any) -> RouterActuator:
        sides = rest.pop("sides", self.sides)
        return RouterActuator(
            self.dialect, self.url, *sides, bearer=rest.pop("bearer", SecretStr(KEY)), **rest
        )

    def listed(self) -> list[str]:
        """The names of the workers that the router has."""
        answer = requests.get(
            f"{self.url}/workers", headers={"Authorization": f"Bearer {KEY}"}, timeout=5
        )
        urls = [worker["url"] for worker in answer.json()["workers"]]
        return sorted(worker.name for worker in self.workers if worker.url in urls)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def launch(program: list[str], urls: list[str], log: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A router on a port that was free a moment ago."""
    port = free_port()
    name, *arguments = program
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(str(Path(sys.executable).parent / name), *arguments),
                *("--host", "127.0.0.1", "--port", str(port)),
                *("--prometheus-port", str(free_port()), "--policy", "round_robin"),
                *("--health-check-interval-secs", "1", "--health-failure-threshold", "1"),
                *("--api-key", KEY, "--worker-urls", *urls),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return process, port


@contextmanager
def router(kind: str, log: Path) -> Iterator[Router]:
    make, program = PROGRAMS[kind]
    with workers("spec1", "spec2", "base1", "base2") as servers:
        for _ in range(_TRIES):
            process, port = launch(program, [w.url for w in servers[:2]], log)
            running = Router(port, make(), servers)
            if comes_up(process, running):
                break
        else:
            raise AssertionError(log.read_text(errors="replace")[-2000:])
        try:
            yield running
        finally:
            process.terminate()
            process.wait(20)


def comes_up(process: subprocess.Popen[bytes], router: Router) -> bool:
    """Whether the router serves; not if somebody took its port in the meantime."""
    wait_until(lambda: process.poll() is not None or is_up(router), "a router")
    return process.poll() is None


def is_up(router: Router) -> bool:
    try:
        return router.listed() == ["spec1", "spec2"]
    except (requests.RequestException, ValueError, KeyError):
        return False


@pytest.fixture(scope="module", params=list(PROGRAMS))
def fresh(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Router]:
    log = tmp_path_factory.mktemp("router") / "log"
    with router(request.param, log) as running:
        yield running


@pytest.fixture
def live(fresh: Router) -> Iterator[Router]:
    """The router, whose workers are as they were once the test is over."""
    yield fresh
    fresh.actuator().restore(ACT)
    assert fresh.listed() == ["spec1", "spec2"]


def test_workers_are_swapped_under_load_and_no_request_fails(live: Router) -> None:
    actuator = live.actuator()
    assert actuator.observe(5.0).share == 0
    steps = actuator.reachable([0.1, 0.5, 1.0])
    assert steps == pytest.approx((1 / 3, 0.5, 1.0))
    with load(live.port, key=KEY) as clients:
        assert set(clients.next(30)) == {"spec1", "spec2"}
        for share in steps:
            actuator.shift(share, ACT)
            assert actuator.observe(5.0).share == pytest.approx(share)
            clients.settle()
            served = clients.next(120)
            moved = (served["base1"] + served["base2"]) / 120
            assert moved == pytest.approx(share, abs=0.1)
        assert set(served) == {"base1", "base2"}
        actuator.restore(ACT)
        clients.settle()
        assert set(clients.next(30)) == {"spec1", "spec2"}


def test_a_repeated_order_changes_nothing(live: Router) -> None:
    actuator = live.actuator()
    for _ in range(2):
        actuator.shift(2 / 3, ACT)
        assert live.listed() == ["base1", "base2", "spec1"]
        assert actuator.observe(5.0).share == pytest.approx(2 / 3)


def test_a_dead_worker_takes_no_traffic_from_the_living(live: Router) -> None:
    spec, (base1, _) = live.sides
    actuator = live.actuator(sides=(spec, ["http://127.0.0.1:9", base1]))
    with pytest.raises(ActuatorError) as caught:
        actuator.shift(1.0, Act("dead", 1, timeout=2.0))
    assert caught.value.safe_to_retry
    assert {"spec1", "spec2"} <= set(live.listed())


def test_a_sick_speculative_worker_is_no_reason_to_stay(live: Router) -> None:
    sick = live.workers[1]
    actuator = live.actuator()
    sick.healthy = False
    try:
        wait_until(lambda: "not healthy" in actuator.observe(5.0).detail, "a sick worker")
        actuator.shift(1 / 3, ACT)
        assert actuator.observe(5.0).share == pytest.approx(1 / 3)
        actuator.shift(1.0, ACT)
        assert actuator.observe(5.0).share == 1
        assert live.listed() == ["base1", "base2"]
        with pytest.raises(ActuatorError) as caught:
            actuator.restore(Act("back", 1, timeout=6.0))
        assert str(caught.value).endswith(f"traffic is back, but {sick.url} could not be added")
        assert caught.value.safe_to_retry
        assert live.listed() == ["spec1"]
    finally:
        sick.healthy = True


def test_workers_of_neither_side_are_told(live: Router) -> None:
    (spec1, _), (base1, _) = live.sides
    traffic = live.actuator(sides=([spec1], [base1])).observe(5.0)
    assert traffic.share == 0
    assert traffic.detail == (
        "0 baseline and 1 speculative workers, beside 1 that belong to neither side"
    )


def test_dry_run_says_what_would_be_left(live: Router) -> None:
    assert live.actuator().would(0.4) == (
        f"would leave 1 baseline and 2 speculative workers in {live.dialect.name}: "
        "33.3 % to the baseline"
    )


def test_a_wrong_key_is_told_and_not_tried_again(tmp_path: Path) -> None:
    with router("sglang", tmp_path / "log") as running, pytest.raises(ActuatorError) as caught:
        running.actuator(bearer=SecretStr("another")).shift(1.0, ACT)
    assert str(caught.value).startswith("sglang-router: HTTP 401")
    assert not caught.value.safe_to_retry


LISTED = '{"workers": [{"url": "http://a:1", "is_healthy": true}]}'


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("[]", "the answer is no list of workers"),
        ('{"workers": [{"no": "url"}]}', "the answer is no list of workers"),
        ("<html>", "the answer is not JSON"),
        ("[" * 100_000, "the answer is not JSON"),
    ],
)
def test_what_is_no_router_is_told(body: str, words: str) -> None:
    with receiver(answers(status("200 OK", body=body))) as peer:
        actuator = RouterActuator(VllmRouter(), peer.url, ["http://a:1"], ["http://b:1"])
        with pytest.raises(ActuatorError, match=words):
            actuator.observe(5.0)


def test_an_order_that_is_answered_and_not_done_is_a_failure() -> None:
    with receiver(answers(status("200 OK", body=LISTED))) as peer:
        actuator = RouterActuator(VllmRouter(), peer.url, ["http://a:1"], ["http://b:1"])
        with pytest.raises(ActuatorError) as caught:
            actuator.shift(1.0, Act("lie", 1, timeout=0.5))
        orders = [r.line for r in peer.requests if not r.line.startswith("GET")]
    assert "http://b:1 was added, but is not listed within 0.5 s" in str(caught.value)
    # With no baseline worker in sight, the speculative one is not removed.
    assert orders == ["POST /hook/workers HTTP/1.1"]
