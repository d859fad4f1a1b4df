"""What the executor asks of whatever moves traffic, and of whatever starts servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Act:
    """One act that the executor asks for."""

    id: str
    """Constant over all tries of the same act, so that the other side can apply it once."""
    fence: int
    """Number of the lease under which it is done; it grows with each holder."""
    timeout: float
    """Seconds for the whole call."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Where traffic goes, as it is observed and never as it is remembered."""

    share: float | None
    """Share of the baseline side, 0 to 1; None where it cannot be told."""
    detail: str
    """One line for people."""


class Actuator(Protocol):
    """Moves traffic between the speculative side and the baseline side of one service.

    Used by one thread at a time. All that fails raises ``ActuatorError``, in one line free of
    secrets. An act that is repeated changes nothing: each looks at the state before it changes
    it, and passes ``Act.id`` on where the other side can remember it.
    """

    def observe(self, timeout: float) -> Traffic:
        """Asks where traffic goes; changes nothing."""
        ...

    def shift(self, share: float, act: Act) -> None:
        """Gives the baseline side this share, 0 to 1; returns once that has been seen."""
        ...

    def restore(self, act: Act) -> None:
        """Puts all traffic where it was before the first shift."""
        ...

    def would(self, share: float) -> str:
        """What ``shift`` would do, in one sentence. Asks nobody."""
        ...

    def reachable(self, shares: Sequence[float]) -> tuple[float, ...]:
        """The shares that can really be set, nearest to those wanted, ascending, each once.

        A router without weights can only split by its number of workers. Asks nobody.
        """
        ...


class Starter(Protocol):
    """Brings the baseline side up, or restarts the speculative side.

    ``start`` and ``restart`` return once the order was taken; whether a server then serves is
    for the probe to find out.
    """

    def start(self, act: Act) -> None:
        """Starts the baseline side; where it already runs, nothing changes."""
        ...

    def restart(self, act: Act) -> None:
        """Restarts the speculative side."""
        ...

    def would_start(self) -> str:
        """What ``start`` would do, in one sentence. Asks nobody."""
        ...

    def would_restart(self) -> str:
        """What ``restart`` would do, in one sentence. Asks nobody."""
        ...
