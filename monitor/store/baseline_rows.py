"""What goes into the baseline store and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from monitor.health.baseline import Baseline, BaselinePoint
from monitor.model import Identity


class Origin(StrEnum):
    """How a baseline came about."""

    RECORD = "record"
    """Watched on a live server without speculation."""
    IMPORT = "import"
    """Read from the result of a load tool."""
    BENCH = "bench"
    """Measured by a load run of our own."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that points of a curve were read from."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a curve comes from, so that it can be trusted or repeated later."""

    how: Origin
    tool: str
    files: tuple[SourceFile, ...] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)
    """The command's parameters; plain values, never a secret."""
    who: str = ""
    """``user@host``."""
    start: float | None = None
    end: float | None = None
    """The time that was measured, in seconds since the epoch."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewBaseline:
    """A curve that is to be stored."""

    name: str
    points: tuple[BaselinePoint, ...]
    identity: Identity
    provenance: Provenance
    reason: str | None = None
    """Why it should not be trusted: it was stored by force. None for a good one."""


@dataclass(frozen=True, slots=True)
class StoredBaseline:
    """A stored curve, and what is known about it."""

    id: int
    service: str
    name: str
    version: int
    created_at: float
    points: tuple[BaselinePoint, ...]
    identity: Identity
    provenance: Provenance
    reason: str | None
    deleted_at: float | None
    active: bool

    @property
    def valid(self) -> bool:
        """Whether it was stored without force."""
        return self.reason is None

    @property
    def label(self) -> str:
        """The name that is shown: ``plain``, and ``plain#2`` for the second of that name."""
        return self.name if self.version == 1 else f"{self.name}#{self.version}"

    @property
    def baseline(self) -> Baseline:
        """The curve as the health core compares with it."""
        measured_at = self.created_at if self.provenance.end is None else self.provenance.end
        return Baseline(self.label, self.points, self.identity, measured_at)
