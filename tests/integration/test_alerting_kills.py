"""Killed at any statement between a verdict and its receiver, nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import alert_killer
from hostile_receivers import answers, receiver, status
from store_rows import opened

import monitor
from monitor.store.alerts import AlertStore, IncidentFilter
from monitor.store.outbox import OutboxState


def final(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a receiver knows that drops what it has had already; without names."""
    seen: dict[str, dict[str, Any]] = {}
    for body in bodies:
        seen.setdefault(body["id"], body)
    own = {"id", "incident", "target", "links", "labels", "commands", "title", "assessment"}
    return [{k: v for k, v in body.items() if k not in own} for body in seen.values()]


def test_killed_at_any_statement_the_receiver_gets_the_same_picture(database_url: str) -> None:
    source = Path(monitor.__file__).parent.parent
    with opened(database_url) as engine, receiver(answers(status("200 OK"))) as peer:
        done = subprocess.run(
            [sys.executable, alert_killer.__file__, database_url, peer.url],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(source)},
        )
        assert done.returncode == 0, done.stderr
        lives = [line.split() for line in done.stdout.splitlines()]
        store = AlertStore(engine)
        counts, incidents = store.outbox.counts(), store.incidents(IncidentFilter.ALL, 1000)
    # Each was killed once and then went through, but for the last one, which met no killer.
    assert len(lives) > 30
    assert {count for _, count in lives[:-1]} == {"2"}
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for request in peer.requests:
        body = json.loads(request.body)
        told[body["target"]].append(body)
    assert set(told) == {target for target, _ in lives}
    uninterrupted = told[lives[-1][0]]
    assert [body["state"] for body in uninterrupted] == ["firing", "resolved"]
    for target, bodies in told.items():
        assert final(bodies) == final(uninterrupted), target
        assert len({body["incident"] for body in bodies}) == 1
    assert counts == {("pager", OutboxState.SENT): 2 * len(lives)}
    assert {incident.state for incident in incidents} == {"resolved"}
    assert len(incidents) == len(lives)
