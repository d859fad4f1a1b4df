"""False alarms and delays of the detector.

python -m benchmarks.detection           measures all, writes results.json, docs/detection.md
python -m benchmarks.detection --quick   a few days of three kinds of traffic, writes nothing
python -m benchmarks.detection --only "120 drafts, 1/s"    measures again what is named
python -m benchmarks.detection --render  only writes the tables anew
python -m benchmarks.detection --check-assess   compares one assessment a page and fewer
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.detection import report
from benchmarks.detection.aftermath import after_a_fault, during_a_slow_drift
from benchmarks.detection.cells import CELLS, STEPS, Cell
from benchmarks.detection.measure import measure
from benchmarks.detection.replay import Replay
from benchmarks.detection.traffic import PER_DAY, Load, simulate
from monitor.health.intake import LEARNT_FROM

_RESULTS = Path(__file__).parent / "results.json"
_SEED = 20_270_131
_QUICK = ("120 drafts, 1/s", "120 drafts, 10/s", "120 drafts, 100/s")
_MOST_ALARMS = 1.0
"""Allowed false alarms per 30 days."""
_AFTER = ("120 drafts, 1/s", "120 drafts, 10/s", "120 drafts, 100/s")


def measure_cell(cell: Cell, seed: int) -> dict[str, Any]:
    """One cell, with one line to watch the progress."""
    found = measure(cell, seed)
    found["published"] = list(cell.published)
    first = found["cases"][0]
    print(
        f"{cell.name}: {found['false_alarms']} false alarms in {found['months']:.1f} months,"
        f" {first['case']} found after {report.span(first['median'])}"
        f" ({found['cpu_seconds']:.0f} s)",
        flush=True,
    )
    return found


def quick(seed: int) -> int:
    """A check for each change of the detector: nothing false in days, large falls found."""
    failed = 0
    for cell in (c for c in CELLS if c.name in _QUICK):
        small = replace(cell, replicas=1, counted_days=5, branches=6, cases=STEPS[1:3])
        found = measure_cell(small, seed)
        missed = sum(case["missed"] for case in found["cases"])
        failed += bool(found["false_alarms"] or missed)
    return 1 if failed else 0


def full(seed: int, only: list[str]) -> int:
    """Measures all cells, or those that are named and keeps the rest.

    What is done is written at once: a run that is broken off leaves its cells behind.
    """
    results: dict[str, Any] = _load() if _RESULTS.exists() else {}
    if not only:
        results = {}
    known: dict[str, dict[str, Any]] = {cell["cell"]: cell for cell in results.get("cells", ())}
    for cell in CELLS:
        if only and cell.name not in only:
            continue
        known[cell.name] = measure_cell(cell, seed)
        results["cells"] = [known[c.name] for c in CELLS if c.name in known]
        _save(results)
    if not only:
        chosen = [cell for cell in CELLS if cell.name in _AFTER]
        results["aftermath"] = [
            after_a_fault(cell, seed, drop) for cell in chosen for drop in (0.10, 0.30)
        ]
        results["drifts"] = [
            during_a_slow_drift(cell, seed, days) for cell in chosen for days in (3, 7)
        ]
        _save(results)
    over = [c["cell"] for c in results["cells"] if c["false_alarms"] > _MOST_ALARMS * c["months"]]
    for name in over:
        print(f"{name}: more than one false alarm in 30 days")
    return 1 if over else 0


def _save(results: dict[str, Any]) -> None:
    results["learns_from"] = sorted(LEARNT_FROM)
    _RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    report.write(results)


def check_assess(seed: int) -> int:
    """Whether fewer assessments lead to the same decisions of the detector."""
    for load in (Load(1.0), Load(10.0), Load(100.0)):
        traffic = simulate(load, 0, 4 * PER_DAY, seed)
        for every in (1, 4, 20, 40):
            replay = Replay(load.k, every)
            replay.play(traffic)
            watch = replay.state.memory.watch
            reference = watch.reference(replay.state.identity)
            normal = reference.normal(12.5 * 3600.0)
            print(
                f"{load.drafts_per_second:g}/s, every {every} pages: alarms {replay.noted.drops},"
                f" most evidence {replay.noted.highest:.3f},"
                f" normal at noon {normal.rate if normal else None}"
            )
    return 0


def _load() -> dict[str, Any]:
    results: dict[str, Any] = json.loads(_RESULTS.read_text(encoding="utf-8"))
    return results


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--check-assess", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--seed", type=int, default=_SEED)
    args = parser.parse_args()
    if args.render:
        report.write(_load())
        return 0
    if args.check_assess:
        return check_assess(args.seed)
    return quick(args.seed) if args.quick else full(args.seed, args.only)


if __name__ == "__main__":
    sys.exit(main())
