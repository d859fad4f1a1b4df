"""Has speculation begun to pay less? The recursion of ``detect`` on the log of the speedup.

What acceptance cannot show: a step that takes longer than it did. Every observation of the
speedup is compared with what is normal for this target at this load, minus a tolerance, and the
shortfall becomes evidence as it does for acceptance. Normal, variance and correlation are learnt
from the target itself, an hour late and only while nothing is wrong (docs/statistics.md).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import exp, log, log2, sqrt

from monitor.health.detect import HARDLY_ANY, Cusum, Shape
from monitor.health.speedup import running
from monitor.model import Counts, Estimate

SHAPE = Shape(drop=0.12, tolerance=0.06)
"""In logs: falls of more than 11 % become evidence. Acceptance that wanders by ± 0.05 with the
hour moves the speedup by ± 5 %, which is within the tolerance."""
LEAST_TOKENS = 1_000.0
"""Tokens behind one observation: fewer looks at once would be noise of single requests."""
LEAST_BLOCKS = 30.0
"""Blocks at one load before it has a normal: half an hour."""
BLOCK_SECONDS = 60.0
LEARN_AFTER = 3600.0
"""Seconds a block waits before it is learnt; an alarm meanwhile throws it away."""
FADE = 1.0 - 1.0 / (7.0 * 24.0 * 60.0)
"""What a block leaves of those before it: seven days of minutes fade to a third."""
RUN_SECONDS = 600.0
"""Neighbouring runs of this length tell how much neighbouring observations repeat each other."""
DEFAULT_VARIANCE = 0.05**2
LEAST_VARIANCE = 0.02**2
DEFAULT_CORRELATION = 3.0
CORRELATION_MARGIN = 1.5
_LEAST_NUMBER = 400.0
_OCTAVE = 2.0
"""Loads that are read together: two groups in each doubling."""


@dataclass(slots=True)
class Pending:
    """What has been compared since the last observation."""

    start: float | None = None
    baseline: float = 0.0
    compared: float = 0.0
    tokens: float = 0.0
    load: float = 0.0
    """Load, weighted by the decode time seen at it."""


@dataclass(slots=True)
class Block:
    """Observations of a minute or more at one load, waiting to be learnt."""

    start: float
    end: float
    load: str
    total: float = 0.0
    squares: float = 0.0
    number: float = 0.0


@dataclass(slots=True)
class Run:
    """Standardised deviations of neighbouring observations."""

    start: float | None = None
    total: float = 0.0
    number: float = 0.0
    total_before: float = 0.0
    number_before: float = 0.0


@dataclass(slots=True)
class Pace:
    """The learnt log speedup by load, and the evidence that it has fallen."""

    fall: Cusum = field(default_factory=Cusum)
    expected: float | None = None
    """Log speedup that was normal at the load of the last observation."""
    loads: dict[str, list[float]] = field(default_factory=dict)
    """Sum of log speedups, their number and the blocks they are from, by group of loads."""
    squares: float = 0.0
    number: float = 0.0
    """Squared deviations of observations from their normal, and how many."""
    run_squares: float = 0.0
    run_number: float = 0.0
    run: Run = field(default_factory=Run)
    pending: Pending = field(default_factory=Pending)
    waiting: deque[Block] = field(default_factory=deque)

    # -- reading -----------------------------------------------------------------------

    @property
    def quiet(self) -> bool:
        """Whether there is so little evidence of a fall that the past may be learnt from."""
        return self.fall.alarm_at is None and self.fall.evidence < HARDLY_ANY

    @property
    def expected_speedup(self) -> float | None:
        """The speedup that would be normal now."""
        return None if self.expected is None else exp(self.expected)

    @property
    def _variance(self) -> float:
        """Of one observation."""
        if self.number < LEAST_BLOCKS:
            return DEFAULT_VARIANCE
        return max(self.squares / self.number, LEAST_VARIANCE)

    @property
    def _correlation(self) -> float:
        """By how much neighbouring observations repeat each other, with a margin."""
        if self.run_number < _LEAST_NUMBER:
            return DEFAULT_CORRELATION
        return max(self.run_squares / self.run_number, 1.0) * CORRELATION_MARGIN

    def _normal(self, load: str) -> float | None:
        total, number, blocks = self.loads.get(load, (0.0, 0.0, 0.0))
        return total / number if blocks >= LEAST_BLOCKS and number > 0.0 else None

    # -- taking in ---------------------------------------------------------------------

    def take(self, start: float, end: float, counts: Counts, *, healthy: bool) -> None:
        """Takes in one steady interval; one at a load that the baseline lacks tells nothing."""
        tells = counts.compared_seconds > 0.0 and counts.baseline_seconds > 0.0
        if counts.resets > 0.0 or (tells and counts.uncompared_seconds > 0.0):
            self.pending = Pending()
            return
        if not tells:
            return
        pending = self.pending
        if pending.start is None:
            pending.start = start
        pending.baseline += counts.baseline_seconds
        pending.compared += counts.compared_seconds
        pending.tokens += counts.decode_tokens
        pending.load += (running(counts) or 1.0) * counts.compared_seconds
        if pending.tokens >= LEAST_TOKENS:
            self.pending = Pending()
            load = _group(pending.load / pending.compared)
            value = log(pending.baseline / pending.compared)
            self._observe(pending.start, end, load, value, healthy=healthy)

    def _observe(
        self, start: float, end: float, load: str, value: float, *, healthy: bool
    ) -> None:
        self.expected = self._normal(load)
        if self.expected is not None:
            variance = self._variance
            shortfall = self.expected - SHAPE.tolerance - value
            self.fall.add(start, end, shortfall, variance * self._correlation, SHAPE)
            if self.quiet:
                self._learn_run(start, end, (value - self.expected) / sqrt(variance))
        self._offer(start, end, load, value, healthy=healthy and self.quiet)

    def clear(self, now: float, speedup: Estimate | None) -> None:
        """Ends an alarm whose cause is gone: no evidence for long, and a normal window."""
        if speedup is None or speedup.low is None or speedup.high is None:
            return
        normal = self.expected_speedup
        again = normal is not None and speedup.low <= normal <= speedup.high
        self.fall.clear_if(now, normal_again=again)

    # -- learning ----------------------------------------------------------------------

    def _offer(self, start: float, end: float, load: str, value: float, *, healthy: bool) -> None:
        waiting = self.waiting
        if not healthy:
            waiting.clear()
            return
        last = waiting[-1] if waiting else None
        if last is None or last.load != load or start - last.start >= BLOCK_SECONDS:
            last = Block(start, end, load)
            waiting.append(last)
        last.end = end
        last.total += value
        last.squares += value * value
        last.number += 1.0
        while waiting[0].end <= end - LEARN_AFTER:
            self._learn(waiting.popleft())

    def _learn(self, block: Block) -> None:
        normal = self._normal(block.load)
        if normal is not None:
            above = block.squares - 2.0 * normal * block.total + block.number * normal * normal
            self.squares = self.squares * FADE + max(above, 0.0)
            self.number = self.number * FADE + block.number
        total, number, blocks = self.loads.get(block.load, (0.0, 0.0, 0.0))
        self.loads[block.load] = [
            total * FADE + block.total,
            number * FADE + block.number,
            blocks * FADE + 1.0,
        ]

    def _learn_run(self, start: float, end: float, deviation: float) -> None:
        run = self.run
        if run.start is None:
            run.start = start
        run.total += deviation
        run.number += 1.0
        if end - run.start < RUN_SECONDS:
            return
        if run.number_before > 0.0:
            difference = run.total - run.total_before
            self.run_squares = self.run_squares * FADE + difference * difference
            self.run_number = self.run_number * FADE + run.number + run.number_before
        self.run = Run(total_before=run.total, number_before=run.number)


def _group(load: float) -> str:
    """The group of loads, as a key for JSON."""
    return str(round(_OCTAVE * log2(max(load, 1.0))))
