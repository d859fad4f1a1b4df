"""Tells workers behind one address apart by where their counters stand.

Birth times tell them apart where there are any, and where they differ. A balancer before servers
of SGLang, whose pages have none, or before workers that were forked in the same moment, leaves the
counters themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from monitor.health.counters import fell, is_lower, monotone, progress

_BURST, _LEAP = 5.0, 20.0
"""How many times faster than of late a server seldom and never gets from one look to the next."""
_RATES, _LEAST_RATES = 8, 3
"""Of how many looks with traffic it is remembered how fast they were, and how many are needed."""
_WORKERS = 8
_SAME = 0.5
"""Share of its present totals that a worker had at least when it was last seen."""


@dataclass(slots=True)
class Turns:
    """What is known of the workers that may answer in turns."""

    others: list[dict[str, float]] = field(default_factory=list)
    """Where counters stood when they fell, or another worker answered; the latest last."""
    rates: list[float] = field(default_factory=list)
    """How far counters came in a second, by ``progress``, in the last looks with traffic."""

    def remember(self, stood: Mapping[str, float]) -> None:
        """Keeps where counters stood that another worker may go on from."""
        self.others = [*self.others[1 - _WORKERS :], monotone(stood)]

    def note(self, deltas: Mapping[str, float], seconds: float) -> None:
        """Takes in what one worker has counted."""
        self.rates = [*self.rates[1 - _RATES :], progress(deltas) / seconds]

    def is_other(
        self, now: Mapping[str, float], last: Mapping[str, float], seconds: float, *, lives: bool
    ) -> bool:
        """Whether another worker answers than at the look before.

        Counters of a process that lives never fall, and those of one that was restarted stand no
        higher than it can have come since. Where they rise, another worker is told from traffic
        by a leap over a place where one stood. While it is not known how fast the server is, it is
        taken for one that stood close by.

        Args:
            now: counters of this look.
            last: those of the look before, ``seconds`` ago.
            seconds: the time between them.
            lives: whether it is known that no process was restarted in between.
        """
        if lives and is_lower(now, last):
            return True
        has_fallen = not lives and fell(now, last)
        if not has_fallen and not self.others:
            return False
        pace = self._pace(seconds)
        if pace is not None:
            if has_fallen:
                return progress(now) > _BURST * pace
            if progress(now) - progress(last) <= _LEAP * pace:
                return False
        # After a rise only those count that stood between the two looks.
        floor = 0.0 if has_fallen else progress(last)
        return any(
            not fell(now, other)
            and progress(other) > max(_SAME * progress(now), floor)
            and (has_fallen or not fell(other, last))
            for other in self.others
        )

    def _pace(self, seconds: float) -> float | None:
        """How far the server comes in so many busy seconds; None while too little is known."""
        if len(self.rates) < _LEAST_RATES:
            return None
        # Not the fastest: that may have been a change of workers which nothing told.
        return sorted(self.rates)[-2] * seconds
