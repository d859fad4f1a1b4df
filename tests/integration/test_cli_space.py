"""``monitor db size`` and ``monitor db prune``."""

from __future__ import annotations

import json
from math import floor
from pathlib import Path

import pytest
from store_rows import increment, opened, row, target
from typer.testing import CliRunner

from monitor.cli import db
from monitor.clock import FakeClock
from monitor.store.repository import Repository

NOW = 1_800_000_000.0
HOUR = 3_600.0
runner = CliRunner()


@pytest.fixture
def old_database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """One minute of samples an hour ago, three days ago and two months ago."""
    monkeypatch.setattr(db, "SystemClock", lambda: FakeClock(NOW))
    with opened(database_url) as engine:
        repository = Repository(engine)
        repository.register([target()], NOW)
        for age in (HOUR, 72 * HOUR, 1_440 * HOUR):
            end = floor((NOW - age) / 600) * 600.0
            repository.write_round([row(end + s, increment(end + s)) for s in (15, 30, 45, 60)])
    return database_url


def test_prune_says_what_it_would_do_and_does_it(old_database: str) -> None:
    told = runner.invoke(db.app, ["prune", "--dry-run", "--json", "--database", old_database])
    planned = json.loads(told.stdout)
    assert planned["schema"] == "monitor.db.prune/1"
    assert planned["rolled_up"] == planned["rows"]["samples"] == 12
    done = runner.invoke(db.app, ["prune", "--json", "--database", old_database])
    document = json.loads(done.stdout)
    assert document["rolled_up"] == 12
    assert document["deleted"] == {"samples": 8, "one_minute": 1, "ten_minutes": 0}
    assert (document["rows"]["samples"], document["rows"]["rollups"]) == (4, 2 + 3)
    again = runner.invoke(db.app, ["prune", "--database", old_database])
    assert again.stdout.startswith("rolled up 0 samples and deleted rows: 0 of samples")


def test_prune_keeps_what_the_configuration_says(old_database: str, tmp_path: Path) -> None:
    config = tmp_path / "monitor.yaml"
    config.write_text(
        "retention: {samples: 96h}\n"
        "services: [{name: a, speculative: {targets: ['http://a:8000']}}]\n"
    )
    arguments = ["prune", "--json", "--config", str(config), "--database", old_database]
    document = json.loads(runner.invoke(db.app, arguments).stdout)
    assert document["deleted"] == {"samples": 4, "one_minute": 1, "ten_minutes": 0}


def test_size_in_words_and_as_json(old_database: str) -> None:
    words = runner.invoke(db.app, ["size", "--database", old_database]).stdout
    assert "the database takes up" in words
    assert "samples" in words
    document = json.loads(
        runner.invoke(db.app, ["size", "--json", "--database", old_database]).stdout
    )
    assert document["bytes"]["total"] >= document["bytes"]["used"] > 0
    assert document["rows"]["samples"] == 12
    assert document["oldest_sample"].startswith("2026-11-16")
    assert document["pruned_at"] is None
