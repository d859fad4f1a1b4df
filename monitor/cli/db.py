"""``monitor db``: the schema of the database."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli import exits
from monitor.cli.options import JsonOption
from monitor.cli.output import print_json, print_text
from monitor.config.schema import DEFAULT_DATABASE
from monitor.store import schema
from monitor.store.schema import SchemaCheck, SchemaState

app = typer.Typer(
    help="Look after the schema of the database.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

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


def _print(found: SchemaCheck, text: str, *, as_json: bool) -> None:
    if as_json:
        document = {"state": found.state, "found": found.found, "wanted": found.wanted}
        print_json({"schema": "monitor.db/1", **document})
    else:
        print_text(text)
