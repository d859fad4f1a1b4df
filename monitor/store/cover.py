"""What is known already of the time of one target: watched live, or filled in before."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stretch:
    """Time of which something is stored; both ends belong to it. Stretches do not overlap, but
    one may begin where another ends."""

    start: float
    end: float
    memory: str | None = None
    """What was remembered at the end of time that was filled in; None for time watched live."""

    @property
    def live(self) -> bool:
        """Whether the daemon watched; what it saw wins over what is found later."""
        return self.memory is None


class Cover:
    """The stretches of one target in order of time."""

    def __init__(self, stretches: Iterable[Stretch]) -> None:
        self._stretches = sorted(stretches, key=lambda stretch: stretch.start)
        self._starts = [stretch.start for stretch in self._stretches]

    def at(self, time: float) -> Stretch | None:
        """The stretch that a moment belongs to; the later of two that meet there."""
        before = self.before(time)
        return before if before is not None and time <= before.end else None

    def before(self, time: float) -> Stretch | None:
        """The last stretch that has begun by a moment."""
        index = bisect_right(self._starts, time)
        return self._stretches[index - 1] if index else None

    def free_from(self, time: float) -> float:
        """The end of the stretches that cover all from ``time`` on, or ``time`` itself."""
        for stretch in self._stretches:
            if stretch.start <= time < stretch.end:
                time = stretch.end
        return time


def without(stretches: Sequence[tuple[float, float]], filled: Sequence[Stretch]) -> list[Stretch]:
    """What of the time with rows was watched live: all that was not filled in afterwards.

    ``stretches`` and ``filled`` ascend.
    """
    live = []
    for start, end in stretches:
        begin = start
        for other in filled:
            if other.start < end and other.end > begin:
                if other.start > begin:
                    live.append(Stretch(begin, other.start))
                begin = other.end
        if begin < end:
            live.append(Stretch(begin, end))
    return live
