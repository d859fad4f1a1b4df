"""How a command, and a group of commands, is made: all alike, with help in plain text.

The boxes that typer draws by default cut off long names of options at 80 columns, and
give flags a type as if they took a value. Plain help can be read, searched and copied anywhere.
"""

from __future__ import annotations

from typing import Any

import typer
import typer.core

from monitor.cli import exits


class Command(typer.core.TyperCommand):
    """A command whose help names arguments without the types that they have in the code."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes arguments and options, as typer does but for those types."""
        records: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record and isinstance(param, typer.core.TyperArgument):
                records["Arguments"].append((param.display_name_raw, record[1]))
            elif record:
                records["Options"].append(record)
        for title, lines in records.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


class _App(typer.Typer):
    """An app whose commands are of that class."""

    def command(self, name: str | None = None, **options: Any) -> Any:
        return super().command(name, cls=Command, **options)


class Group(typer.core.TyperGroup):
    """A group that lists its commands with their whole sentences, also when none is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments; without any the help is the answer."""
        if not args:
            typer.echo(ctx.get_help())
            raise typer.Exit(exits.USAGE)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands; typer would cut each sentence at the end of its line."""
        rows = [
            (name, command.get_short_help_str(limit=1000))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name))
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def single() -> typer.Typer:
    """An app that is one command."""
    return _App(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def group(sentence: str, *, cls: type[Group] = Group, epilog: str | None = None) -> typer.Typer:
    """An app that is a group of commands, and shows its help when none is given."""
    return _App(
        cls=cls,
        help=sentence,
        epilog=epilog,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
