"""Runs a command and turns whatever happens into an exit code and at most a few lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from monitor.cli import exits
from monitor.cli.app import command
from monitor.cli.output import print_error
from monitor.model import MonitorError


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the program and ends it with the exit code; errors become one line each."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code; nothing is raised."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character must not end the program.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    try:
        code = _guarded(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at its end, which must not fail a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.BROKEN_PIPE
    return code


def _guarded(arguments: Sequence[str]) -> int:
    try:
        # Without a command the help is the answer, on standard output like any other.
        given = list(arguments) or ["--help"]
        code = command().main(given, prog_name="monitor", standalone_mode=False)
    except typer.TyperException as error:
        print_error(_usage_line(error))
        return exits.USAGE
    except MonitorError as error:
        print_error(str(error))
        return exits.USAGE
    except (KeyboardInterrupt, typer.Abort):
        return exits.INTERRUPTED
    except BrokenPipeError:
        raise
    except SystemExit as error:
        # The one thing for which typer ends the program by itself here.
        raise BrokenPipeError from error
    except Exception as error:
        # The last border: a mistake of ours becomes one line too, unless more is asked for.
        if os.environ.get("MONITOR_DEBUG"):
            raise
        text = f"internal error: {type(error).__name__}: {error}"
        print_error(f"{' '.join(text.split())} (MONITOR_DEBUG=1 shows where)")
        return exits.USAGE
    return code if isinstance(code, int) else exits.OK


def _usage_line(error: typer.TyperException) -> str:
    text = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    where = context.command_path if context else "monitor"
    return f"{text[:1].lower()}{text[1:]} (see '{where} --help')"
