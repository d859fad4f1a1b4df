"""Measures one cell: false alarms over healthy months, then delays of faults."""

from __future__ import annotations

import time
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.detection import rules
from benchmarks.detection.cells import Case, Cell, lorden_bound
from benchmarks.detection.replay import Replay
from benchmarks.detection.traffic import (
    IDLE_TO,
    PER_DAY,
    PER_HOUR,
    SCRAPE,
    Fault,
    Floats,
    Traffic,
    profile,
    simulate,
)

_BEFORE = 2 * rules.WINDOW
"""Scrapes of before a fault that the rule of Prometheus still looks at."""


@dataclass(slots=True)
class Branch:
    """A learnt target at the moment a fault may begin."""

    first: int
    frozen: bytes
    before: tuple[Floats, Floats]
    """Drafts and accepted tokens of the last scrapes before."""


@dataclass(slots=True)
class Learnt:
    """What one replica had learnt, beside the truth."""

    day: int
    spread: float
    correlation: float
    design_effect: float | None
    hours: int | None
    """Over how many hours of the day the reference is read at noon."""
    bias: float
    error: float
    """Root mean square over the hours with traffic."""
    worst: float


@dataclass(slots=True)
class Healthy:
    """The healthy part of one replica."""

    seed: int
    days: float
    drops: int
    rises: int
    sick: int
    uncleared: bool
    highest: float
    learnt: list[Learnt]
    score: Floats = field(repr=False)
    branches: list[Branch] = field(repr=False)


def seed_of(cell: Cell, base: int, *parts: object) -> int:
    """A seed that depends on everything that names a run, the same on each machine."""
    return zlib.crc32(repr((base, cell.name, parts)).encode())


def watch_healthy(cell: Cell, base: int, replica: int) -> Healthy:
    """Learns, then counts alarms in traffic in which nothing is wrong."""
    learning, counted = cell.learning_days * PER_DAY, cell.counted_days * PER_DAY
    seed = seed_of(cell, base, "healthy", replica)
    traffic = simulate(cell.load, 0, learning + counted, seed)
    replay = Replay(cell.load.k)
    learnt = []
    begin = 0
    for day in sorted({1, 3, 7, cell.learning_days}):
        replay.play(traffic.part(begin, day * PER_DAY))
        begin = day * PER_DAY
        learnt.append(compare_with_truth(cell, replay, day))
    replay = Replay.thaw(replay.freeze())
    branches = []
    for first in _fault_times(cell, seed, learning, counted):
        replay.play(traffic.part(begin, first))
        begin = first
        branches.append(_branch(replay, traffic, first))
    replay.play(traffic.part(begin, learning + counted))
    learnt.append(compare_with_truth(cell, replay, cell.learning_days + cell.counted_days))
    noted = replay.noted
    counted_part = traffic.part(learning, learning + counted)
    return Healthy(
        seed=seed,
        days=float(cell.counted_days),
        drops=len(noted.drops),
        rises=len(noted.rises),
        sick=len(noted.sick),
        uncleared=replay.alarmed,
        highest=noted.highest,
        learnt=learnt,
        score=rules.scores(counted_part.drafts, counted_part.total, cell.load.k),
        branches=branches,
    )


def _fault_times(cell: Cell, seed: int, learning: int, counted: int) -> list[int]:
    """Random times at which faults begin, none of them in the idle hours of the night."""
    random = np.random.default_rng(seed + 1)
    times = random.integers(learning + 1, learning + counted, cell.branches)
    hour = (times * SCRAPE / 3600.0) % 24.0
    resting = (hour >= 2.9) & (hour < IDLE_TO)
    moved = times + np.where(resting, 3 * PER_HOUR, 0)
    return sorted({int(value) for value in np.minimum(moved, learning + counted - 1)})


def _branch(replay: Replay, traffic: Traffic, first: int) -> Branch:
    before = traffic.part(first - _BEFORE, first)
    return Branch(first, replay.freeze(), (before.drafts, before.total))


