"""What is measured: kinds of traffic, faults, and how long each is played."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from benchmarks.detection.traffic import BETWEEN, PER_DAY, SCRAPE, Floats, Latent, Load

FEW_REQUESTS = 60.0
"""Requests a day below which a week tells too little, and thirty days are learnt from."""
MONTH_SCRAPES = 30 * PER_DAY


@dataclass(frozen=True, slots=True)
class Case:
    """A fault, by the rate acceptance falls to, or as a drift."""

    name: str
    drop: float
    drift_hours: float = 0.0
    horizon_days: float = 1.0
    """How long it is waited for, at much traffic."""
    patience_days: float = 5.0
    """The same at little traffic."""
    every: int = 1
    """Only one in so many of the beginnings is played: a drift is the dearest to play."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of traffic with the published figures of it, where there are any."""

    name: str
    load: Load
    replicas: int
    """Independent targets that are learnt and watched from the beginning."""
    counted_days: int
    """Days for which false alarms are counted, for each replica."""
    branches: int
    """Times that a fault begins, for each replica and case."""
    cases: tuple[Case, ...]
    published: tuple[str, ...] = ()
    """Median / p99 delays of docs/statistics.md's source, in the order of the cases."""

    @property
    def learning_days(self) -> int:
        """Days of healthy traffic before anything counts."""
        return 30 if self.load.requests_per_day < FEW_REQUESTS else 7

    def horizon(self, case: Case) -> int:
        """Scrapes for which an alarm is waited for."""
        little = self.load.requests_per_day < 300.0
        return int((case.patience_days if little else case.horizon_days) * PER_DAY)


STEPS = (
    Case("0.70→0.60", 0.10, horizon_days=1.0, patience_days=15.0),
    Case("→0.40", 0.30, horizon_days=0.5, patience_days=5.0),
    Case("→0.15", 0.55, horizon_days=0.5, patience_days=5.0),
    Case("−0.15 over 24 h", 0.15, drift_hours=24.0, horizon_days=2.0, patience_days=12.0, every=5),
)
_LOW = (
    Case("0.45→0.35", 0.10, horizon_days=1.0),
    Case("→0.15", 0.30, horizon_days=0.5),
    Case("−0.15 over 24 h", 0.15, drift_hours=24.0, horizon_days=2.0, every=5),
)
_HIGH = (
    Case("0.85→0.75", 0.10, horizon_days=1.0),
    Case("→0.55", 0.30, horizon_days=0.5),
    Case("→0.15", 0.70, horizon_days=0.5),
    Case("−0.15 over 24 h", 0.15, drift_hours=24.0, horizon_days=2.0, every=5),
)

CELLS = (
    Cell(
        "120 drafts, 0.033/s",
        Load(1 / 30),
        1,
        125,
        40,
        STEPS,
        ("3.2 d / never", "10.7 h / 26.0 h", "5.3 h / 16.1 h", "44.6 h / 4.4 d"),
    ),
    Cell(
        "120 drafts, 1/s",
        Load(1.0),
        2,
        95,
        75,
        STEPS,
        ("2.8 h / 13.7 h", "22 min / 3.1 h", "10 min / 2.3 h", "15.2 h / 23.8 h"),
    ),
    Cell(
        "120 drafts, 10/s",
        Load(10.0),
        2,
        95,
        75,
        STEPS,
        ("32 min / 3.7 h", "225 s / 11 min", "105 s / 345 s", "11.7 h / 16.2 h"),
    ),
    Cell(
        "120 drafts, 100/s",
        Load(100.0),
        1,
        190,
        60,
        STEPS,
        ("14 min / 2.6 h", "90 s / 225 s", "45 s / 120 s", "12.6 h / 17.2 h"),
    ),
    Cell(
        "120 drafts, 1000/s",
        Load(1000.0),
        1,
        92,
        30,
        STEPS,
        ("14 min / 2.6 h", "75 s / 180 s", "45 s / 90 s", "12.9 h / 16.8 h"),
    ),
    Cell(
        "1500 drafts, 0.42/s",
        Load(1500 / 3600, 1500.0),
        1,
        125,
        40,
        STEPS,
        ("2.7 d / 12.9 d", "9.8 h / 25.6 h", "4.3 h / 15.7 h", "42.5 h / 4.4 d"),
    ),
    Cell(
        "1500 drafts, 1/s",
        Load(1.0, 1500.0),
        1,
        125,
        40,
        STEPS,
        ("32.3 h / 7.0 d", "4.3 h / 13.7 h", "114 min / 9.9 h", "28.4 h / 46.0 h"),
    ),
    Cell(
        "1500 drafts, 10/s",
        Load(10.0, 1500.0),
        2,
        95,
        40,
        STEPS,
        ("3.2 h / 16.3 h", "26 min / 3.3 h", "12 min / 2.8 h", "15.4 h / 23.6 h"),
    ),
    Cell("k = 5, 120 drafts, 10/s", Load(10.0, k=5), 1, 120, 60, STEPS),
    Cell("0.45, 120 drafts, 10/s", Load(10.0, healthy=0.45), 1, 120, 60, _LOW),
    Cell("0.85, 120 drafts, 10/s", Load(10.0, healthy=0.85), 2, 95, 40, _HIGH),
)


def lorden_bound(load: Load, drop: float) -> float:
    """Seconds no detector can beat on average, at one false alarm in 30 days (first order).

    log(ARL) / KL with the information of requests that count equally. A bound on a worst-case
    mean: the median of a detector may lie below it where few requests arrive in a month.
    """
    random = np.random.default_rng(5)
    mean = float(Latent(load.k)(np.array([load.healthy]))[0])
    chance = 1.0 / (1.0 + np.exp(-(mean + BETWEEN * random.standard_normal(200_000))))
    # What is left of the spread inside a request after averaging over it.
    between = float(_mean_rate(chance, load.k).var()) * 1.15
    inside = draft_variance(load) / load.mean_drafts
    per_request = drop * drop / (2.0 * (between + inside))
    arrivals = load.drafts_per_second / load.mean_drafts
    requests = max(2.0, arrivals * MONTH_SCRAPES * SCRAPE)
    return max(SCRAPE, log(requests) / per_request / arrivals)


def _mean_rate(chance: Floats, k: int) -> Floats:
    powers = np.stack([chance**position for position in range(1, k + 1)])
    return np.asarray(powers.mean(axis=0), dtype=np.float64)


def draft_variance(load: Load) -> float:
    """Var(L)/k²: variance of one draft's acceptance rate in healthy traffic."""
    rates = Latent(load.k).positions(load.healthy)
    second = sum((2 * index + 1) * rate for index, rate in enumerate(rates))
    return (second - sum(rates) ** 2) / load.k**2
