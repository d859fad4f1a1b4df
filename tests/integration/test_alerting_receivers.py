"""Receivers of other kinds: a real Alertmanager, Apprise, and commands."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from alert_rows import CANARY, NOON, notification, resolved
from daemon_stage import eventually
from hostile_receivers import answers, drip, receiver, status
from pydantic import SecretStr

from monitor.alerting.model import Reason, Severity
from monitor.alerting.notifiers.alertmanager import Alertmanager
from monitor.alerting.notifiers.base import Message
from monitor.alerting.notifiers.make import make_notifier
from monitor.alerting.receivers import (
    AlertmanagerSettings,
    AppriseSettings,
    CommandSettings,
    Kind,
    ReceiverSettings,
)
from monitor.model import DeliveryError

ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
ALERTMANAGER_CONFIG = "route: {receiver: none}\nreceivers: [{name: none}]\n"


def send(kind: Kind, made: Any = None, *, test: bool = False, timeout: float = 10.0) -> str:
    notifier = make_notifier(ReceiverSettings("x", kind, timeout=timeout))
    try:
        return notifier.send(Message(made or notification(), test=test), NOON)
    finally:
        notifier.close()


def refused(kind: Kind, **rest: Any) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        send(kind, **rest)
    assert CANARY not in str(caught.value)
    return caught.value


@pytest.fixture
def alertmanager_url(tmp_path: Path) -> Iterator[str]:
    """A real Alertmanager."""
    assert ALERTMANAGER is not None
    (tmp_path / "config.yml").write_text(ALERTMANAGER_CONFIG)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(
        [
            ALERTMANAGER,
            f"--config.file={tmp_path / 'config.yml'}",
            f"--storage.path={tmp_path}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
            "--log.level=error",
        ],
        stderr=subprocess.DEVNULL,
    ) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until_ready(process, f"{url}/-/ready")
            yield url
        finally:
            process.kill()


def wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    # Its start cannot be waited for in another way than by asking.
    while process.poll() is None:
        try:
            if requests.get(url, timeout=5).ok:
                return
        except requests.ConnectionError:
            continue
    pytest.fail("the Alertmanager ended at once")


def alerts_of(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = requests.get(f"{url}/api/v2/alerts", timeout=10).json()
    return found


@pytest.mark.skipif(
    ALERTMANAGER is None,
    reason="NO REAL ALERTMANAGER: install Debian's prometheus-alertmanager to run this test",
)
def test_a_real_alertmanager_is_told_begin_change_and_end(alertmanager_url: str) -> None:
    kind = AlertmanagerSettings(SecretStr(alertmanager_url))
    client = Alertmanager(ReceiverSettings("am", kind), kind)
    now = time.time()

    def tell(made: Any) -> None:
        assert client.send(Message(made), now) == "HTTP 200"

    begin: dict[str, Any] = {"at": now, "started_at": now - 600}
    tell(notification(labels={"zone": "z1", "bad-name": "x"}, **begin))
    (alert,) = alerts_of(alertmanager_url)
    assert alert["labels"] == {
        "alertname": "harmful",
        "severity": "critical",
        "service": "chat",
        "target": "a",
        "job": "specdec-monitor",
        "zone": "z1",
        "bad_name": "x",
    }
    assert alert["annotations"]["description"] == "speculation costs 34 % of decode speed"
    first_end = alert["endsAt"]

    now += 60.0
    client.keep_alive([notification(labels={"zone": "z1", "bad-name": "x"}, **begin)], now)
    (alert,) = alerts_of(alertmanager_url)
    assert alert["endsAt"] > first_end

    now = time.time()
    labels: dict[str, Any] = {"labels": {"zone": "z1", "bad-name": "x"}}
    tell(notification(severity=Severity.WARNING, reason=Reason.SEVERITY, **begin, **labels))
    (alert,) = alerts_of(alertmanager_url)
    assert alert["labels"]["severity"] == "warning"

    over: dict[str, Any] = {**begin, **labels, "ended_at": now}
    tell(resolved(severity=Severity.WARNING, **over))
    assert alerts_of(alertmanager_url) == []
    client.close()


@pytest.mark.skipif(
    ALERTMANAGER is None,
    reason="NO REAL ALERTMANAGER: install Debian's prometheus-alertmanager to run this test",
)
def test_a_real_alertmanager_groups_and_silences_our_alerts(alertmanager_url: str) -> None:
    kind = AlertmanagerSettings(SecretStr(alertmanager_url))
    client = Alertmanager(ReceiverSettings("am", kind), kind)
    now = time.time()
    for target in ("a", "b"):
        made = notification(f"inc-{target}", target=target, at=now, started_at=now - 600)
        assert client.send(Message(made), now) == "HTTP 200"
    client.close()

    def grouped() -> list[list[str]]:
        found = requests.get(f"{alertmanager_url}/api/v2/alerts/groups", timeout=10).json()
        return [sorted(a["labels"]["target"] for a in group["alerts"]) for group in found]

    # It takes alerts first, and groups them a moment later.
    eventually(lambda: grouped() == [["a", "b"]])
    silence = {
        "matchers": [{"name": "target", "value": "a", "isRegex": False, "isEqual": True}],
        "startsAt": datetime.fromtimestamp(now - 60.0, UTC).isoformat(),
        "endsAt": datetime.fromtimestamp(now + 3600.0, UTC).isoformat(),
        "createdBy": "ann",
        "comment": "maintenance",
    }
    answer = requests.post(f"{alertmanager_url}/api/v2/silences", json=silence, timeout=10)
    assert answer.ok, answer.text
    loud = requests.get(f"{alertmanager_url}/api/v2/alerts?silenced=false", timeout=10).json()
    assert [alert["labels"]["target"] for alert in loud] == ["b"]


def test_an_alertmanager_that_fails_is_tried_again() -> None:
    with receiver(answers(status("500 No"))) as peer:
        error = refused(AlertmanagerSettings(SecretStr(peer.url)))
        assert peer.requests[0].line == "POST /hook/api/v2/alerts HTTP/1.1"
    assert not error.permanent


def test_apprise_gets_text_for_people() -> None:
    with receiver(answers(status("200 OK"))) as peer:
        url = f"json://127.0.0.1:{peer.port}/{CANARY}"
        said = send(AppriseSettings(SecretStr(url)), notification(votes_for_rollback=True))
        (request,) = peer.requests
    assert said == "accepted by the service"
    document = json.loads(request.body)
    assert document["title"] == "[CRITICAL] Speculation harms chat on a"
    text = document["message"]
    for part in (
        "speculation costs 34 % of decode speed",
        "Acceptance rate: 15.6 % (9.88 to 23.7 %)",
        "Speedup: 0.662x (0.6 to 0.73x)",
        "Since 2023-11-14 22:03 UTC",
        "Cause: weak drafter",
        "What to do: move traffic to the service without speculation",
        "monitor alerts show inc1",
    ):
        assert part in text


def test_apprise_says_what_the_service_answered() -> None:
    with receiver(answers(status("404 No", body=CANARY))) as peer:
        url = f"json://user:{CANARY}@127.0.0.1:{peer.port}/{CANARY}"
        error = refused(AppriseSettings(SecretStr(url)))
    assert (str(error), error.permanent) == ("the service refused it: HTTP 404", True)


def test_apprise_follows_no_redirect() -> None:
    with receiver(answers(status("200 OK"))) as other:
        moved = status("302 Found", f"Location: {other.url}")
        with receiver(answers(moved)) as peer:
            error = refused(AppriseSettings(SecretStr(f"json://127.0.0.1:{peer.port}/")))
        assert other.requests == []
    assert "302" in str(error) or "not reach" in str(error)


def test_apprise_connects_to_no_metadata_address() -> None:
    error = refused(AppriseSettings(SecretStr(f"json://169.254.169.254/{CANARY}")))
    assert error.permanent
    assert "never connected to" in str(error)


def test_apprise_is_held_to_the_deadline() -> None:
    with receiver(drip) as peer:
        url = SecretStr(f"json://127.0.0.1:{peer.port}/")
        error = refused(AppriseSettings(url), timeout=4.0)
    assert (str(error), error.permanent) == ("no answer within 4 s", False)


def test_apprise_is_given_a_url_it_does_not_know() -> None:
    error = refused(AppriseSettings(SecretStr(f"nonsense-{CANARY}://x")))
    assert (str(error), error.permanent) == ("the URL is not one that Apprise knows", True)


def python(code: str, *environment: str) -> CommandSettings:
    return CommandSettings((sys.executable, "-c", code), environment)


def test_a_command_gets_our_json_and_next_to_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_SECRET", CANARY)
    monkeypatch.setenv("TICKET_TOKEN", "given")
    out = tmp_path / "out"
    code = (
        "import json, os, sys;"
        f"json.dump([json.load(sys.stdin), dict(os.environ)], open({str(out)!r}, 'w'))"
    )
    assert send(python(code, "TICKET_TOKEN"), test=True) == "exit code 0"
    document, environ = json.loads(out.read_text())
    assert (document["id"], document["test"]) == ("inc1-1", True)
    assert environ["MONITOR_MESSAGE_ID"] == "inc1-1"
    assert environ["TICKET_TOKEN"] == "given"
    assert CANARY not in environ.values()


@pytest.mark.parametrize(
    ("code", "words", "permanent"),
    [
        ("import sys; sys.exit('no\\nway')", "the command failed: exit code 1: no way", False),
        ("import sys; sys.exit(65)", "the command failed: exit code 65", True),
        ("import os; os.kill(os.getpid(), 9)", "the command failed: killed by signal 9", False),
        ("print('x' * 10**7); exit(3)", "the command failed: exit code 3: xxx", False),
    ],
)
def test_a_command_that_fails_says_why(code: str, words: str, permanent: bool) -> None:
    error = refused(python(code))
    assert str(error).startswith(words)
    assert len(str(error)) < 250
    assert error.permanent is permanent


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    # The child says that it is there, and holds the pipe open for as long as it lives.
    code = """sh -c 'echo here; exec sleep 600' > "$0" & wait"""
    error = refused(CommandSettings(("sh", "-c", code, str(pipe))), timeout=2.0)
    assert (str(error), error.permanent) == ("the command did not end within 2 s", False)
    assert os.read(end, 100) == b"here\n"
    select.select([end], [], [], 30.0)
    assert os.read(end, 100) == b""
    os.close(end)


def test_no_shell_reads_the_arguments(tmp_path: Path) -> None:
    code = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
    out = tmp_path / "out"
    kind = CommandSettings((sys.executable, "-c", code, str(out), "$(id); `id` | x"))
    send(kind)
    assert out.read_text() == "$(id); `id` | x"


def test_a_command_that_is_not_there_may_come_back() -> None:
    error = refused(CommandSettings(("/nowhere/at/all",)))
    assert str(error) == "the command cannot be started: No such file or directory"
    assert not error.permanent