def compare_with_truth(cell: Cell, replay: Replay, day: int) -> Learnt:
    """What has been learnt so far, and how far the hours are off the true profile."""
    state = replay.state
    reference = state.memory.watch.reference(state.identity)
    at = np.arange(0.25, 24.0, 0.5)
    at = at[(at < 3.0) | (at >= IDLE_TO)]
    normals = [reference.normal(3600.0 * float(hour)) for hour in at]
    known = [normal.rate if normal is not None else np.nan for normal in normals]
    error = np.array(known) - profile(cell.load, at)
    noon = reference.normal(12.5 * 3600.0)
    return Learnt(
        day=day,
        spread=reference.spread,
        correlation=reference.correlation,
        design_effect=reference.design_effect,
        hours=noon.hours if noon is not None else None,
        bias=float(error.mean()),
        error=float(np.sqrt((error * error).mean())),
        worst=float(np.abs(error).max()),
    )


@dataclass(slots=True)
class Delay:
    """One fault: seconds until the detector and the rule's record lows."""

    seconds: float | None
    lows: tuple[list[int], list[float]]


def measure_fault(cell: Cell, case: Case, branch: Branch, base: int, number: int) -> Delay | None:
    """Seconds from the fault to the alarm; None where an alarm stood already."""
    replay = Replay.thaw(branch.frozen)
    if replay.alarmed:
        return None
    fault = Fault(0, case.drop, int(case.drift_hours * PER_HOUR))
    seed = seed_of(cell, base, case.name, number)
    traffic = simulate(cell.load, branch.first, cell.horizon(case), seed, fault)
    # Without a reference there is no detector: nothing would be found however long it took.
    found = replay.play(traffic, until_alarm=True) if replay.knows_normal else None
    drafts = np.concatenate([branch.before[0], traffic.drafts])
    total = np.concatenate([branch.before[1], traffic.total])
    score = rules.scores(drafts, total, cell.load.k)[_BEFORE:]
    return Delay(None if found is None else found * SCRAPE, rules.record_lows(score))


def quantile(delays: list[float | None], share: float) -> float | None:
    """A quantile in which "never" is longer than anything; None is never."""
    if not delays:
        return None
    values = sorted(float("inf") if delay is None else delay for delay in delays)
    value = values[min(int(np.ceil(share * (len(values) - 1))), len(values) - 1)]
    return None if value == float("inf") else value


def measure(cell: Cell, base: int) -> dict[str, Any]:
    """All figures of one cell, ready for JSON."""
    began = time.process_time()
    healthy = [watch_healthy(cell, base, replica) for replica in range(cell.replicas)]
    months = sum(h.days for h in healthy) / 30.0
    threshold = rules.threshold_for([h.score for h in healthy], months)
    branches = [branch for h in healthy for branch in h.branches]
    return {
        "cell": cell.name,
        "seed": base,
        "requests_per_day": cell.load.requests_per_day,
        "months": months,
        "learning_days": cell.learning_days,
        "seeds": [h.seed for h in healthy],
        "false_alarms": sum(h.drops for h in healthy),
        "false_rises": sum(h.rises for h in healthy),
        "false_verdicts": sum(h.sick for h in healthy),
        "uncleared": sum(h.uncleared for h in healthy),
        "highest_evidence": max(h.highest for h in healthy),
        "rule_threshold": threshold,
        "learnt": [[asdict(step) for step in h.learnt] for h in healthy],
        "cases": [_case(cell, case, branches, base, threshold) for case in cell.cases],
        "cpu_seconds": time.process_time() - began,
    }


def _case(
    cell: Cell, case: Case, branches: list[Branch], base: int, threshold: float
) -> dict[str, Any]:
    chosen = list(enumerate(branches))[:: case.every]
    found = [measure_fault(cell, case, branch, base, n) for n, branch in chosen]
    delays = [delay for delay in found if delay is not None]
    ours = [delay.seconds for delay in delays]
    fired = [rules.first_alarm(delay.lows, threshold) for delay in delays]
    rule = [None if at is None else at * SCRAPE for at in fired]
    bound = None if case.drift_hours else lorden_bound(cell.load, case.drop)
    median = quantile(ours, 0.5)
    return {
        "case": case.name,
        "runs": len(delays),
        "median": median,
        "p99": quantile(ours, 0.99),
        "missed": sum(delay is None for delay in ours),
        "rule_median": quantile(rule, 0.5),
        "rule_p99": quantile(rule, 0.99),
        "bound": bound,
        "ratio": None if bound is None or median is None else median / bound,
    }
