"""A SQLite file that is deleted or replaced while it is in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from monitor.clock import FakeClock
from monitor.daemon.writer import Writer
from monitor.model import StoreError
from monitor.settings import TargetSettings
from monitor.store.connect import open_store, reading, writing
from monitor.store.repository import Repository
from monitor.store.rows import RoundRow
from monitor.store.schema import ensure_ready

SAID = "the file was deleted or replaced while it was in use"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "monitor.db"


@pytest.fixture
def engine(file: Path) -> Iterator[Engine]:
    engine = open_store(f"sqlite:///{file}")
    ensure_ready(engine)
    yield engine
    engine.dispose()


def test_a_deleted_file_is_noticed_and_none_is_begun_in_its_place(
    engine: Engine, file: Path
) -> None:
    file.unlink()
    for transaction in (reading, writing):
        with pytest.raises(StoreError, match=SAID), transaction(engine):
            raise AssertionError
    engine.dispose()
    with pytest.raises(StoreError, match=SAID), reading(engine):
        raise AssertionError
    assert not file.exists()


def test_a_replaced_file_is_not_written_to(engine: Engine, file: Path) -> None:
    other = open_store(f"sqlite:///{file.with_name('other.db')}")
    ensure_ready(other)
    other.dispose()
    file.with_name("other.db").replace(file)
    with pytest.raises(StoreError, match=SAID), writing(engine) as connection:
        connection.execute(text("DELETE FROM events"))


def test_the_daemon_keeps_its_rows_until_the_file_is_back(engine: Engine, file: Path) -> None:
    repository = Repository(engine)
    repository.register([TargetSettings("a", "chat", "http://a")], 0.0)
    writer = Writer(repository, FakeClock())
    writer.accept(frozenset({"a"}))
    away = file.with_name("away.db")
    file.rename(away)
    writer.put(RoundRow("a", 15.0, (), "{}"))
    assert not writer.flush()
    assert not writer.flush()
    assert (writer.errors, writer.queued) == (2, 1)
    away.rename(file)
    assert writer.flush()
    assert (writer.written, writer.queued) == (1, 0)
