"""``monitor alerts`` and ``monitor silence``: what they say, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from alert_rows import NOON, notification, record, resolved
from hostile_receivers import answers, receiver, status

from monitor.alerting.routes import Routing
from monitor.cli.runner import run
from monitor.store import schema
from monitor.store.alerts import AlertStore
from monitor.store.connect import open_store

PAGER = Routing(("pager",))


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'monitor.db'}"
    schema.upgrade(url)
    return url


@pytest.fixture
def store(url: str) -> AlertStore:
    return AlertStore(open_store(url))


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Any:
    def command(*arguments: str) -> tuple[int, str]:
        code = run(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return command


def test_alerts_are_listed_and_shown(say: Any, url: str, store: AlertStore) -> None:
    assert say("alerts", "list", "--database", url) == (0, "no alert is firing\n")
    record(store, [], [notification()], PAGER, NOON)
    code, text = say("alerts", "list", "--database", url)
    assert code == 1
    assert text == ("inc1  critical  since 2023-11-14T22:03Z  Speculation harms chat on a\n")
    code, text = say("alerts", "show", "inc", "--database", url)
    assert code == 0
    assert "Speedup: 0.662x" in text
    assert "1. first at 2023-11-14T22:13:20.000Z: pager: waiting" in text
    record(store, [], [resolved()], PAGER, NOON)
    code, text = say("alerts", "list", "--all", "--json", "--database", url)
    (alert,) = json.loads(text)["alerts"]
    assert (code, alert["state"], alert["ended_at"]) == (0, "resolved", "2023-11-14T22:14:20.000Z")
    code, text = say("alerts", "show", "inc1", "--json", "--database", url)
    document = json.loads(text)
    assert document["latest"]["reason"] == "resolved"
    assert [one["state"] for one in document["deliveries"]] == ["waiting", "waiting"]
    code, text = say("alerts", "show", "nothing", "--database", url)
    assert (code, text.count("\n")) == (2, 1)


def test_dead_letters_are_listed_and_put_back(say: Any, url: str, store: AlertStore) -> None:
    record(store, [], [notification(), notification("inc2")], PAGER, NOON)
    for _ in range(2):
        claimed = store.outbox.claim("pager", "me", NOON, 60.0)
        assert claimed is not None
        store.outbox.bury(claimed, NOON, "HTTP 404")
    code, text = say("alerts", "deadletter", "list", "--database", url)
    assert code == 1
    assert text.count("pager  Speculation harms chat on a: HTTP 404") == 2
    assert say("alerts", "deadletter", "requeue", "1", "--database", url) == (0, "1 put back\n")
    assert say("alerts", "deadletter", "requeue", "--all", "--database", url)[0] == 0
    assert say("alerts", "deadletter", "list", "--database", url) == (0, "nothing was given up\n")
    assert say("alerts", "deadletter", "requeue", "1", "--database", url)[0] == 2
    assert say("alerts", "deadletter", "requeue", "--database", url)[0] == 2


def test_a_receiver_is_tried(say: Any, tmp_path: Path) -> None:
    path = tmp_path / "monitor.yaml"
    path.write_text(
        "receivers: [{name: pager, webhook: {url_file: url}}]\n"
        "services: [{name: a, speculative: {targets: [http://gpu1:8000]}}]\n"
    )
    with receiver(answers(status("204 No Content"), status("500 No"))) as peer:
        (tmp_path / "url").write_text(peer.url)
        given = ("alerts", "test", "pager", "-c", str(path))
        assert say(*given) == (0, "pager: delivered (HTTP 204)\n")
        assert say(*given) == (
            1,
            "monitor: pager: not delivered (a real one would be tried again): HTTP 500\n",
        )
        first, second = (json.loads(request.body) for request in peer.requests)
    assert first["test"] is True
    assert first["id"] != second["id"]
    code, text = say("alerts", "test", "pagr", "-c", str(path))
    assert (code, text) == (2, "monitor: there is no receiver 'pagr'; did you mean 'pager'?\n")


def test_silences_are_added_listed_and_ended(say: Any, url: str) -> None:
    given = ("silence", "add", "service=chat", "target=gpu*", "--why", "new drafter")
    window = "mon-fri 22:00-06:00 Europe/Berlin"
    code, text = say(
        *given, "--until", "2h", "--weekly", window, "--hold-rollback", "--database", url
    )
    assert code == 0
    assert text.startswith("silence 1 added: ")
    assert "service=chat target=gpu*, until " in text
    assert "on mon,tue,wed,thu,fri 22:00-06:00 Europe/Berlin, rollbacks held, too" in text
    code, text = say("silence", "list", "--json", "--database", url)
    (silence,) = json.loads(text)["silences"]
    assert (silence["holds_rollback"], silence["why"]) == (True, "new drafter")
    assert say("silence", "expire", "1", "--database", url)[0] == 0
    assert say("silence", "expire", "1", "--database", url)[0] == 2
    assert say("silence", "list", "--database", url) == (0, "there is no silence\n")
    assert "expired, " in say("silence", "list", "--all", "--database", url)[1]


@pytest.mark.parametrize(
    "wrong",
    [
        ("service", "--until", "2h", "--why", "x"),
        ("service=a", "--until", "yesterday", "--why", "x"),
        ("service=a", "--until", "2020-01-01T00:00:00Z", "--why", "x"),
        ("service=a", "--until", "9000h", "--why", "x"),
        ("service=a", "--until", "2h", "--why", " "),
        ("service=a", "--until", "2h", "--why", "x", "--weekly", "mon"),
        ("service=a", "--why", "x"),
        ("--until", "2h", "--why", "x"),
    ],
)
def test_silences_that_make_no_sense_are_refused(say: Any, url: str, wrong: Any) -> None:
    code, text = say("silence", "add", *wrong, "--database", url)
    assert code == 2
    assert text.startswith("monitor: ")
    assert text.count("\n") == 1
