"""Tells workers behind one address apart by where their counters stand.

Birth times tell them apart where there are any, and where they differ. A balancer before servers
of SGLang, whose pages have none, or before workers that were forked in the same moment, leaves the
counters themselves: a worker goes on where it stood. In doubt a fall is a restart and a rise is
traffic, as with one server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from monitor.health.counters import fell, is_lower, monotone, progress

_BURST, _LEAP = 5.0, 20.0
"""How many times faster than of late a server seldom and never gets from one look to the next."""
_RATES, _LEAST_RATES = 8, 3
"""Of how many looks with traffic it is remembered how fast they were, and how many are needed."""
_PLACES = 8
_CLOSE = 0.95
"""Share of its present totals that a worker had at least when it was last seen. Counters of a
young server, which is restarted, may come near where they once stood by chance."""
_LOOKS_TO_CLIMB = 3
"""A restarted server does not reach its old totals within so few looks, unless it was young."""
_PROOF = 2
"""Returns to where a worker stood, after which it is certain that there are several."""


@dataclass(slots=True)
class Turns:
    """What is known of the workers that may answer in turns."""

    places: list[dict[str, float]] = field(default_factory=list)
    """Where counters stood when they fell, or another worker answered; the latest last."""
    rates: list[float] = field(default_factory=list)
    """How far counters came in a second, by ``progress``, in the last looks with traffic."""
    met: int = 0
    """Returns to where a worker stood, since the last fall to where a server begins."""
    is_high: bool = False
    """Whether the last fall ended higher than a restarted server can have come."""
    is_whole: bool = False
    """Whether everything fell then, which no damaged page does."""
    looks: int | None = None
    """Looks since the last fall; None once counters stand again where they fell from."""

    @property
    def is_certain(self) -> bool:
        """Whether it was no damaged page, and no young server that is soon as far again."""
        return self.met > 0

    def note(self, last: Mapping[str, float], deltas: Mapping[str, float], seconds: float) -> None:
        """Takes in how far a worker has come from where it was at the look before."""
        # A rise over a place where a worker stood may be a change of workers which nothing told.
        if not self.places or not self._are_between(_plus(last, deltas), last):
            self.rates = [*self.rates[1 - _RATES :], progress(deltas) / seconds]

    def leave(
        self,
        stood: Mapping[str, float],
        now: Mapping[str, float],
        seconds: float,
        *,
        lives: bool = False,
    ) -> None:
        """Keeps where counters stood before a restart, or before another worker answered.

        Args:
            stood: the counters of the look before, ``seconds`` ago.
            now: those of this look.
            seconds: the time between them.
            lives: whether it is known that no process was restarted in between.
        """
        place = monotone(stood)
        if not fell(now, stood):
            self.places, self.looks = [*self.places[1 - _PLACES :], place], None
            return
        pace = self._pace(seconds)
        self.is_high = lives or (pace is not None and progress(now) > _BURST * pace)
        self.is_whole = is_lower(now, stood)
        if lives or self._met(now):
            self.met += 1
        elif not self.is_high:
            # One server that begins anew, again and again, is soon past all places of its past.
            self.places, self.met = [], 0
        self.places, self.looks = [*self.places[1 - _PLACES :], place], 0

    def is_other(
        self, now: Mapping[str, float], last: Mapping[str, float], seconds: float
    ) -> bool:
        """Whether another worker answers than at the look before, ``seconds`` ago.

        ``now`` and ``last`` are the counters of both looks.
        """
        if self.looks is not None:
            self.looks += 1
        if not self.places:
            return False
        if fell(now, last):
            return self._met(now)
        if self.looks is not None and not fell(now, self.places[-1]):
            is_soon, self.looks = self.looks <= _LOOKS_TO_CLIMB, None
            if is_soon:
                is_close = progress(self.places[-1]) > _CLOSE * progress(now)
                self.met += self.is_whole and is_close
                return True
        if not self._are_between(now, last):
            return False
        pace = self._pace(seconds)
        leaps = pace is not None and progress(now) - progress(last) > _LEAP * pace
        return self.met >= _PROOF or (self.is_high and leaps)

    def _met(self, now: Mapping[str, float]) -> bool:
        """Whether a worker stood close below."""
        least = _CLOSE * progress(now)
        return any(progress(p) > least and not fell(now, p) for p in self.places)

    def _are_between(self, now: Mapping[str, float], last: Mapping[str, float]) -> bool:
        """Whether a worker stood between the two looks."""
        return any(
            progress(p) > progress(last) and not fell(p, last) and not fell(now, p)
            for p in self.places
        )

    def _pace(self, seconds: float) -> float | None:
        """How far the server comes in so many busy seconds; None while too little is known."""
        if len(self.rates) < _LEAST_RATES:
            return None
        # Not the fastest: that may have been a change of workers which nothing told.
        return sorted(self.rates)[-2] * seconds


def _plus(last: Mapping[str, float], deltas: Mapping[str, float]) -> dict[str, float]:
    return {name: last.get(name, 0.0) + delta for name, delta in deltas.items()}
