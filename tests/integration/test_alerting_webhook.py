"""Webhooks: signed, understood by others, and never held up or led astray by a receiver."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import hostile_receivers as hostile
import pytest
from alert_rows import CANARY, NOON, notification, resolved
from hostile_receivers import answers, receiver, status
from jsonschema import Draft202012Validator
from pydantic import SecretStr
from standardwebhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from monitor.alerting.notifiers.base import Message
from monitor.alerting.notifiers.webhook import Webhook
from monitor.alerting.payload import MAX_BYTES, alertmanager_webhook, message_id, payload
from monitor.alerting.receivers import ReceiverSettings, WebhookFormat, WebhookSettings
from monitor.model import DeliveryError
from monitor.resources import data_dir

OLD, NEW = ("whsec_" + base64.b64encode(bytes(range(n, n + 32))).decode() for n in (1, 100))
SCHEMA = data_dir("alerts") / "schema" / "notification-v1.json"


def webhook(url: str, *, timeout: float = 10.0, **rest: Any) -> Webhook:
    kind = WebhookSettings(SecretStr(url), **rest)
    return Webhook(ReceiverSettings("pager", kind, timeout=timeout), kind)


def send(url: str, *, now: float = NOON, **rest: Any) -> str:
    notifier = webhook(url, **rest)
    try:
        return notifier.send(Message(notification()), now)
    finally:
        notifier.close()


def refused(url: str, **rest: Any) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        send(url, **rest)
    return caught.value


@pytest.mark.parametrize("line", ["200 OK", "201 Created", "202 Accepted", "204 No Content"])
def test_every_kind_of_success_is_success(line: str) -> None:
    with receiver(answers(status(line))) as peer:
        assert send(peer.url) == f"HTTP {line[:3]}"
        (request,) = peer.requests
    assert request.line == "POST /hook HTTP/1.1"
    assert json.loads(request.body)["id"] == request.headers["webhook-id"] == "inc1-1"


def test_standard_webhooks_verifies_old_and_new_key() -> None:
    with receiver(answers(status("200 OK"))) as peer:
        send(peer.url, now=time.time(), keys=(SecretStr(NEW), SecretStr(OLD)))
        (request,) = peer.requests
    for key in (OLD, NEW):
        assert Verifier(key).verify(request.body, request.headers)["schema"]
    with pytest.raises(WebhookVerificationError):
        Verifier(OLD).verify(request.body + b" ", request.headers)
    with pytest.raises(WebhookVerificationError):
        Verifier(base64.b64encode(b"z" * 32).decode()).verify(request.body, request.headers)


@pytest.mark.parametrize(
    ("line", "permanent"),
    [
        ("400 Bad Request", True),
        ("401 Unauthorized", True),
        ("404 Not Found", True),
        ("410 Gone", True),
        ("408 Request Timeout", False),
        ("425 Too Early", False),
        ("429 Too Many Requests", False),
        ("500 Oops", False),
        ("503 Unavailable", False),
        ("302 Found", True),
        ("307 Temporary Redirect", True),
    ],
)
def test_failures_are_sorted_into_those_that_pass_and_those_that_stay(
    line: str, permanent: bool
) -> None:
    with receiver(answers(status(line, "Location: http://169.254.169.254/"))) as peer:
        error = refused(peer.url)
        assert len(peer.requests) == 1
    assert error.permanent is permanent
    assert str(error).startswith(f"HTTP {line[:3]}")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120.0),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(header: str, seconds: float | None) -> None:
    with receiver(answers(status("429 Slow down", f"Retry-After: {header}"))) as peer:
        assert refused(peer.url).retry_after == seconds


@pytest.mark.parametrize("behave", [hostile.hang, hostile.drip], ids=["hang", "drip"])
def test_a_receiver_cannot_hold_us_beyond_the_deadline(behave: hostile.Behave) -> None:
    with receiver(behave) as peer:
        error = refused(peer.url, timeout=0.3)
    assert (str(error), error.permanent) == ("no answer within 0.3 s", False)


@pytest.mark.parametrize(
    ("behave", "words"),
    [
        (hostile.flood, "the answer is larger than"),
        (hostile.endless_body, "HTTP 500: yyy"),
        (hostile.reset, "the connection failed: Connection reset by peer"),
        (answers("nonsense\n\n"), "the connection failed"),
        (answers(status("500 No", "Content-Type: text/html", body="<html>")), "HTTP 500"),
    ],
    ids=["flood", "endless", "reset", "nonsense", "html"],
)
def test_bad_answers_are_failures_that_may_pass(behave: hostile.Behave, words: str) -> None:
    with receiver(behave) as peer:
        error = refused(peer.url)
    assert str(error).startswith(words)
    assert len(str(error)) < 200
    assert not error.permanent


def test_nobody_listening_is_a_failure_that_may_pass() -> None:
    with receiver(answers("")) as peer:
        url = peer.url
    error = refused(url)
    assert (str(error), error.permanent) == ("the connection failed: Connection refused", False)


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1]"])
def test_metadata_addresses_are_never_connected_to(host: str) -> None:
    error = refused(f"http://{host}/latest?token={CANARY}")
    assert error.permanent
    assert "never connected to" in str(error)


@pytest.mark.parametrize("behave", [hostile.reset, hostile.hang, answers(status("404 No"))])
def test_errors_never_show_the_url(behave: hostile.Behave) -> None:
    with receiver(behave) as peer:
        url = peer.url.replace("http://", f"http://user:{CANARY}@") + f"/{CANARY}?x={CANARY}"
        error = refused(url, timeout=0.3)
    assert CANARY not in str(error)
    assert error.__cause__ is None


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with receiver(answers(status("200 OK"))) as peer:
        assert send(peer.url) == "HTTP 200"


@pytest.mark.parametrize("made", [notification(), resolved(), notification(cause=None)])
def test_the_payload_is_what_the_published_schema_says(made: Any) -> None:
    schema = json.loads(Path(SCHEMA).read_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    validator.validate(payload(made))
    with pytest.raises(Exception, match="was unexpected"):
        validator.validate({**payload(made), "more": 1})


def test_text_of_others_stays_text() -> None:
    nasty = "a\r\nX-Evil: 1\x1b[31m\u202eb{{7*7}}${7*7}" + "x" * 5000
    made = notification(nasty, title=nasty, sentence=nasty, labels={nasty: nasty})
    document = payload(made)
    for text in (document["title"], document["sentence"], *document["labels"]):
        assert text.isprintable()
        assert len(text) <= 2000
        assert "{{7*7}}" in text
    assert message_id(made).isascii()
    assert "." not in message_id(made)
    assert alertmanager_webhook(made, "x")["alerts"][0]["labels"]["alertname"] == "harmful"


def test_a_huge_assessment_is_left_out() -> None:
    made = notification(assessment={"notes": ["n" * 1000] * 500})
    with receiver(answers(status("200 OK"))) as peer:
        notifier = webhook(peer.url)
        notifier.send(Message(made), NOON)
        notifier.close()
        (request,) = peer.requests
    assert len(request.body) < MAX_BYTES
    assert json.loads(request.body)["assessment"] == {}


def test_the_format_of_alertmanager_has_all_its_keys() -> None:
    with receiver(answers(status("200 OK"))) as peer:
        send(peer.url, format=WebhookFormat.ALERTMANAGER)
        (request,) = peer.requests
    document = json.loads(request.body)
    assert document["version"] == "4"
    assert {
        "groupKey",
        "truncatedAlerts",
        "receiver",
        "status",
        "groupLabels",
        "commonLabels",
        "commonAnnotations",
        "externalURL",
    } < set(document)
    (alert,) = document["alerts"]
    assert alert["status"] == "firing"
    assert alert["labels"]["alertname"] == "harmful"
    assert alert["endsAt"] == "0001-01-01T00:00:00Z"
