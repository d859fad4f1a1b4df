"""What remains after a fault, and whether a fault can be learnt as normal."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.detection.cells import Cell
from benchmarks.detection.measure import seed_of
from benchmarks.detection.replay import Replay
from benchmarks.detection.traffic import PER_DAY, PER_HOUR, SCRAPE, Fault, Traffic, simulate

_LEARNING = 7 * PER_DAY
_FAULT_FROM = _LEARNING + 10 * PER_HOUR
"""At ten in the morning."""
_FAULT = 24 * PER_HOUR
_AFTER = 2 * PER_DAY


def after_a_fault(cell: Cell, base: int, drop: float) -> dict[str, Any]:
    """A fault of a day, then healthy again: what the detector and the reference keep of it."""
    began = time.process_time()
    before = simulate(cell.load, 0, _FAULT_FROM, seed_of(cell, base, "before"))
    sick = simulate(cell.load, _FAULT_FROM, _FAULT, seed_of(cell, base, "sick"), Fault(0, drop))
    healed = _FAULT_FROM + _FAULT
    after = simulate(cell.load, healed, _AFTER, seed_of(cell, base, "after"))
    replay = Replay(cell.load.k)
    replay.play(before)
    known = _hours(replay)
    replay.noted.drops.clear()
    replay.play(sick)
    learnt_sick = _hours(replay)
    replay.play(after)
    noted = replay.noted
    cleared = [number for number in noted.cleared if number > healed]
    found = [number for number in noted.drops if number > _FAULT_FROM]
    return {
        "cell": cell.name,
        "drop": drop,
        "found_seconds": (found[0] - _FAULT_FROM) * SCRAPE if found else None,
        "cleared_early": sum(number <= healed for number in noted.cleared),
        "cleared_seconds": (cleared[0] - healed) * SCRAPE if cleared else None,
        "alarms_after": sum(number > healed for number in noted.drops),
        "learnt_of_the_fault": float(np.nanmax(np.abs(learnt_sick - known))),
        "cpu_seconds": time.process_time() - began,
    }


def during_a_slow_drift(cell: Cell, base: int, days: int) -> dict[str, Any]:
    """Acceptance sinks by 0.15 over days: the reference must not follow it unseen."""
    load = replace(cell.load)
    seed = seed_of(cell, base, "slow drift", days)
    fault = Fault(_LEARNING, 0.15, days * PER_DAY)
    traffic = simulate(load, 0, _LEARNING + (days + 3) * PER_DAY, seed, fault)
    replay = Replay(load.k)
    replay.play(traffic.part(0, _LEARNING))
    known = _hours(replay)
    found = replay.play(_rest(traffic), until_alarm=True)
    return {
        "cell": cell.name,
        "days": days,
        "found_hours": None if found is None else found * SCRAPE / 3600.0,
        "learnt_of_the_drift": float(np.nanmean(known - _hours(replay))),
        "sunk_by": None if found is None else min(0.15 * found / (days * PER_DAY), 0.15),
    }


def _rest(traffic: Traffic) -> Traffic:
    return traffic.part(_LEARNING, len(traffic.drafts))


def _hours(replay: Replay) -> np.ndarray:
    """The learnt rate in the middle of each hour."""
    reference = replay.state.memory.watch.reference(replay.state.identity)
    normals = [reference.normal(3600.0 * hour + 1800.0) for hour in range(24)]
    return np.array([np.nan if normal is None else normal.rate for normal in normals])
