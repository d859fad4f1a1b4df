"""What the executor needs from around it: the journal, the lease, the probes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from monitor.rollback.evidence import Completion, Progress, Pulse
from monitor.rollback.model import Command, News


@dataclass(frozen=True, slots=True)
class StepRow:
    """One act in the journal: written before it is done, and again with its result."""

    id: str
    """Idempotency id; writing it again updates the row."""
    plan: str
    do: str
    share: float | None
    at: float
    """When it was first intended."""
    status: str
    """``intended``, ``done`` or ``failed``."""
    attempts: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """What one turn changed; it is stored whole or not at all."""

    service: str
    state: str
    """JSON text of the state that holds from now on."""
    phase: str
    """Its phase, for people who list."""
    plan: str | None
    steps: tuple[StepRow, ...] = ()
    news: tuple[News, ...] = ()
    """Each is a row of the audit; most also go to the receivers of alerts."""
    taken: tuple[str, ...] = ()
    """Ids of the commands that this turn has answered."""


class Journal(Protocol):
    """The store, as the executor of one process sees it. Raises ``StoreError``."""

    def load(self, service: str) -> str | None:
        """The state that ``save`` stored last; None for a service that is new."""
        ...

    def commands(self, service: str) -> Sequence[Command]:
        """Commands of operators that no turn has answered yet, the oldest first."""
        ...

    def save(self, record: Record, fence: int) -> None:
        """Stores all of it in one transaction.

        Raises:
            LeaseError: a lease with a higher fencing number has been given since.
            StoreError: the database does not take it; nothing was stored.
        """
        ...


class Lease(Protocol):
    """The lease under which one process of several acts."""

    def fence(self) -> int | None:
        """The fencing number, or None while another process, or nobody, holds it."""
        ...

    def remaining(self) -> float:
        """Seconds for which it surely is still held, on the steady clock; 0 if it is not."""
        ...


class Probe(Protocol):
    """Looks at the servers of one service. Nothing that a server does raises.

    Each call ends within ``timeout`` seconds, whatever the servers do; one that hangs is an
    answer with an ``error``. Returns one value for each server of the side.
    """

    def complete_baseline(self, timeout: float) -> tuple[Completion, ...]:
        """Asks each baseline server for a few tokens."""
        ...

    def complete_speculative(self, timeout: float) -> tuple[Completion, ...]:
        """Asks each server of the speculative side for a few tokens."""
        ...

    def pulse_baseline(self, timeout: float) -> tuple[Pulse, ...]:
        """Reads the metrics page of each baseline server."""
        ...

    def pulse_speculative(self, timeout: float) -> tuple[Pulse, ...]:
        """Reads the metrics page of each server of the speculative side."""
        ...

    def progress_baseline(self, timeout: float) -> Progress:
        """Whatever changes while the baseline side loads."""
        ...

    def progress_speculative(self, timeout: float) -> Progress:
        """Whatever changes while the speculative side loads."""
        ...
