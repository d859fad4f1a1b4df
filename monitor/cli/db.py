"""``monitor db``: the schema of the database, and its size."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli import exits
from monitor.cli.apps import group
from monitor.cli.locate import database_url, find_config
from monitor.cli.options import ConfigOption, DatabaseOption, JsonOption
from monitor.cli.output import print_json, print_text
from monitor.cli.render_space import print_space, space_document, tally_document, tally_text
from monitor.cli.stored import stored
from monitor.clock import SystemClock
from monitor.config.build import retention_of
from monitor.config.load import load
from monitor.config.schema import DEFAULT_DATABASE
from monitor.settings import Retention
from monitor.store import schema
from monitor.store.schema import SchemaCheck, SchemaState

app = group("Look after the schema and the size of the database.")

Database = Annotated[
    str,
    typer.Option(
        envvar="MONITOR_DATABASE",
        metavar="URL",
        help="sqlite:///FILE (default: monitor.db) or postgresql://USER:PASSWORD@HOST/DATABASE.",
        # The default that is shown would be the variable's value, which may hold a password.
        show_default=False,
    ),
]


@app.command()
def upgrade(database: Database = DEFAULT_DATABASE) -> None:
    """Create the schema, or bring it to the revision this release wants."""
    print_text(f"the schema is at revision {schema.upgrade(database)}")


@app.command()
def current(database: Database = DEFAULT_DATABASE, *, json: JsonOption = False) -> None:
    """Show the revision of the schema."""
    found = schema.check(database)
    _print(found, found.found or "empty", as_json=json)


@app.command()
def check(database: Database = DEFAULT_DATABASE, *, json: JsonOption = False) -> None:
    """Exit with 0 if the schema is the one this release wants, with 1 if it is not."""
    found = schema.check(database)
    _print(found, found.sentence, as_json=json)
    if found.state is not SchemaState.CURRENT:
        raise typer.Exit(exits.BAD)


@app.command()
def size(
    *, config: ConfigOption = None, database: DatabaseOption = None, json: JsonOption = False
) -> None:
    """Show how large the database is, and how many rows each table has."""
    with stored(database_url(database, config)) as repository:
        space = repository.space()
    if json:
        print_json({"schema": "monitor.db.size/1", **space_document(space)})
    else:
        print_space(space)


@app.command()
def prune(
    *,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Roll samples up and delete what is older than it is kept, as the daemon does by itself."""
    path = find_config(config)
    retention = Retention() if path is None else retention_of(load(path).config)
    now = SystemClock().utc()
    with stored(database_url(database, config)) as repository:
        # Who asks for it has seen what it would do, and may come after years.
        upkeep = repository.upkeep(retention, heeds_clock=False)
        if dry_run:
            tally = upkeep.due(now)
        else:
            while upkeep.work(now):
                pass
            tally = upkeep.tally
        space = repository.space()
    if json:
        document = {"dry_run": dry_run, **tally_document(tally), **space_document(space)}
        print_json({"schema": "monitor.db.prune/1", **document})
    else:
        print_text(tally_text(tally, dry_run=dry_run))
        print_space(space)


def _print(found: SchemaCheck, text: str, *, as_json: bool) -> None:
    if as_json:
        document = {"state": found.state, "found": found.found, "wanted": found.wanted}
        print_json({"schema": "monitor.db/1", **document})
    else:
        print_text(text)
