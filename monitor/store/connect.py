"""Opens the database: what is particular to SQLite and to PostgreSQL lives here.

Everything else reads through ``reading`` and writes through ``writing``, which also turn
the drivers' errors into a ``StoreError`` of one line.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from sqlalchemy import Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from monitor.model import StoreError

BUSY_SECONDS = 10
"""How long a writer waits for another one before it gives up."""
FROZEN_SECONDS = 20
"""How long a PostgreSQL server waits for the next word in a transaction that writes.

A process that is frozen in the middle of one would keep its locks for ever, that on the lease
among them, and nobody could take over.
"""
CONNECT_SECONDS = 5
"""How long a PostgreSQL server may take to answer a connection attempt."""
OPENERS_AT_ONCE = 8
"""How many processes may open a new SQLite file at the same moment."""
POOL_KEPT = 5
POOL_EXTRA = 45
"""Enough for the web server's 40 worker threads, the writer and the housekeeping at once."""

# Any number will do as long as every release uses the same one: "upkeep" in ASCII.
_UPKEEP_LOCK = 0x75706B656570

_POSTGRESQL_NAMES = ("postgres", "postgresql", "postgresql+psycopg")
_SQLITE_NAMES = ("sqlite", "sqlite+pysqlite")


def open_store(url: str, *, must_exist: bool = False) -> Engine:
    """Opens the database at ``url`` and makes sure that it answers.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql://USER:PASSWORD@HOST/DATABASE``.
        must_exist: Refuse a SQLite file that does not exist instead of creating it.

    Raises:
        StoreError: One line without a password: bad URL, no such folder, no database, …
    """
    parsed = parse_url(url)
    path = sqlite_path(parsed)
    if path is not None:
        _check_path(path, must_exist=must_exist)
    engine = _create_engine(parsed)
    try:
        with reading(engine) as connection:
            connection.exec_driver_sql("SELECT 1")
        if path is not None:
            _stay_with(engine, path)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _stay_with(engine: Engine, path: Path) -> None:
    """Refuses everything while the file at ``path`` is not the one that was opened.

    SQLite goes on writing into a file that was deleted, and all of it is lost when the process
    ends. A new connection would even begin an empty file in its place.
    """
    opened = _file_at(path)

    def check(*_: object) -> None:
        if _file_at(path) != opened:
            raise StoreError(
                f"database {path}: the file was deleted or replaced while it was in use;"
                " put it back, or restart to go on with what is there now"
            )

    event.listen(engine, "do_connect", check)
    event.listen(engine, "begin", check, insert=True)


