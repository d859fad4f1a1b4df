"""Coverage of the speedup's interval on a simulated server, through the real code.

    python -m benchmarks.speedup [--runs 600] [--seed 11]

A step takes max(12 ms + KV reading, 0.06 ms per token) + 1 ms, drafting 0.8 ms per token on top.
Load wanders (AR(1), 0.9 from scrape to scrape) around three levels; the baseline curve carries an
error of 3 % per point. In the cells "wander" the step time drifts by another slow 10 % that the
true value does not contain. The interval is nominally one of 95 %.
"""

from __future__ import annotations

import argparse
import random
from math import exp, sqrt

from monitor.health.baseline import Baseline, BaselinePoint
from monitor.health.curve import BINS
from monitor.health.ledger import Ledger
from monitor.health.speedup import BLOCKS, compare, speedup
from monitor.model import Counts

SCRAPES, INTERVAL, K, Q = 60, 15.0, 3, 0.6
CELLS = {"n about 4": (4.0, 0.3), "n about 50": (50.0, 0.25), "n about 150": (150.0, 0.2)}


def plain_step(running: float) -> float:
    """Seconds of a step without drafts."""
    return max(0.012 + 0.00005 * running, 0.00006 * running) + 0.001


def draft_step(running: float) -> float:
    """Seconds of a step with drafts."""
    draft = K * (0.0008 + 0.000002 * running)
    return draft + max(0.012 + 0.00005 * running, 0.00006 * running * (K + 1)) + 0.001


def wander(rng: random.Random) -> list[float]:
    """A standard normal AR(1) series."""
    value, series = rng.gauss(0.0, 1.0), []
    for _ in range(SCRAPES):
        value = 0.9 * value + sqrt(1.0 - 0.81) * rng.gauss(0.0, 1.0)
        series.append(value)
    return series


def one_window(rng: random.Random, cell: tuple[float, float], drift: float) -> tuple[bool, float]:
    """Whether the interval of one window holds the truth, and its relative width."""
    middle, spread = cell
    curve = Baseline(
        "plain",
        tuple(BaselinePoint(n, plain_step(n) * (1.0 + rng.gauss(0.0, 0.03))) for n in BINS),
    )
    ledger, series = Ledger(INTERVAL), wander(rng)
    noise = [rng.gauss(0.0, 1.0) for _ in range(SCRAPES + 4)]
    gained = used = 0.0
    for i, z in enumerate(series):
        running = min(max(middle * exp(spread * z), 1.0), 256.0)
        q = min(max(Q + 0.05 * sum(noise[i : i + 5]) / sqrt(5.0), 0.2), 0.9)
        step = draft_step(running) * exp(0.05 * rng.gauss(0.0, 1.0)) * exp(drift * z)
        tokens = running * INTERVAL / step * sum(q**j for j in range(K + 1))
        counts = Counts(seconds=INTERVAL, decode_seconds=running * INTERVAL, decode_tokens=tokens)
        ledger.append(INTERVAL * i, INTERVAL * (i + 1), compare(counts, curve))
        weight = running * INTERVAL
        gained += (
            plain_step(running) * weight / draft_step(running) * sum(Q**j for j in range(K + 1))
        )
        used += weight
    window = ledger.window(SCRAPES * INTERVAL)
    assert window is not None
    found = speedup(window[2], ledger.compared_blocks(SCRAPES * INTERVAL, BLOCKS))
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.low <= gained / used <= found.high, (found.high - found.low) / found.value


def main() -> None:
    """Prints the coverage and the mean width of each cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=600)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()
    print(f"{'cell':<24}{'coverage':>10}{'width':>9}   ({args.runs} windows of 15 min each)")
    for drift, suffix in ((0.0, ""), (0.1, ", wander")):
        for name, cell in CELLS.items():
            rng = random.Random(f"{args.seed} {name}{suffix}")
            results = [one_window(rng, cell, drift) for _ in range(args.runs)]
            held = sum(inside for inside, _ in results) / args.runs
            width = sum(w for _, w in results) / args.runs
            print(f"{name + suffix:<24}{held:>9.1%}{width:>9.1%}")


if __name__ == "__main__":
    main()
