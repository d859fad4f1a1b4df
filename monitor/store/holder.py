"""Which process holds a lease, and whether one that does is certainly gone."""

from __future__ import annotations

import json
import os
import socket
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

_PROC = Path("/proc")
_STATE, _START = 0, 19
"""Fields of ``/proc/PID/stat`` after the name: the state, and when the process began."""
_ENDED = frozenset("ZX")


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that asks for a lease; two of them in one process differ by their id."""

    id: str
    host: str
    pid: int
    place: str = ""
    """Where the number of the process means this process: this start of the machine, and its
    container; empty where the system does not tell."""
    start: str = ""
    """When the process began, so that another one with its number is told from it."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def to_json(self) -> str:
        """Text that ``from_json`` reads back."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Holder:
        """What ``to_json`` wrote."""
        return Holder(**json.loads(text))


def this_process() -> Holder:
    """A new holder for this process."""
    pid = os.getpid()
    fields = _fields(pid)
    start = fields[_START] if fields else ""
    return Holder(uuid.uuid4().hex, socket.gethostname(), pid, _place(), start)


def is_gone(holder: Holder) -> bool:
    """Whether a process has certainly ended: only of those of this machine that is known."""
    if not holder.place or holder.place != _place():
        return False
    fields = _fields(holder.pid)
    return fields is None or fields[_START] != holder.start or fields[_STATE] in _ENDED


def _place() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _fields(pid: int) -> list[str] | None:
    """What the system says of a process; None where there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name of a program may hold spaces and parentheses of its own.
    return text.rpartition(")")[2].split()
