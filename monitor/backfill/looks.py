"""What every source of the past gives: looks at targets, as the daemon would have had them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from monitor.pipeline import Seen


class Look(NamedTuple):
    """One look at one target in the past."""

    target: str
    at: float
    """UTC seconds since the Unix epoch."""
    seen: Seen
    """A page as it was scraped, what lines of a log or stored rows told, or that there was none.

    The counters of a ``Sample`` are cumulative, as those of a page are: whoever has only what
    happened between two moments adds it up, from the first look on.
    """


@dataclass(slots=True)
class Findings:
    """What a source has found out; it grows while looks are drawn from it."""

    skipped: Counter[str] = field(default_factory=Counter)
    """How much was left out, by reason: short phrases, such as "line without a time"."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the user, each told once."""
    done: float | None = None
    """Share of the source that has been read, 0 to 1; None where its size is unknown."""

    def note(self, sentence: str) -> None:
        """Keeps a sentence, unless it is there already."""
        if sentence not in self.notes:
            self.notes.append(sentence)


class Source(Protocol):
    """A place from which the past can be read; opened once, and read from its beginning again
    with each call of ``looks``."""

    @property
    def findings(self) -> Findings:
        """What has been found out so far."""
        ...

    @property
    def targets(self) -> Sequence[str]:
        """The names of the targets that looks will be of."""
        ...

    def interval(self, target: str) -> float | None:
        """The usual time between two looks at a target, in seconds; None where unknown.

        Asked before the first look is drawn.
        """
        ...

    def looks(self, after: float) -> Iterator[Look]:
        """Looks later than ``after``, ascending in time over all targets, in flat memory.

        A source whose counters are sums of its own adds up what comes before ``after``, too:
        the figures of a look are the same wherever the reading begins.

        Raises:
            MonitorError: the source cannot be read (any further); one line for the user.
        """
        ...
