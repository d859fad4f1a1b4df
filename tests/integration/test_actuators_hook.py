"""Hooks over HTTP: signed orders, applied once, and peers that hang, lie or lead astray."""

from __future__ import annotations

import base64
import json
import socket
from typing import Any

import hostile_receivers as hostile
import pytest
from hook_server import hook
from hostile_receivers import Behave, Peer, answers, receiver, status
from pydantic import SecretStr

from monitor.alerting.signing import decode_key
from monitor.logs import REDACTOR
from monitor.model import ActuatorError
from monitor.rollback.actuators.base import Act
from monitor.rollback.actuators.hook import SCHEMA, HookAccess, HookActuator, HookStarter

KEY = "whsec_" + base64.b64encode(bytes(range(32))).decode()
ACT = Act("chat-7-2", fence=5, timeout=10.0)
SHORT = Act("chat-7-2", fence=5, timeout=0.4)
PATIENT = Act("chat-7-2", fence=5, timeout=5.0)


def actuator(url: str, **rest: Any) -> HookActuator:
    return HookActuator(HookAccess(SecretStr(url), **rest))


def says(share: str) -> str:
    return status("200 OK", "Content-Type: application/json", body=f'{{"share": {share}}}')


def failure(url: str, act: Act = ACT) -> ActuatorError:
    with pytest.raises(ActuatorError) as caught:
        actuator(url).shift(0.5, act)
    assert caught.value.stage == "shift"
    return caught.value


def test_orders_are_signed_and_seen_to_be_done() -> None:
    with hook(KEY) as peer:
        moving = actuator(peer.url, keys=(decode_key(KEY),))
        assert moving.observe(5.0).share == 0
        moving.shift(0.25, ACT)
        assert moving.observe(5.0).detail == "the hook says 25 %"
        moving.restore(Act("chat-7-3", fence=5, timeout=10.0))
        assert peer.share == 0
        about = {"schema": SCHEMA, "fence": 5}
        assert peer.orders == [
            {**about, "id": "chat-7-2", "action": "shift", "share": 0.25},
            {**about, "id": "chat-7-3", "action": "restore", "share": 0.0},
        ]


def test_an_order_without_the_key_is_refused_for_good() -> None:
    with hook(KEY) as peer:
        error = failure(peer.url)
        assert str(error) == "the hook: HTTP 401: {}"
        assert not error.safe_to_retry
        assert peer.orders == []


def test_an_order_that_comes_twice_is_applied_once() -> None:
    with hook() as peer:
        for _ in range(2):
            actuator(peer.url).shift(0.5, ACT)
        assert peer.applied == ["chat-7-2"]
        assert len(peer.orders) == 2


def test_who_lost_the_lease_is_refused() -> None:
    with hook() as peer:
        actuator(peer.url).shift(0.5, Act("new", fence=6, timeout=5.0))
        error = failure(peer.url)
        assert str(error) == 'the hook: HTTP 409: {"error": "fence 6 is in force"}'
        assert not error.safe_to_retry
        assert peer.share == 0.5


def test_servers_are_started_and_restarted() -> None:
    with hook() as peer:
        starter = HookStarter(HookAccess(SecretStr(peer.url)))
        starter.start(ACT)
        starter.restart(ACT)
        assert [order["action"] for order in peer.orders] == ["start", "restart"]
        assert "share" not in peer.orders[0]


@pytest.mark.parametrize("behave", [hostile.hang, hostile.drip], ids=["hang", "drip"])
def test_a_hook_cannot_hold_us_beyond_the_deadline(behave: Behave) -> None:
    with receiver(behave) as peer:
        error = failure(peer.url, SHORT)
    assert str(error).startswith("the hook: no answer within 0.")
    assert error.safe_to_retry


