"""The command line: thin commands, no logic."""

from monitor.cli.runner import main

__all__ = ["main"]