def _file_at(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one at the same place; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def parse_url(url: str) -> URL:
    """The URL with the driver that is used here, or a ``StoreError`` that never repeats it."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # The cause is cut off because its text may repeat the URL and thus a password.
        raise StoreError(
            "the database URL cannot be read; use sqlite:///FILE or"
            " postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        ) from None
    if parsed.drivername in _POSTGRESQL_NAMES:
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in _SQLITE_NAMES:
        raise StoreError(
            f"databases of the kind {parsed.drivername} are not supported; use sqlite:///FILE"
            " or postgresql://…"
        )
    if parsed.database in (None, "", ":memory:") or str(parsed.database).startswith("file:"):
        raise StoreError("the SQLite URL names no file; write sqlite:///FILE")
    if parsed.query:
        raise StoreError("the SQLite URL takes no parameters; write sqlite:///FILE")
    return parsed


def sqlite_path(url: URL) -> Path | None:
    """The file of a SQLite URL, None for PostgreSQL."""
    return Path(str(url.database)) if url.drivername in _SQLITE_NAMES else None


def shown(url: URL) -> str:
    """The database as it may be shown: no user, no password, no query."""
    if url.drivername in _SQLITE_NAMES:
        return str(url.database)
    return f"{url.host or url.query.get('host', 'localhost')}/{url.database or ''}"


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction that sees one state of the database and takes no write lock."""
    with _one_line_errors(engine), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that may write: committed as a whole, or not at all."""
    writer = engine.execution_options(monitor_writes=True)
    with _one_line_errors(engine), writer.connect() as connection, connection.begin():
        yield connection


@contextmanager
def sqlite_driver(engine: Engine) -> Iterator[sqlite3.Connection]:
    """The driver's own connection to a SQLite file, in no transaction: for upkeep of the file."""
    connection = engine.raw_connection()
    try:
        yield cast("sqlite3.Connection", connection.driver_connection)
    except sqlite3.Error as error:
        raise StoreError(_line(engine.url, str(error))) from None
    finally:
        connection.close()


def lock_for_upkeep(connection: Connection) -> bool:
    """Whether this transaction is the only one that rolls up or prunes, of all processes."""
    if connection.dialect.name != "postgresql":
        return True  # There is but one writer at a time.
    found = connection.exec_driver_sql(f"SELECT pg_try_advisory_xact_lock({_UPKEEP_LOCK})")
    return bool(found.scalar())


def wait_for_others(connection: Connection) -> None:
    """Lets this transaction wait for locks, and be waited for, as long as it takes."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(_limits(lock=0, idle=0))


def insert_into(engine: Engine, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that can be given an ON CONFLICT clause, which both databases spell alike."""
    if engine.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


@contextmanager
def _one_line_errors(engine: Engine) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        text = " ".join(str(error.orig).split())
        raise StoreError(_line(engine.url, text)) from None
    except SQLAlchemyError as error:
        raise StoreError(_line(engine.url, str(error).partition("\n")[0])) from None


def _line(url: URL, text: str) -> str:
    for secret in (url.password, url.query.get("password")):
        if secret:
            text = text.replace(str(secret), "***")
    return f"database {shown(url)}: {text}"


def _check_path(path: Path, *, must_exist: bool) -> None:
    if path.is_dir():
        raise StoreError(f"database {path}: this is a folder, not a file")
    if not path.parent.is_dir():
        raise StoreError(f"database {path}: the folder {path.parent} does not exist")
    if must_exist and not path.exists():
        raise StoreError(
            f"database {path}: no such file; `monitor run` or `monitor db upgrade` creates it"
        )


def _create_engine(url: URL) -> Engine:
    is_sqlite = url.drivername in _SQLITE_NAMES
    wait = {"timeout": BUSY_SECONDS} if is_sqlite else {"connect_timeout": CONNECT_SECONDS}
    try:
        engine = create_engine(
            url,
            connect_args={name: value for name, value in wait.items() if name not in url.query},
            pool_size=POOL_KEPT,
            max_overflow=POOL_EXTRA,
            # A server that was restarted costs a fresh connection instead of a lost round.
            pool_pre_ping=not is_sqlite,
        )
    except ImportError as error:
        raise StoreError(f"the database driver {error.name} is not installed") from None
    except (ArgumentError, TypeError, ValueError):
        raise StoreError(f"database {shown(url)}: the URL has an unknown parameter") from None
    if is_sqlite:
        event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite if is_sqlite else _begin_postgresql)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
    # The driver must not begin transactions of its own: they would be deferred ones.
    connection.isolation_level = None
    if connection.execute("PRAGMA page_count").fetchone() == (0,):
        # It works only before the first write, which the change to WAL is. On a file with
        # tables it would do nothing but wait for the write lock, which a reader must not.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _switch_to_wal(connection)
    # With WAL the file stays whole without a sync at every commit; a power cut can cost the
    # last rounds, which the next pages make good, and a killed process costs nothing.
    connection.execute("PRAGMA synchronous = NORMAL")
    # Rounds write to the same pages again and again; fewer checkpoints copy each less often,
    # at the price of a WAL file of 16 MB.
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    connection.execute("PRAGMA foreign_keys = ON")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Makes the file a WAL database, which it then stays for ever."""
    for _ in range(OPENERS_AT_ONCE):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            # SQLite turns all but one away, without a wait, when several processes open a new
            # file at once. Taking the write lock does wait, until the one is through.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("COMMIT")
        else:
            return
    connection.execute("PRAGMA journal_mode = WAL")


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and then writes fails at once with "database is locked"
    # when another one wrote in between, whatever the timeout: writers take the lock first.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if _writes(connection) else "BEGIN")


def _begin_postgresql(connection: Connection) -> None:
    # Readers take no locks that writers wait for, and may be read slowly, by a pager for example.
    if _writes(connection):
        connection.exec_driver_sql(_limits(lock=BUSY_SECONDS, idle=FROZEN_SECONDS))


def _limits(*, lock: float, idle: float) -> str:
    """In seconds; 0 is for ever."""
    return (
        f"SET LOCAL lock_timeout = {round(lock * 1000)};"
        f" SET LOCAL idle_in_transaction_session_timeout = {round(idle * 1000)}"
    )


def _writes(connection: Connection) -> bool:
    return bool(connection.get_execution_options().get("monitor_writes", False))