@pytest.mark.parametrize(
    ("behave", "words", "safe"),
    [
        (answers(status("500 Oops", "Content-Type: text/plain", body="x")), "HTTP 500: x", True),
        (answers(status("404 Not Found")), "HTTP 404", False),
        (hostile.flood, "the answer is larger than 4194304 bytes", True),
        (hostile.endless_body, "HTTP 500: yyy", True),
        (hostile.reset, "the connection failed: Connection reset by peer", True),
        (
            answers(status("307 Moved", "Location: http://169.254.169.254/")),
            "HTTP 307: a redirect, which is not followed",
            False,
        ),
    ],
    ids=["500", "404", "flood", "endless", "reset", "redirect"],
)
def test_bad_answers_are_failures(behave: Behave, words: str, safe: bool) -> None:
    with receiver(behave) as peer:
        error = failure(peer.url)
        assert len(peer.requests) == 1
    assert str(error).startswith(f"the hook: {words}")
    assert len(str(error)) < 310
    assert error.safe_to_retry is safe


def test_a_hook_that_only_says_so_is_not_believed() -> None:
    with receiver(answers(says("0.1"))) as peer:
        error = failure(peer.url, PATIENT)
        orders = [r for r in peer.requests if r.line.startswith("POST")]
    assert str(error) == (
        "the hook: took the order, but the share is 10 % instead of 50 % within 5 s"
    )
    assert len(orders) == 1


def test_a_hook_that_takes_its_time_is_waited_for() -> None:
    with receiver(answers(status("202 Accepted"), says("0"), says("0.2"), says("0.5"))) as peer:
        actuator(peer.url).shift(0.5, ACT)
        assert [r.line[:4] for r in peer.requests] == ["POST", "GET ", "GET ", "GET "]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"share": 1.5}', "the share it gives is not between 0 and 1"),
        ('{"share": NaN}', "the share it gives is not between 0 and 1"),
        ('{"share": "0.5"}', "the share it gives is not a number"),
        ('{"share": true}', "the share it gives is not a number"),
        ("{}", 'the answer is no JSON object with "share"'),
        ("null", 'the answer is no JSON object with "share"'),
        ("<html>", "the answer is not JSON"),
        ("[" * 200_000, "the answer is not JSON"),
    ],
)
def test_shares_that_are_none_are_not_believed(body: str, words: str) -> None:
    with (
        receiver(answers(status("200 OK", body=body))) as peer,
        pytest.raises(ActuatorError) as caught,
    ):
        actuator(peer.url).observe(5.0)
    assert str(caught.value) == f"the hook: {words}"
    assert caught.value.stage == "observe"


def test_a_huge_share_page_is_cut_off() -> None:
    def huge(sock: socket.socket, peer: Peer) -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while not peer.done.is_set():
            sock.sendall(b" " * 65_536)

    with receiver(huge) as peer, pytest.raises(ActuatorError, match="larger than"):
        actuator(peer.url).observe(20.0)


def test_a_hook_that_cannot_tell_is_left_to_those_who_look_at_traffic() -> None:
    with hook() as peer:
        moving = actuator(peer.url)
        peer.share = None
        assert moving.observe(5.0).share is None
        moving.shift(0.5, ACT)


def test_secrets_of_the_hook_are_blotted_out_of_what_it_says() -> None:
    REDACTOR.learn(["canary-of-the-hook"])
    refusal = status("400 No", "Content-Type: text/plain", body="token canary-of-the-hook")
    with receiver(answers(refusal)) as peer:
        error = failure(peer.url)
    assert str(error) == "the hook: HTTP 400: token ***"


def test_metadata_addresses_are_never_connected_to() -> None:
    error = failure("http://169.254.169.254/latest")
    assert "link-local or metadata address" in str(error)
    assert not error.safe_to_retry


def test_documents_are_plain_json() -> None:
    with receiver(answers(status("204 No Content"), says("0.5"))) as peer:
        actuator(peer.url, bearer=SecretStr("abc-def")).shift(0.5, ACT)
        first = peer.requests[0]
    assert first.headers["content-type"] == "application/json"
    assert first.headers["authorization"] == "Bearer abc-def"
    assert first.headers["webhook-id"] == json.loads(first.body)["id"]
