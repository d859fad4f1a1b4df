"""The schema: created, compared with the tables, refused when it does not fit."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine
from store_rows import opened

from monitor.model import StoreError
from monitor.resources import data_dir
from monitor.store import schema
from monitor.store.connect import reading, writing
from monitor.store.schema import SchemaState
from monitor.store.tables import metadata


def set_revision(url: str, revision: str) -> None:
    with opened(url) as engine, writing(engine) as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")


def refusal(url: str) -> str:
    with opened(url) as engine, pytest.raises(StoreError) as caught:
        schema.ensure_ready(engine)
    return str(caught.value)


def test_migrated_schema_equals_the_tables(engine: Engine) -> None:
    with reading(engine) as connection:
        # SQLite has no such indexes.
        absent = (
            {"ix_samples_end", "ix_rollups_at", "ix_rollups_at_tens"}
            if engine.dialect.name == "sqlite"
            else {}
        )
        opts = {"compare_type": True, "include_object": lambda _, name, *__: name not in absent}
        context = MigrationContext.configure(connection, opts=opts)
        assert compare_metadata(context, metadata) == []


def test_upgrade_can_be_repeated_and_sets_up_no_logging(empty_url: str) -> None:
    handlers = list(logging.getLogger().handlers)
    before = schema.check(empty_url)
    assert (before.state, before.found) == (SchemaState.EMPTY, None)
    wanted = schema.upgrade(empty_url)
    assert schema.upgrade(empty_url) == wanted == schema.check(empty_url).found
    assert schema.check(empty_url).state is SchemaState.CURRENT
    assert logging.getLogger().handlers == handlers


def test_upgrades_at_the_same_time_wait_for_each_other(empty_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(schema.upgrade, [empty_url] * 4))) == 1
    assert schema.check(empty_url).state is SchemaState.CURRENT


def test_a_schema_from_the_future_is_refused(database_url: str) -> None:
    wanted = schema.check(database_url).found
    set_revision(database_url, "9999")
    assert schema.check(database_url).state is SchemaState.AHEAD
    message = refusal(database_url)
    assert "9999" in message
    assert f"wants {wanted}" in message
    with pytest.raises(StoreError, match="9999"):
        schema.upgrade(database_url)


def test_a_schema_from_the_past_is_refused(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = schema.check(database_url).found
    add_revision(tmp_path, after=str(found))
    monkeypatch.setattr("monitor.store.schema.data_dir", lambda _: tmp_path)
    assert schema.check(database_url).state is SchemaState.BEHIND
    message = refusal(database_url)
    assert f"revision {found}, wanted is next; run `monitor db upgrade`" in message
    assert schema.upgrade(database_url) == "next"


def add_revision(folder: Path, after: str) -> None:
    """Copies the migrations and puts one more behind them."""
    migrations = data_dir("migrations")
    (folder / "versions").mkdir()
    for path in [*migrations.glob("*.py"), *migrations.glob("versions/*.py")]:
        (folder / path.relative_to(migrations)).write_text(path.read_text())
    (folder / "versions" / "next.py").write_text(
        f'revision = "next"\ndown_revision = "{after}"\n\ndef upgrade():\n    pass\n'
    )


def test_the_database_of_another_program_is_refused(empty_url: str) -> None:
    with opened(empty_url) as engine, writing(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE recipes (id INTEGER)")
    assert "belongs to another program" in refusal(empty_url)
    with pytest.raises(StoreError, match="recipes"):
        schema.upgrade(empty_url)


def test_the_daemon_creates_the_schema_of_a_new_file_only(empty_url: str) -> None:
    if empty_url.startswith("postgresql"):
        assert "empty, wanted is" in refusal(empty_url)
        return
    with opened(empty_url) as engine:
        schema.ensure_ready(engine)
        schema.ensure_ready(engine)
    assert schema.check(empty_url).state is SchemaState.CURRENT


def test_check_does_not_create_a_file(tmp_path: Path) -> None:
    path = tmp_path / "monitor.db"
    assert schema.check(f"sqlite:///{path}").state is SchemaState.EMPTY
    assert not path.exists()


def test_new_files_are_set_up_for_many_readers_and_for_shrinking(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'monitor.db'}"
    schema.upgrade(url)
    with opened(url) as engine, reading(engine) as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "auto_vacuum", "foreign_keys", "busy_timeout")
        }
    assert found == {
        "journal_mode": "wal",
        "auto_vacuum": 2,
        "foreign_keys": 1,
        "busy_timeout": 10_000,
    }
