"""Runs a program with a deadline, a bounded output and next to no environment."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from monitor.model import MonitorError

MAX_OUTPUT = 64 * 1024
_PASSED = ("PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT")


class ChildError(MonitorError):
    """A program could not be started, or did not end in time."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended."""

    code: int
    output: str
    """The beginning of what it wrote, errors included."""

    @property
    def how(self) -> str:
        """The way it ended, in words."""
        return f"exit code {self.code}" if self.code >= 0 else f"killed by signal {-self.code}"


def environment(names: Sequence[str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables a child is given: ours may hold the secrets of everything else."""
    return {name: environ[name] for name in (*_PASSED, *names) if name in environ}


def run(
    arguments: Sequence[str], text: bytes, timeout: float, environ: Mapping[str, str]
) -> Finished:
    """Runs a program without a shell.

    Raises:
        ChildError: it cannot be started, or was killed at the deadline.
    """
    # Files instead of pipes: what the program leaves running cannot hold us up with a pipe that
    # stays open, and a program that does not read cannot block us.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(text)
        given.seek(0)
        try:
            process = subprocess.Popen(  # noqa: S603 - no shell, and the list is the user's
                list(arguments),
                stdin=given,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                start_new_session=True,
                close_fds=True,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "its arguments are not valid"
            raise ChildError(f"the command cannot be started: {reason}") from None
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ChildError(f"the command did not end within {round(timeout, 2):g} s") from None
        finally:
            # Its whole group: what it started itself must not outlive it.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(0)
        return Finished(code, said.read(MAX_OUTPUT).decode("utf-8", "replace"))
