"""Brings the schema up to date, and tells whether it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect

from monitor.model import StoreError
from monitor.resources import data_dir
from monitor.store.connect import (
    open_store,
    parse_url,
    reading,
    shown,
    sqlite_path,
    wait_for_others,
    writing,
)

# Any number will do as long as every release uses the same one: "specdec" in ASCII.
_LOCK = 0x73706563646563
_VERSION_TABLE = "alembic_version"


class SchemaState(StrEnum):
    """How the schema of a database relates to the one this release wants."""

    EMPTY = "empty"
    BEHIND = "behind"
    CURRENT = "current"
    AHEAD = "ahead"


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """What was found in a database, and what is wanted."""

    state: SchemaState
    found: str | None
    wanted: str

    @property
    def sentence(self) -> str:
        """The state in words, with what to do about it."""
        if self.state is SchemaState.CURRENT:
            return f"the schema is at revision {self.found}, as wanted"
        if self.state is SchemaState.AHEAD:
            return (
                f"the schema is at revision {self.found}, which this release does not know (it"
                f" wants {self.wanted}); install the release that wrote it, or a newer one"
            )
        found = f"at revision {self.found}" if self.found else "empty"
        return f"the schema is {found}, wanted is {self.wanted}; run `monitor db upgrade`"


def upgrade(url: str) -> str:
    """Brings the database at ``url`` to the wanted revision, which is returned."""
    engine = open_store(url)
    try:
        return _upgrade(engine)
    finally:
        engine.dispose()


def check(url: str) -> SchemaCheck:
    """Compares the database at ``url`` with this release; creates and changes nothing."""
    path = sqlite_path(parse_url(url))
    if path is not None and path.parent.is_dir() and not path.exists():
        return SchemaCheck(SchemaState.EMPTY, None, _wanted(_scripts()))
    engine = open_store(url)
    try:
        return check_engine(engine)
    finally:
        engine.dispose()


def check_engine(engine: Engine) -> SchemaCheck:
    """Compares an open database with this release."""
    with reading(engine) as connection:
        return _check(connection)


def ensure_ready(engine: Engine) -> None:
    """Lets the daemon start only on the schema it was written for.

    A new SQLite file is given its schema, because whoever tries the program has nothing to
    lose yet. Anything else is changed only by the command that is there for it, so that two
    daemons of different releases never migrate under each other.
    """
    found = check_engine(engine)
    if found.state is SchemaState.EMPTY and engine.dialect.name == "sqlite":
        _upgrade(engine)
    elif found.state is not SchemaState.CURRENT:
        raise StoreError(f"database {shown(engine.url)}: {found.sentence}")


def _upgrade(engine: Engine) -> str:
    """Migrates in one transaction that only one process can be in; the others wait."""
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            wait_for_others(connection)
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        found = _check(connection)
        if found.state is SchemaState.AHEAD:
            raise StoreError(f"database {shown(engine.url)}: {found.sentence}")
        config = Config()
        config.set_main_option("script_location", _location().replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return found.wanted


def _check(connection: Connection) -> SchemaCheck:
    scripts = _scripts()
    wanted = _wanted(scripts)
    found = MigrationContext.configure(connection).get_current_revision()
    if found is None:
        _refuse_foreign(connection)
        return SchemaCheck(SchemaState.EMPTY, None, wanted)
    if found == wanted:
        return SchemaCheck(SchemaState.CURRENT, found, wanted)
    known = {script.revision for script in scripts.walk_revisions()}
    state = SchemaState.BEHIND if found in known else SchemaState.AHEAD
    return SchemaCheck(state, found, wanted)


def _refuse_foreign(connection: Connection) -> None:
    strangers = set(inspect(connection).get_table_names()) - {_VERSION_TABLE}
    if strangers:
        raise StoreError(
            f"database {shown(connection.engine.url)}: it belongs to another program (it has a"
            f" table {min(strangers)} but no schema revision); name a database of its own"
        )


def _location() -> str:
    return str(data_dir("migrations"))


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(_location())


def _wanted(scripts: ScriptDirectory) -> str:
    return str(scripts.get_current_head())
