"""Has it changed? Evidence that adds up over scrapes until it is enough.

Every scrape acceptance is compared with what is normal at this hour, minus a tolerance. The
shortfall becomes evidence that acceptance has dropped rather than being normal. Evidence adds
up, never below zero; one scrape may add at most ``CAP``; at ``THRESHOLD`` the detector alarms.
Idle scrapes add nothing. This is a CUSUM whose variance knows that requests, not tokens, are
independent (docs/statistics.md, with the measured false alarms and delays).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

THRESHOLD = 10.0
"""Evidence at which the detector alarms, in nats."""
CAP = 4.0
"""Most evidence one scrape may add."""
CEILING = 1.5 * THRESHOLD
"""Evidence beyond this is not kept: it would hold the alarm for as long as the fault lasted. The
part above the threshold keeps a small fault from seeming cured by chance."""
CLEAR_SECONDS = 900.0
"""How long there must have been hardly any evidence before an alarm may clear."""
HARDLY_ANY = THRESHOLD / 2.0
"""Evidence that noise alone often reaches: at some traffic it is never zero for long."""
DRAFTS_RATIO = 1.9
"""E[n²]/E[n]² of drafts per request in a typical mix: how much long requests dominate."""
FADING = 0.5
"""What a request still tells with each further scrape that it goes on for: it is the same request,
so that it may tell no more than two scrapes do in which all requests are new."""
LEAST_FRESH = 0.02
"""Even one request may become another after hours: what it tells never fades to less."""
_AT = 0.70
"""The reference rate at which the constants were chosen; others are scaled."""
_DROP = 0.10
_LEAST_DROP = 0.05
_TOLERANCE = 0.03
_LEAST_TOLERANCE = 0.02
_WITHIN_HOUR = 0.02
"""What moves acceptance within an hour; tolerated beside the error of the profile."""
_STATIC_TOLERANCE = 0.06
"""Tolerance while there is no profile by hour: the traffic mix moves acceptance by ± 0.05."""


class Shape(NamedTuple):
    """What the detector is set to find, for one reference rate."""

    drop: float
    tolerance: float


def shape_for(rate: float, *, by_hour: bool, error: float = 0.0) -> Shape:
    """Design drop and tolerance, scaled to the reference rate.

    ``error`` is the standard error of that rate, which a profile of few requests makes large.
    """
    scale = rate / _AT
    tolerance = max(_TOLERANCE, _WITHIN_HOUR + error) if by_hour else _STATIC_TOLERANCE
    return Shape(max(_DROP * scale, _LEAST_DROP), max(tolerance * scale, _LEAST_TOLERANCE))


@dataclass(slots=True)
class Cusum:
    """One detector: its evidence and since when it has been more than nothing."""

    evidence: float = 0.0
    rising_since: float | None = None
    """Start of the current excursion: the best guess of when the change came."""
    zero_since: float | None = None
    """When evidence last fell to zero, unless it has been more than hardly any since."""
    alarm_at: float | None = None
    """When the alarm was raised; None while there is none."""
    changed_at: float | None = None
    """When the change that raised the alarm came."""

    def add(
        self, start: float, end: float, shortfall: float, variance: float, shape: Shape
    ) -> None:
        """Takes in one scrape: ``shortfall`` is what is missing to normal, tolerance included.

        ``variance`` is that of the scrape's rate, with all correlation.
        """
        gained = shape.drop / variance * (shortfall - shape.drop / 2.0)
        self._move(start, end, min(max(0.0, self.evidence + min(CAP, gained)), CEILING))

    def _move(self, start: float, end: float, evidence: float) -> None:
        if evidence > 0.0 and self.rising_since is None:
            self.rising_since = start
        if evidence <= 0.0:
            self.rising_since = None
            self.zero_since = end if self.zero_since is None else self.zero_since
        elif evidence >= HARDLY_ANY:
            self.zero_since = None
        self.evidence = evidence
        if evidence >= THRESHOLD and self.alarm_at is None:
            self.alarm_at, self.changed_at = end, self.rising_since

    def clear_if(self, now: float, *, normal_again: bool) -> bool:
        """Ends the alarm when evidence has been low for long and the window looks normal."""
        if self.alarm_at is None or self.zero_since is None or not normal_again:
            return False
        if now - self.zero_since < CLEAR_SECONDS:
            return False
        self.reset()
        return True

    def reset(self) -> None:
        """Forgets everything: the drafts or the server are others than before."""
        self.evidence = 0.0
        self.rising_since = self.zero_since = self.alarm_at = self.changed_at = None


@dataclass(slots=True)
class Freshness:
    """How much of what a scrape tells comes from requests that have not told it before."""

    end: float | None = None
    """End of the last scrape."""
    running: float = 0.0
    """Requests that ran then."""
    share: float = 1.0

    def take(self, start: float, end: float, active: float, running: float) -> float:
        """The share of the next scrape, above 0 and at most 1.

        ``active`` requests took part in it, of which ``running`` are there at its end; those
        that ran at its beginning are not new.
        """
        old = min(self.running, active) if start == self.end else 0.0
        told = (active - old + FADING * self.share * old) / active if active > 0.0 else 1.0
        self.end, self.running, self.share = end, running, max(told, LEAST_FRESH)
        return self.share


class Scrape(NamedTuple):
    """What the precision of one scrape's acceptance rate depends on."""

    requests: float
    """Requests that were active."""
    drafts: float
    k: float
    length_variance: float
    """Variance of the accepted tokens of one draft."""
    fresh: float = 1.0
    """Share of what the scrape tells that was not told before."""


def rate_variance(scrape: Scrape, spread: float, correlation: float) -> float:
    """Variance of the acceptance rate of one scrape.

    acf / f · [sb² / (1 + (Q − 1) / 1.9) + Var(L) / (k² · drafts)]: the ``spread`` between the
    Q requests that were active, plus that inside them; f is the share that is ``fresh``, and
    ``correlation`` is by how much neighbouring scrapes repeat each other beside that.
    """
    between = spread / (1.0 + (max(scrape.requests, 1.0) - 1.0) / DRAFTS_RATIO)
    inside = scrape.length_variance / (scrape.k * scrape.k * scrape.drafts)
    return correlation * (between + inside) / scrape.fresh
