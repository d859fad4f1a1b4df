"""The recent past of one target and of each of its engines, as sums over any window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.health.ledger import Ledger, add
from monitor.model import Counts, Increment


@dataclass(slots=True)
class Warmup:
    """The figures since a start that do not vote yet, kept only to be shown."""

    start: float
    end: float
    counts: Counts


class Windows:
    """Sums the increments of one target; ``interval`` is the nominal one, in seconds."""

    def __init__(self, interval: float) -> None:
        self.warmup: Warmup | None = None
        """Not None while the server warms up."""
        self._interval = interval
        self.target = Ledger(interval)
        """The sums over all engines."""
        self._engines: dict[str, Ledger] = {}

    @property
    def empty(self) -> bool:
        """Whether nothing has been counted yet."""
        return self.target.empty and self.warmup is None

    def append(self, increments: Sequence[Increment], total: Counts) -> None:
        """Takes in one interval: what each engine did, and the target's sums of it."""
        first = increments[0]
        if first.warmup:
            self._keep_warmup(first.start, first.end, total)
            # The figures do not vote, but that there was a restart belongs to the window.
            self.target.append(first.start, first.end, Counts(resets=total.resets))
            return
        self.warmup = None
        self.target.append(first.start, first.end, total)
        if len(increments) > 1:
            for increment in increments:
                ledger = self._engines.setdefault(increment.label, Ledger(self._interval))
                ledger.append(increment.start, increment.end, increment.counts)

    def engine_window(self, label: str, seconds: float) -> tuple[float, float, Counts] | None:
        """Start, end and sums of the last ``seconds`` of one of several engines, if any."""
        ledger = self._engines.get(label)
        return ledger.window(seconds) if ledger is not None else None

    def forget_comparison(self) -> None:
        """Begins the comparison with the baseline anew."""
        self.target.forget_comparison()
        if self.warmup is not None:
            self.warmup.counts = without_comparison(self.warmup.counts)

    def forget_engine(self, label: str) -> None:
        """Lets go of the sums of an engine that is gone; the target's sums stay."""
        self._engines.pop(label, None)

    def _keep_warmup(self, start: float, end: float, counts: Counts) -> None:
        if self.warmup is None:
            self.warmup = Warmup(start, end, counts)
        else:
            self.warmup = Warmup(self.warmup.start, end, add(self.warmup.counts, counts))


def without_comparison(counts: Counts) -> Counts:
    """The same figures, compared with nothing."""
    return counts._replace(baseline_seconds=0.0, compared_seconds=0.0, uncompared_seconds=0.0)
