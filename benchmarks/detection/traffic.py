"""Seeded traffic of a server with speculation, of which the truth is known.

Requests arrive as a Poisson process. Each has a log-normal number of drafts, an acceptance of
its own and an AR(1) process inside, so that tokens of one request succeed or fail together. The
mix of the traffic moves acceptance by hour of day, and a slow wander moves it besides; traffic
follows the day and rests for two hours each night.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SCRAPE = 15.0
PER_HOUR = 240
PER_DAY = 24 * PER_HOUR
CHUNK = 20
"""Drafts of a request that are drawn at once, with one acceptance."""
SPEED = 30.0
"""Drafts per second of a running request."""
BETWEEN, INSIDE, PERSISTENCE = 0.6, 0.4, 0.8
"""Spread of the latent acceptance between requests and inside them, and its memory by chunk."""
LENGTH_SPREAD = 0.8
LONGEST = 20_000
IDLE_FROM, IDLE_TO = 3.0, 5.0
_LEAD = 80
"""Scrapes simulated before the first one, so that requests are under way when it begins."""
_BATCH = 100_000


@dataclass(frozen=True, slots=True)
class Load:
    """What one kind of server has to do."""

    drafts_per_second: float
    mean_drafts: float = 120.0
    k: int = 3
    healthy: float = 0.70
    """Acceptance rate over the day while nothing is wrong."""
    diurnal: float = 0.05
    wander: float = 0.01

    @property
    def requests_per_day(self) -> float:
        """Requests on a day; the rest at night is made good by nobody."""
        return self.drafts_per_second / self.mean_drafts * 86_400.0


@dataclass(frozen=True, slots=True)
class Fault:
    """Acceptance falls by ``drop`` at scrape ``at``, at once or over ``ramp`` scrapes."""

    at: int
    drop: float
    ramp: int = 0


@dataclass(slots=True)
class Traffic:
    """What happened in each scrape interval; arrays of one length."""

    first: int
    """Number of the first scrape since midnight of the first day."""
    k: int
    drafts: Floats
    accepted: Floats
    """By position: one row for each."""
    finished: Floats
    running: Floats
    """Requests that run at the end of the interval: what the gauge shows."""
    target: Floats
    """The true acceptance rate."""

    @property
    def total(self) -> Floats:
        """Accepted tokens."""
        return np.asarray(self.accepted.sum(axis=0), dtype=np.float64)

    def part(self, begin: int, end: int) -> Traffic:
        """The traffic of some of its intervals."""
        span = slice(begin, end)
        return Traffic(
            self.first + begin,
            self.k,
            self.drafts[span],
            self.accepted[:, span],
            self.finished[span],
            self.running[span],
            self.target[span],
        )


def hours(first: int, number: int) -> Floats:
    """Hours since the first midnight at the start of each scrape interval."""
    return np.asarray((np.arange(number) + first) * SCRAPE / 3600.0, dtype=np.float64)


def profile(load: Load, at: Floats) -> Floats:
    """The true acceptance by time, without wander and faults."""
    wave = np.sin(2.0 * np.pi * (at - 9.0) / 24.0)
    return np.asarray(load.healthy + load.diurnal * wave, dtype=np.float64)


def busyness(at: Floats) -> Floats:
    """Traffic by time, as a multiple of its mean; zero at night."""
    wave = 1.0 + 0.6 * np.sin(2.0 * np.pi * (at - 9.0) / 24.0)
    day = at % 24.0
    rests = (day >= IDLE_FROM) & (day < IDLE_TO)
    busy: Floats = np.where(rests, 0.0, wave)
    return busy


def truth(
    load: Load, first: int, number: int, random: np.random.Generator, fault: Fault | None = None
) -> Floats:
    """The acceptance rate a request would have on average, by scrape interval."""
    target = profile(load, hours(first, number)) + _wander(load.wander, number, random)
    if fault is not None:
        since = np.arange(number) - fault.at
        share = np.clip(since / fault.ramp, 0.0, 1.0) if fault.ramp else (since >= 0) * 1.0
        target = target - fault.drop * share
    clipped: Floats = np.clip(target, 0.02, 0.97)
    return clipped


def _wander(deviation: float, number: int, random: np.random.Generator) -> Floats:
    """A process that forgets itself within an hour (Ornstein-Uhlenbeck)."""
    keep = exp(-SCRAPE / 3600.0)
    steps = random.standard_normal(number) * deviation * sqrt(1.0 - keep * keep)
    value, path = deviation * float(random.standard_normal()), np.empty(number)
    for index, step in enumerate(steps.tolist()):
        value = keep * value + step
        path[index] = value
    return path


class Latent:
    """Translates an acceptance rate into the latent mean of requests that have it together."""

    def __init__(self, k: int) -> None:
        nodes, weights = np.polynomial.hermite_e.hermegauss(61)
        spread = sqrt(BETWEEN * BETWEEN + INSIDE * INSIDE)
        self._means = np.linspace(-9.0, 9.0, 721)
        chance = 1.0 / (1.0 + np.exp(-(self._means[:, None] + spread * nodes[None, :])))
        powers = np.stack([chance**position for position in range(1, k + 1)])
        self._by_position = powers @ (weights / weights.sum())
        self._rates = self._by_position.mean(axis=0)

    def __call__(self, rate: Floats) -> Floats:
        """The latent mean for each rate."""
        mean: Floats = np.interp(rate, self._rates, self._means)
        return mean

    def positions(self, rate: float) -> list[float]:
        """Acceptance by position of traffic with this rate."""
        return [float(np.interp(rate, self._rates, row)) for row in self._by_position]


def simulate(
    load: Load, first: int, number: int, seed: int, fault: Fault | None = None
) -> Traffic:
    """Traffic of ``number`` scrape intervals, request by request."""
    random = np.random.default_rng(seed)
    lead = min(_LEAD, first)
    target = truth(load, first - lead, number + lead, random, _later(fault, lead))
    mean = Latent(load.k)(target)
    busy = busyness(hours(first - lead, number + lead))
    per_scrape = load.drafts_per_second / load.mean_drafts * SCRAPE
    arrivals = random.poisson(per_scrape * busy)
    sums = _Sums(load.k, number + lead)
    for begin, end in _batches(arrivals):
        starts = np.repeat(np.arange(begin, end), arrivals[begin:end])
        _requests(load, starts, mean, sums, random)
    running = np.cumsum(arrivals) - np.cumsum(sums.finished)
    return Traffic(
        first,
        load.k,
        sums.drafts[lead:],
        sums.accepted[:, lead:],
        sums.finished[lead:],
        running[lead:].astype(np.float64),
        target[lead:],
    )


def _later(fault: Fault | None, lead: int) -> Fault | None:
    return Fault(fault.at + lead, fault.drop, fault.ramp) if fault is not None else None


def _batches(arrivals: Integers) -> list[tuple[int, int]]:
    """Spans of scrapes with about ``_BATCH`` requests each, to bound the memory."""
    total = np.cumsum(arrivals)
    number = max(int(total[-1] // _BATCH), 1)
    cuts = np.searchsorted(total, np.linspace(0, total[-1], number + 1)[1:-1])
    edges = [0, *(int(cut) for cut in cuts), len(arrivals)]
    return [(a, b) for a, b in pairwise(edges) if b > a]


@dataclass(slots=True)
class _Sums:
    """What the requests add up to, by scrape interval."""

    k: int
    number: int
    drafts: Floats = field(init=False)
    accepted: Floats = field(init=False)
    finished: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.drafts = np.zeros(self.number)
        self.accepted = np.zeros((self.k, self.number))
        self.finished = np.zeros(self.number)

    def count(self, row: Floats, scrapes: Integers, values: Integers | None = None) -> None:
        row += np.bincount(scrapes, weights=values, minlength=self.number)


def _requests(
    load: Load, starts: Integers, mean: Floats, sums: _Sums, random: np.random.Generator
) -> None:
    """Lives of the requests that arrive in the scrapes ``starts``, chunk by chunk."""
    number = len(starts)
    log_mean = log(load.mean_drafts) - LENGTH_SPREAD**2 / 2.0
    sizes = np.exp(log_mean + LENGTH_SPREAD * random.standard_normal(number)).astype(np.int64) + 1
    sizes = np.minimum(sizes, LONGEST)
    # Longest first: the requests that still live are always the first ones.
    order = np.argsort(-sizes)
    left, time = sizes[order], (starts[order] + random.random(number)) * SCRAPE
    own = BETWEEN * random.standard_normal(number)
    inside = INSIDE * random.standard_normal(number)
    renewal = INSIDE * sqrt(1.0 - PERSISTENCE**2)
    alive = number
    while alive:
        size = np.minimum(left[:alive], CHUNK)
        left[:alive] -= size
        time[:alive] += size / SPEED
        scrape = (time[:alive] / SCRAPE).astype(np.int64)
        seen = scrape < sums.number
        where = scrape[seen]
        latent = mean[where] + (own + inside)[:alive][seen]
        _chunks(size[seen], where, latent, sums, random)
        ended = seen & (left[:alive] == 0)
        sums.count(sums.finished, scrape[ended])
        alive = int(np.searchsorted(-left[:alive], 0, side="left"))
        renewed = renewal * random.standard_normal(alive)
        inside[:alive] = PERSISTENCE * inside[:alive] + renewed


def _chunks(
    sizes: Integers,
    scrapes: Integers,
    latent: Floats,
    sums: _Sums,
    random: np.random.Generator,
) -> None:
    """One chunk of drafts of each request: a position counts if all before it were accepted."""
    sums.count(sums.drafts, scrapes, sizes)
    chance = 1.0 / (1.0 + np.exp(-latent))
    accepted = sizes
    for position in range(sums.k):
        accepted = random.binomial(accepted, chance)
        sums.count(sums.accepted[position], scrapes, accepted)
