"""What is normal for a target: acceptance by hour of day, and how much it varies.

A fixed threshold cannot serve two traffic levels, and the reference, not the test, is the main
lever (docs/statistics.md). The reference is learnt from healthy history only, an hour late, so
that it never learns the fault it should show.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, NamedTuple

from monitor.health.detect import DRAFTS_RATIO
from monitor.health.interval import accepted_variance
from monitor.health.ledger import add
from monitor.model import Counts

HOURS = 24
GROUPS_OF_HOURS = (1, 3, 7, 24)
"""An hour with little behind it is read together with as many neighbours on either side: a rate
that climbs over the day would otherwise be read too high at one end and too low at the other."""
LEAST_REQUESTS = 340.0
"""Requests behind a group of hours for a standard error of 0.01."""
_ERROR = 0.01
LEAST_OF_MANY = 85.0
"""Requests behind the widest group of hours that is still a profile: a standard error of 0.02,
which the detector tolerates. One mean for the day would be off by 0.03 and more."""
LEAST_EVER = 60.0
"""Requests before there is a reference at all."""
_ENOUGH = {7: LEAST_OF_MANY, HOURS: LEAST_EVER}
BLOCK_SECONDS = 60.0
LEARN_AFTER = 3600.0
"""Seconds a block waits before it is learnt; an alarm meanwhile throws it away."""
MEMORY_BLOCKS = 7.0 * 24.0 * 60.0
"""Blocks after which what was learnt has faded to a third: seven days of minutes."""
DEFAULT_SPREAD = 0.017
"""Variance between requests to assume before it is learnt (standard deviation 0.13)."""
DEFAULT_CORRELATION = 3.0
LEAST_RUNS = 30.0
"""Pairs of neighbouring runs before the correlation is believed: of an hour or two."""
MARGIN_ERRORS = 4.0
"""Standard errors of the correlation by which it is taken to be larger than it was learnt."""
MEMORY_RUNS = 1000.0
"""Pairs of runs after which what was learnt of the correlation has faded to a third."""
_REQUEST_LIVES = 6.0
_LEAST_OF_SHARE = 0.02
"""As if nothing were accepted more often than 98 in 100."""


_KEPT = (
    "positions",
    "position_drafts",
    "requests",
    "effect_above",
    "effect_below",
    "spread_above",
    "spread_below",
    "run_squares",
    "run_number",
    "runs",
    "pinned",
    "learnt_until",
)


@dataclass(slots=True)
class HourSums:
    """Accepted and draft tokens of one hour of the day."""

    accepted: float = 0.0
    draft_tokens: float = 0.0
    requests: float = 0.0


@dataclass(slots=True)
class Block:
    """A minute or more of figures, waiting to be learnt."""

    start: float
    end: float
    counts: Counts = field(default_factory=Counts)


class Normal(NamedTuple):
    """What is expected of a scrape at some hour."""

    rate: float
    hours: int
    """How many hours of the day the figure was read over; 24 is one mean for all."""
    requests: float

    @property
    def error(self) -> float:
        """Standard error of the rate."""
        return _ERROR * sqrt(LEAST_REQUESTS / self.requests)


@dataclass(slots=True)
class Reference:
    """The learnt normal of one target under one fingerprint."""

    hours: list[HourSums] = field(default_factory=lambda: [HourSums() for _ in range(HOURS)])
    positions: list[float] = field(default_factory=list)
    """Accepted tokens by position, fading like the rest."""
    position_drafts: float = 0.0
    requests: float = 0.0
    """Requests behind all hours together."""
    effect_above: float = 0.0
    effect_below: float = 0.0
    """Numerator and denominator of the design effect φ."""
    spread_above: float = 0.0
    spread_below: float = 0.0
    """Numerator and denominator of the variance between requests."""
    run_squares: float = 0.0
    run_number: float = 0.0
    """Squared differences of the sums of deviations over neighbouring runs, and what they would
    be if no scrape repeated another."""
    runs: float = 0.0
    """Pairs of runs behind them."""
    pinned: float | None = None
    """A rate set by the operator; nothing is learnt while it stands."""
    learnt_until: float | None = None
    waiting: deque[Block] = field(default_factory=deque)
    _text: bytes | None = None
    _normals: dict[int, Normal | None] = field(default_factory=dict)
    _rates: tuple[float, ...] | None = None
    _mean: float | None = None
    """Acceptance rate over all hours."""

    # -- reading -----------------------------------------------------------------------

    def normal(self, at: float) -> Normal | None:
        """The expected acceptance rate at a time, or None before enough was learnt."""
        if self.pinned is not None:
            return Normal(self.pinned, HOURS, LEAST_REQUESTS)
        hour = hour_of(at)
        here = self._hour(hour)
        if here is None or here.hours >= HOURS:
            return here
        # What was learnt of an hour holds in its middle; between two middles it is a line.
        beyond = at % 3600.0 / 3600.0 - 0.5
        other = (hour + (1 if beyond > 0.0 else -1)) % HOURS
        side = self._hour(other)
        if side is None or side.hours >= HOURS or self.hours[other].draft_tokens <= 0.0:
            return here
        rate = here.rate + abs(beyond) * (side.rate - here.rate)
        return Normal(rate, here.hours, here.requests)

    def _hour(self, hour: int) -> Normal | None:
        if hour not in self._normals:
            self._normals[hour] = self._read(hour)
        return self._normals[hour]

    def _read(self, hour: int) -> Normal | None:
        for width in GROUPS_OF_HOURS:
            first = hour - width // 2
            group = [self.hours[index % HOURS] for index in range(first, first + width)]
            requests = sum([sums.requests for sums in group])
            if requests < _ENOUGH.get(width, LEAST_REQUESTS):
                continue
            tokens = sum([sums.draft_tokens for sums in group])
            if tokens > 0.0:
                return Normal(sum([sums.accepted for sums in group]) / tokens, width, requests)
        return None

    @property
    def design_effect(self) -> float | None:
        """φ: draft tokens per independent sample; None before it is learnt."""
        if self.effect_below <= 0.0 or self.requests < LEAST_REQUESTS:
            return None
        return max(self.effect_above / self.effect_below, 1.0)

    @property
    def spread(self) -> float:
        """Variance of the acceptance rate between requests."""
        if self.spread_below <= 0.0 or self.requests < LEAST_REQUESTS:
            return DEFAULT_SPREAD
        return max(self.spread_above / self.spread_below, 1e-5)

    def spread_at(self, rate: float) -> float:
        """The same in an hour with this rate: like that of any share it is largest at one half."""
        if self._mean is None:
            tokens = sum(sums.draft_tokens for sums in self.hours)
            accepted = sum(sums.accepted for sums in self.hours)
            self._mean = accepted / tokens if tokens > 0.0 else rate
        return self.spread * _of_share(rate) / _of_share(self._mean)

    @property
    def correlation(self) -> float:
        """By how much neighbouring scrapes repeat each other, with a margin; 1 is not at all.

        The mean of n squares has a relative standard error of √(2/n).
        """
        if self.runs < LEAST_RUNS or self.run_number <= 0.0:
            return DEFAULT_CORRELATION
        margin = 1.0 + MARGIN_ERRORS * sqrt(2.0 / self.runs)
        return max(self.run_squares / self.run_number, 1.0) * margin

    @property
    def rates(self) -> tuple[float, ...]:
        """Acceptance by position."""
        if self._rates is None:
            drafts = self.position_drafts
            self._rates = tuple(a / drafts for a in self.positions) if drafts > 0.0 else ()
        return self._rates

    def to_text(self, encode: Callable[[object], bytes]) -> bytes:
        """Everything learnt as JSON; what still waits to be learnt is not worth keeping.

        The text is kept until something is learnt, because it is asked for with each page.
        ``encode`` makes JSON of plain values; most are floats, for which the standard library
        takes ten times as long as others.
        """
        if self._text is None:
            document = {
                "hours": [[s.accepted, s.draft_tokens, s.requests] for s in self.hours],
                **{name: getattr(self, name) for name in _KEPT},
            }
            self._text = encode(document)
        return self._text

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Reference:
        """The reference that ``to_text`` wrote; one of an earlier release counted no runs."""
        document = {"runs": 0.0} | document
        hours = [HourSums(*sums) for sums in document["hours"]]
        if len(hours) != HOURS:
            raise ValueError("another number of hours")
        return cls(hours=hours, **{name: document[name] for name in _KEPT})

    # -- learning ----------------------------------------------------------------------

    def offer(self, start: float, end: float, counts: Counts, *, healthy: bool) -> None:
        """Takes in one interval; unhealthy ones throw away all that still waits."""
        if self.pinned is not None:
            return
        if not healthy:
            self.waiting.clear()
            return
        if self.waiting and self._fits(self.waiting[-1], start):
            block = self.waiting[-1]
            block.counts, block.end = add(block.counts, counts), end
        else:
            self.waiting.append(Block(start, end, counts))
        while self.waiting and self.waiting[0].end <= end - LEARN_AFTER:
            self._learn(self.waiting.popleft())

    def _fits(self, block: Block, start: float) -> bool:
        """Whether an interval still belongs to the last block, which spans some request lives."""
        if start > block.end or hour_of(block.start) != hour_of(start):
            return False
        lives = _REQUEST_LIVES * _request_seconds(block.counts)
        return start - block.start < max(BLOCK_SECONDS, lives)

    def _learn(self, block: Block) -> None:
        counts = block.counts
        if counts.draft_tokens <= 0.0 or counts.drafts <= 0.0:
            return
        before = self.normal(block.start)
        if before is not None:
            self._learn_variation(counts, before.rate)
        fade = 1.0 - 1.0 / MEMORY_BLOCKS
        for sums in self.hours:
            sums.accepted *= fade
            sums.draft_tokens *= fade
            sums.requests *= fade
        sums = self.hours[hour_of(block.start)]
        sums.accepted += counts.accepted_tokens
        sums.draft_tokens += counts.draft_tokens
        sums.requests += _requests(counts)
        self._learn_positions(counts, fade)
        self.requests = self.requests * fade + _requests(counts)
        self.learnt_until = block.end
        self._forget_answers()

    def _learn_variation(self, counts: Counts, rate: float) -> None:
        """φ from the squared deviation of whole blocks, in which requests are complete."""
        fade = 1.0 - 1.0 / MEMORY_BLOCKS
        deviation = counts.accepted_tokens - rate * counts.draft_tokens
        self.effect_above = self.effect_above * fade + deviation * deviation
        self.effect_below = self.effect_below * fade + counts.draft_tokens * rate * (1.0 - rate)
        requests = max(_requests(counts), 1.0)
        k = counts.draft_tokens / counts.drafts
        inside = length_variance(self.rates, rate, k) / (k * k * counts.drafts)
        weight = 1.0 / (1.0 + (requests - 1.0) / DRAFTS_RATIO)
        excess = (deviation / counts.draft_tokens) ** 2 - inside
        self.spread_above = self.spread_above * fade + excess * weight
        self.spread_below = self.spread_below * fade + weight * weight

    def _learn_positions(self, counts: Counts, fade: float) -> None:
        if counts.position_drafts <= 0.0:
            return
        if len(self.positions) != len(counts.positions):
            self.positions, self.position_drafts = [0.0] * len(counts.positions), 0.0
        self.positions = [
            old * fade + new for old, new in zip(self.positions, counts.positions, strict=True)
        ]
        self.position_drafts = self.position_drafts * fade + counts.position_drafts

    def learn_run(self, difference: float, number: float) -> None:
        """Takes in by how much the sums of two neighbouring runs of scrapes differ.

        ``number`` is the variance of the difference if no scrape repeats another. What is
        common to both runs, like an error of the reference or a slow wander of the traffic, is
        not correlation between scrapes: the tolerance of the detector is there for it.
        """
        fade = 1.0 - 1.0 / MEMORY_RUNS
        self.runs = self.runs * fade + 1.0
        self.run_squares = self.run_squares * fade + difference * difference
        self.run_number = self.run_number * fade + number
        self._text = None

    def pin(self, rate: float | None) -> None:
        """Sets the rate that counts as normal, or with None goes back to what was learnt."""
        self.pinned = rate
        self._forget_answers()

    def _forget_answers(self) -> None:
        self._text = self._rates = self._mean = None
        self._normals.clear()


def hour_of(at: float) -> int:
    """Hour of the day, UTC."""
    return int(at // 3600.0) % HOURS


def _of_share(rate: float) -> float:
    """What the variance of a share with this mean is proportional to."""
    return max(rate * (1.0 - rate), _LEAST_OF_SHARE)


def length_variance(rates: tuple[float, ...], rate: float, k: float) -> float:
    """Variance of the accepted tokens of a draft, from positions or of a flat drafter."""
    exact = accepted_variance(1.0, rates)
    return exact if exact else max(k * rate * (1.0 - rate) * sqrt(max(k, 1.0)), 1e-6)


def _requests(counts: Counts) -> float:
    """Requests that took part: those that finished, or those that ran."""
    running = counts.running_seconds / counts.seconds if counts.seconds > 0.0 else 0.0
    return max(counts.requests, running)


def _request_seconds(counts: Counts) -> float:
    """Mean decode time of a request."""
    return counts.decode_seconds / counts.requests if counts.requests > 0.0 else 0.0
