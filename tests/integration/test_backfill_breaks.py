"""A run that is killed, or has no more room, leaves nothing half done and goes on later."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import backfill_runner
import pytest
from backfill_series import to_openmetrics
from backfill_stage import Tape, assert_alike, backfill, fresh, quarter, rows
from sqlalchemy import Engine, event
from store_rows import opened

import monitor
from monitor.model import StoreError


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What one run over the eight hours leaves."""
    with opened(fresh("", "whole", tmp_path_factory.mktemp("whole"))) as engine:
        backfill(engine, Tape(quarter()))
        return rows(engine, without=())


def environment() -> dict[str, str]:
    source = Path(monitor.__file__).parent.parent
    here = Path(backfill_runner.__file__).parent
    return {**os.environ, "PYTHONPATH": f"{source}:{here}:{here.parent / 'scenario'}"}


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path, whole: dict[str, Any]) -> None:
    url = fresh("", "killed", tmp_path)
    for steps in (4, 9):
        with subprocess.Popen(
            [sys.executable, backfill_runner.__file__, url],
            stdout=subprocess.PIPE,
            env=environment(),
        ) as process:
            assert process.stdout is not None
            assert len(list(islice(process.stdout, steps))) == steps
            process.kill()
    with opened(url) as engine:
        backfill(engine, Tape(quarter()))
        assert_alike(rows(engine, without=()), whole)


def limit(engine: Engine, pages: int) -> None:
    """From the next connection on, the file can be no larger."""

    def set_limit(connection: sqlite3.Connection, _entry: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(engine, "connect", set_limit)
    engine.dispose()


def test_a_full_disk_is_one_clear_line_and_the_run_goes_on_with_more_room(
    tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.backfill.ingest.BATCH", 50)
    url = fresh("", "full", tmp_path)
    with opened(url) as engine:
        limit(engine, 90)
        with pytest.raises(StoreError, match=r"full\.db: database or disk is full"):
            backfill(engine, Tape(quarter()))
        found = rows(engine, without=())
        assert 0 < len(found["samples"]) < len(whole["samples"])
        limit(engine, 1_000_000)
        backfill(engine, Tape(quarter()))
        assert_alike(rows(engine, without=()), whole)
    connection = sqlite3.connect(tmp_path / "full.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_the_command_says_in_one_line_that_there_is_no_room(tmp_path: Path) -> None:
    """The system lets no file grow beyond a size, as a full disk would not."""
    dump = tmp_path / "dump.om"
    dump.write_text(to_openmetrics(quarter()))
    command = "import sys; from monitor.cli import main; sys.argv[0] = 'monitor'; main()"
    shell = f'ulimit -f 600; exec {sys.executable} -c "{command}" "$@"'
    arguments = ["backfill", "openmetrics", str(dump), "--database", "sqlite:///small.db"]
    done = subprocess.run(
        ["bash", "-c", shell, "bash", *arguments],
        cwd=tmp_path,
        env={**environment(), "TMPDIR": "/tmp"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "database small.db: " in done.stderr
    assert "goes on" in done.stderr
    again = subprocess.run(
        [sys.executable, "-c", command, *arguments],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stderr
