"""What the server would need without speculation: a curve of TPOT over running requests."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import attrgetter

from monitor.model import Identity

FASTEST_TPOT = 10e-6
SLOWEST_TPOT = 10.0
"""A time per output token outside these seconds is a mistake of units, not a server."""


@dataclass(frozen=True, slots=True)
class BaselinePoint:
    """Time per output token at one load, measured without speculation."""

    running: float
    tpot: float
    """Seconds per output token."""
    seconds: float = 0.0
    """How long this load was observed."""
    requests: float = 0.0
    spread: float | None = None
    """Relative standard deviation between intervals."""
    context: float | None = None
    """Mean prompt tokens of a request."""
    prefix_hit_share: float | None = None
    """Share of prompt tokens found in the prefix cache."""


_RUNNING = attrgetter("running")


@dataclass(frozen=True, slots=True)
class Baseline:
    """A measured curve, ascending in ``running``, and what it was measured on."""

    name: str
    points: tuple[BaselinePoint, ...]
    identity: Identity = field(default_factory=Identity)
    """Parts that are None match anything."""
    measured_at: float | None = None
    """When the measuring ended, where that is known."""

    @property
    def running_range(self) -> tuple[float, float]:
        """The loads between which the curve may be read."""
        return self.points[0].running, self.points[-1].running

    def tpot(self, running: float) -> float | None:
        """Seconds per output token at ``running`` requests, or None outside the range.

        The curve is read linearly and never extrapolated. While anything decodes, at least
        one request does, so a mean below one is read at one (shared convention of all load
        figures here).
        """
        points = self.points
        load = max(running, 1.0)
        if not points[0].running <= load <= points[-1].running:
            return None
        right = bisect_right(points, load, key=_RUNNING)
        if right == len(points):
            return points[-1].tpot
        low, high = points[right - 1], points[right]
        share = (load - low.running) / (high.running - low.running)
        return low.tpot + share * (high.tpot - low.tpot)

    def matches(self, identity: Identity) -> bool:
        """Whether the curve was measured on the same kind of server.

        Only what both sides know is compared. The method and the draft size belong to
        speculation, which a baseline does not have.
        """
        pairs = (
            (self.identity.engine, identity.engine),
            (self.identity.engine_version, identity.engine_version),
            (self.identity.model, identity.model),
            (self.identity.tensor_parallel, identity.tensor_parallel),
        )
        return all(a is None or b is None or a == b for a, b in pairs)


@dataclass(frozen=True, slots=True)
class QuickSpeeds:
    """Single-stream output speeds measured with and without speculation, in tokens/s."""

    with_speculation: float
    without_speculation: float
