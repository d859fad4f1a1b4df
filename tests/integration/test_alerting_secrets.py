"""No secret of a receiver is shown anywhere: not in logs, rows, payloads, errors or answers."""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from alert_rows import NOON, notification, record
from hostile_receivers import answers, receiver, reset, status
from store_rows import dump, opened

from monitor.alerting.delivery import Worker
from monitor.alerting.notifiers.make import make_notifier
from monitor.alerting.routes import Routing
from monitor.cli.runner import run
from monitor.clock import FakeClock
from monitor.config.load import load_settings
from monitor.logs import configure
from monitor.store import schema
from monitor.store.alerts import AlertStore

URL_SECRET = "canary-url-91ac07d5"
QUERY_SECRET = "canary-query-55e1b20c"
BEARER_SECRET = "canary-bearer-0d2f7741"
KEY_SECRET = base64.b64encode(b"canary-key-6b1f00aa-canary-key").decode()
SECRETS = (URL_SECRET, QUERY_SECRET, BEARER_SECRET, KEY_SECRET)
NAMES = ("good", "bad", "gone", "echo", "chat", "am")


@pytest.fixture
def logs() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers, root.level
    stream = io.StringIO()
    configure(level="debug", stream=stream)
    yield stream
    root.handlers = before
    root.setLevel(level)


def config(folder: Path, ports: dict[str, int]) -> Path:
    """A configuration with a secret in every place that may hold one."""
    (folder / "key").write_text(f"whsec_{KEY_SECRET}")
    (folder / "bearer").write_text(BEARER_SECRET)
    receivers: list[dict[str, Any]] = []
    for name, port in ports.items():
        scheme = "json" if name == "chat" else "http"
        url = f"{scheme}://127.0.0.1:{port}/{URL_SECRET}?token={QUERY_SECRET}"
        if name == "am":
            url = f"http://127.0.0.1:{port}/{URL_SECRET}"
        (folder / name).write_text(url)
        section: dict[str, Any] = {"url_file": name}
        if name not in ("chat", "am"):
            section |= {"bearer_file": "bearer", "signing_keys": [{"key_file": "key"}]}
        kind = {"chat": "apprise", "am": "alertmanager"}.get(name, "webhook")
        receivers.append({"name": name, kind: section})
    path = folder / "monitor.yaml"
    service = {"name": "a", "speculative": {"targets": ["http://gpu1:8000"]}}
    path.write_text(yaml.safe_dump({"receivers": receivers, "services": [service]}))
    return path


def test_no_secret_is_shown_anywhere(
    tmp_path: Path, logs: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    database = f"sqlite:///{tmp_path / 'monitor.db'}"
    schema.upgrade(database)
    said = " ".join(SECRETS)
    echo = status("400 Bad", "Content-Type: text/plain", body=f"no route for {said}")
    good, bad = answers(status("200 OK")), answers(status("404 No"))
    with (
        opened(database) as engine,
        receiver(good) as a,
        receiver(bad) as b,
        receiver(reset) as c,
        receiver(answers(echo)) as d,
        receiver(bad) as e,
        receiver(bad) as f,
    ):
        peers = dict(zip(NAMES, (a, b, c, d, e, f), strict=True))
        path = config(tmp_path, {name: peer.port for name, peer in peers.items()})
        settings = load_settings(path)
        store = AlertStore(engine)
        workers = [
            Worker(one, make_notifier(one), store.outbox, FakeClock(NOON), jitter=lambda: 0.0)
            for one in settings.receivers
        ]
        # A message that repeats what a page or an error said.
        leaky = notification(title=f"t {said}", sentence=f"s {said}", labels={"zone": said})
        record(store, [], [leaky], Routing(NAMES), NOON)
        for worker in workers:
            worker.step()
            worker.close()
        for name in NAMES:
            run(["alerts", "test", name, "-c", str(path)])
        for command in (
            ["config", "show", "-c", str(path)],
            ["alerts", "list", "--json", "--database", database],
            ["alerts", "show", "inc1", "--database", database],
            ["alerts", "show", "inc1", "--json", "--database", database],
            ["alerts", "deadletter", "list", "--database", database],
        ):
            run(command)
        rows = repr(dump(engine))
        bodies = [request.body.decode() for peer in peers.values() for request in peer.requests]
    printed = capsys.readouterr()
    places = {
        "logs": logs.getvalue(),
        "rows": rows,
        "settings": repr(settings),
        "output": printed.out,
        "errors": printed.err,
        "payloads": " ".join(bodies),
    }
    assert all(len(text) > 200 for text in places.values())
    assert "no route for ***" in places["rows"]
    assert "no route for ***" in places["errors"]
    shown = [
        (secret, place) for place, text in places.items() for secret in SECRETS if secret in text
    ]
    assert shown == []
