"""The detector of a falling speedup on simulated traffic: false alarms, and time until found.

    python -m benchmarks.pace            # about two minutes

The load follows the day over a factor of eight, the log of the speedup follows the load and the
hour by ± 0.05 each, wanders by 0.01 and has a noise of 0.03 from look to look, each 15 seconds.
"""

from __future__ import annotations

import math
import random
import statistics

from monitor.health.pace import Pace
from monitor.model import Counts

DAY = 86_400.0
STEP = 15.0


class Traffic:
    """Log speedups at a load that follows the day, with all that moves them harmlessly."""

    def __init__(self, seed: int, tokens: float = 6_000.0) -> None:
        self.random = random.Random(seed)
        self.tokens = tokens
        self.at = 0.0
        self.wander = 0.0
        self.loss = 0.0
        self.pace = Pace()

    def run(self, days: float, *, healthy: bool = True) -> list[float]:
        """The times of alarms that were raised."""
        raised = []
        for _ in range(int(days * DAY / STEP)):
            before = self.pace.fall.alarm_at
            start, self.at = self.at, self.at + STEP
            self.pace.take(start, self.at, self._counts(), healthy=healthy)
            if self.pace.fall.alarm_at is not None and before is None:
                raised.append(self.at)
        return raised

    def _counts(self) -> Counts:
        hour = math.sin(2.0 * math.pi * self.at / DAY)
        # An AR(1) that forgets itself within an hour, besides the noise of each look.
        keep = math.exp(-STEP / 3600.0)
        self.wander = keep * self.wander + self.random.gauss(0.0, 0.01 * math.sqrt(1 - keep**2))
        load = 8.0 * 2.0 ** (1.5 * hour)
        value = 0.4 - 0.03 * math.log2(load) + 0.03 * hour + self.wander - self.loss
        value += self.random.gauss(0.0, 0.03)
        seconds = STEP * load
        return Counts(
            seconds=STEP,
            decode_seconds=seconds,
            decode_tokens=self.tokens,
            compared_seconds=seconds,
            baseline_seconds=seconds * math.exp(value),
        )


def main() -> None:
    """Prints how often it alarms for nothing, and how long it takes to notice."""
    alarms = sum(len(Traffic(100 + seed).run(30.0)) for seed in range(12))
    print(f"false alarms       {alarms} in 12 months of 30 days")
    for share in (0.10, 0.14, 0.18, 0.26, 0.39):
        waits = []
        for seed in range(12):
            traffic = Traffic(500 + seed)
            traffic.run(2.0 + seed / 24.0)
            fell, traffic.loss = traffic.at, -math.log(1.0 - share)
            waits += [at - fell for at in traffic.run(0.5)[:1]]
        usual, worst = (statistics.median(waits), max(waits)) if waits else (math.nan, math.nan)
        said = f"{len(waits):2} of 12 within 12 h, median {usual:.0f} s, worst {worst:.0f} s"
        print(f"slower by {share:.0%}      {said}")


if __name__ == "__main__":
    main()
