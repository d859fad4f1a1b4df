"""The commands by name; a command's module is imported only when it is called."""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from monitor import __version__
from monitor.cli.apps import Group, group

_COMMANDS = {
    "check": "monitor.cli.check",
    "run": "monitor.cli.run",
    "status": "monitor.cli.status",
    "history": "monitor.cli.history",
    "export": "monitor.cli.export",
    "replay": "monitor.cli.replay",
    "explain": "monitor.cli.explain",
    "reference": "monitor.cli.reference",
    "pays": "monitor.cli.pays",
    "compare": "monitor.cli.compare",
    "alerts": "monitor.cli.alerts",
    "silence": "monitor.cli.silence",
    "rollback": "monitor.cli.rollback",
    "baseline": "monitor.cli.baseline",
    "backfill": "monitor.cli.backfill",
    "config": "monitor.cli.config",
    "db": "monitor.cli.db",
    "grafana": "monitor.cli.grafana",
    "demo": "monitor.cli.demo",
}


class _LazyGroup(Group):
    """Finds commands by the names of their modules, which each hold an ``app``.

    The database and the web server take longer to import than ``check`` takes to run.
    """

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        return [name for name, module in _COMMANDS.items() if find_spec(module)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.list_commands(ctx):
            near = difflib.get_close_matches(cmd_name, _COMMANDS, n=1)
            if near:
                raise typer.TyperException(
                    f"no such command '{cmd_name}'; did you mean '{near[0]}'?"
                )
            return None
        command = typer.main.get_command(import_module(_COMMANDS[cmd_name]).app)
        command.name = cmd_name
        return command


app = group(
    "Tells whether speculative decoding pays on your vLLM and SGLang servers.",
    cls=_LazyGroup,
    epilog="Exit codes: 0 fine, 1 the answer is bad, 2 wrong usage, 3 no verdict possible.",
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it by position
    if wanted:
        typer.echo(f"monitor {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def command() -> Any:
    """The root command, ready to be run."""
    return typer.main.get_command(app)
