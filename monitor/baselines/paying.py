"""Where and when speculation pays for one target, from its stored samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from monitor.baselines.spans import Interval, total
from monitor.health.ledger import Block
from monitor.health.pays import LoadBin, by_load, crossover
from monitor.health.speedup import speedup
from monitor.model import Estimate

_HOUR = 3600.0
_HOURS = 24


class Answer(StrEnum):
    """What a speedup with its interval says, given the dead band around 1."""

    PAYS = "pays"
    COSTS = "costs"
    NEUTRAL = "neutral"
    UNDECIDED = "undecided"


_EVERYWHERE = {
    Answer.PAYS: "pays at every load seen",
    Answer.COSTS: "costs at every load seen",
    Answer.NEUTRAL: "makes no difference at the loads seen",
}


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of the day, UTC, over all days."""

    hour: int
    speedup: Estimate
    running: float
    decode_seconds: float


@dataclass(frozen=True, slots=True)
class Paying:
    """Speedup by load and by hour of the day."""

    bins: tuple[LoadBin, ...]
    hours: tuple[Hour, ...]
    crossover: float | None
    """Running requests from which on it stops paying; None where it never does."""
    dead_band: tuple[float | None, float | None]
    """Running requests at which the speedup falls into the band around 1, and out of it."""
    uncompared: float
    """Share of the decode time at loads that the baseline does not cover."""
    sentence: str


def answer(value: Estimate, dead_band: float) -> Answer:
    """Whether it pays there: only an interval on one side of the band is an answer."""
    low, high = value.low, value.high
    if low is None or high is None:
        return Answer.UNDECIDED
    if low > 1.0 + dead_band:
        return Answer.PAYS
    if high < 1.0 - dead_band:
        return Answer.COSTS
    if low >= 1.0 - dead_band and high <= 1.0 + dead_band:
        return Answer.NEUTRAL
    return Answer.UNDECIDED


def pays(intervals: Sequence[Interval], dead_band: float) -> Paying:
    """The speedup of compared intervals, by load and by hour."""
    bins = by_load(interval.counts for interval in intervals)
    sums = total(intervals)
    decoded = sums.compared_seconds + sums.uncompared_seconds
    limit = crossover(bins)
    return Paying(
        bins=tuple(bins),
        hours=tuple(_hours(intervals)),
        crossover=limit,
        dead_band=(_falls_to(bins, 1.0 + dead_band), _falls_to(bins, 1.0 - dead_band)),
        uncompared=sums.uncompared_seconds / decoded if decoded > 0.0 else 0.0,
        sentence=_sentence(bins, limit, dead_band),
    )


def _falls_to(bins: Sequence[LoadBin], level: float) -> float | None:
    """Running requests at which the speedup falls through ``level``."""
    scaled = [replace(entry, speedup=Estimate(entry.speedup.value / level)) for entry in bins]
    return crossover(scaled)


def _hours(intervals: Sequence[Interval]) -> list[Hour]:
    groups: dict[int, list[Interval]] = {}
    for interval in intervals:
        if interval.counts.compared_seconds > 0.0:
            groups.setdefault(int(interval.end // _HOUR) % _HOURS, []).append(interval)
    hours = []
    for hour, group in sorted(groups.items()):
        sums = total(group)
        # Only what was compared is of interest here, so it alone decides.
        found = speedup(sums._replace(uncompared_seconds=0.0), [_block(i) for i in group])
        if found is not None:
            weighted = sum(i.counts.decode_seconds for i in group)
            seconds = sum(i.counts.seconds for i in group)
            load = weighted / seconds if seconds > 0.0 else 0.0
            hours.append(Hour(hour, found, load, sums.compared_seconds))
    return hours


def _block(interval: Interval) -> Block:
    return Block(interval.counts.baseline_seconds, interval.counts.compared_seconds)


def _sentence(bins: Sequence[LoadBin], limit: float | None, dead_band: float) -> str:
    if not bins:
        return "nothing was compared with a baseline in this time"
    if limit is not None:
        return f"speculation pays up to about {limit:.3g} running requests and costs beyond"
    seen = f"{bins[0].running:.3g} to {bins[-1].running:.3g} running requests"
    answers = [answer(entry.speedup, dead_band) for entry in bins]
    for one, says in _EVERYWHERE.items():
        if set(answers) == {one}:
            return f"speculation {says}, {seen}"
    costly = [e.running for e, one in zip(bins, answers, strict=True) if one is Answer.COSTS]
    if costly:
        loads = ", ".join(f"{running:.3g}" for running in costly)
        return f"speculation costs at about {loads} running requests, of {seen}; not at the rest"
    return f"the speedup does not fall through 1 at the loads seen, {seen}"
