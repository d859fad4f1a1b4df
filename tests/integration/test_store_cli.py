"""``monitor db``: what it prints and the exit codes it gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from store_rows import opened
from typer.testing import CliRunner

from monitor.cli.db import app
from monitor.model import StoreError
from monitor.store.connect import writing

runner = CliRunner()


def test_upgrade_current_and_check_agree(empty_url: str) -> None:
    before = runner.invoke(app, ["check", "--database", empty_url])
    assert before.exit_code == 1
    assert "run `monitor db upgrade`" in before.stdout
    assert runner.invoke(app, ["upgrade", "--database", empty_url]).exit_code == 0
    assert runner.invoke(app, ["check", "--database", empty_url]).exit_code == 0
    found = runner.invoke(app, ["current", "--json"], env={"MONITOR_DATABASE": empty_url})
    document = json.loads(found.stdout)
    assert document["schema"] == "monitor.db/1"
    assert document["state"] == "current"
    assert document["found"] == document["wanted"]


def test_a_schema_from_the_future_gives_exit_code_1(database_url: str) -> None:
    with opened(database_url) as engine, writing(engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    assert runner.invoke(app, ["check", "--database", database_url]).exit_code == 1
    found = runner.invoke(app, ["current", "--database", database_url])
    assert (found.exit_code, found.stdout) == (0, "9999\n")


@pytest.mark.parametrize("command", ["upgrade", "current", "check"])
def test_an_unusable_database_is_left_to_the_border(command: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'none' / 'monitor.db'}"
    assert isinstance(runner.invoke(app, [command, "--database", url]).exception, StoreError)


def test_help_does_not_show_the_password() -> None:
    url = "postgresql://u:geheim@h/d"
    found = runner.invoke(app, ["check", "--help"], env={"MONITOR_DATABASE": url})
    assert found.exit_code == 0
    assert "geheim" not in found.stdout
