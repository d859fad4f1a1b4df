"""Opens the database for commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from monitor.model import StoreError
from monitor.store.connect import open_store, shown
from monitor.store.repository import Repository
from monitor.store.schema import SchemaState, check_engine, ensure_ready


@contextmanager
def stored(url: str) -> Iterator[Repository]:
    """What is in the database, which must exist and be of this release."""
    engine = open_store(url, must_exist=True)
    try:
        found = check_engine(engine)
        if found.state is not SchemaState.CURRENT:
            raise StoreError(f"database {shown(engine.url)}: {found.sentence}")
        yield Repository(engine)
    finally:
        engine.dispose()


@contextmanager
def storing(url: str) -> Iterator[Repository]:
    """The database for commands that add to it; a SQLite file is created where there is none."""
    engine = open_store(url)
    try:
        ensure_ready(engine)
        yield Repository(engine)
    finally:
        engine.dispose()
