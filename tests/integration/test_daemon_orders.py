"""An order about a reference reaches the daemon that holds it in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from daemon_stage import Growing, eventually, running, settings, target
from scrape_peers import Peer

from monitor.health.orders import Order, OrderKind
from monitor.store.connect import open_store
from monitor.store.repository import Repository


def test_an_order_reaches_a_running_daemon_and_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.daemon.writer.ERRAND_SECONDS", 0.0)
    database = f"sqlite:///{tmp_path / 'monitor.db'}"
    with Peer(Growing()) as peer:
        first = settings(database, target("a", peer))
        with running(first) as stage:
            eventually(lambda: stage.rounds("a") >= 3)
            engine = open_store(database)
            repository = Repository(engine)
            repository.order("a", Order(OrderKind.PIN, 0.7), at=1.0, who="ann@desk")
            eventually(lambda: not repository.pending_orders())
            stage.stop()
        with running(first) as stage:
            eventually(lambda: stage.rounds("a") >= 2)
            stage.stop()
        state = repository.state("a")
        engine.dispose()
    assert state is not None
    assert [r["pinned"] for r in json.loads(state.state)["references"].values()] == [0.7]
