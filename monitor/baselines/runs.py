"""Runs of load tools at one load each, and how they become points of a curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monitor.health.baseline import FASTEST_TPOT, SLOWEST_TPOT, BaselinePoint
from monitor.health.curve import monotone
from monitor.model import Identity

_FULL_WAVES = 3
"""So many requests for each place of a closed loop, and its ramps no longer count."""
_MILLI = 1e-3
NOTHING_KNOWN = Identity()


class RunError(ValueError):
    """One figure of a file cannot be used; the text names it and what to do."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a load tool measured at one load."""

    running: float
    """Mean requests in flight."""
    tpot: float
    """Seconds per output token after the first one."""
    seconds: float = 0.0
    requests: float = 0.0
    spread: float | None = None
    """Relative standard deviation between requests."""
    context: float | None = None
    """Mean prompt tokens of a request."""

    def __post_init__(self) -> None:
        """Refuses what can only be a mistake."""
        if not FASTEST_TPOT <= self.tpot <= SLOWEST_TPOT:
            raise RunError(
                f"a time per output token of {self.tpot:g} s cannot be (10 µs to 10 s can):"
                " are its units right?"
            )
        if not 0.0 < self.running < math.inf:
            raise RunError("its mean number of running requests is not above 0")


@dataclass(frozen=True, slots=True)
class Imported:
    """What was found in one file."""

    tool: str
    runs: tuple[Run, ...]
    identity: Identity = NOTHING_KNOWN
    notes: tuple[str, ...] = ()
    start: float | None = None
    end: float | None = None


class Figures:
    """Numbers of one JSON object, by key; what is missing or null is None."""

    def __init__(self, values: object) -> None:
        if not isinstance(values, Mapping):
            raise RunError("is no JSON object")
        self._values: Mapping[str, Any] = values

    def part(self, *keys: str) -> Figures:
        """The object under these keys; an empty one where there is none."""
        found = self.get(*keys)
        return Figures(found if isinstance(found, Mapping) else {})

    def get(self, *keys: str) -> Any:
        """Whatever stands under these keys, or None."""
        found: Any = self._values
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    def text(self, *keys: str) -> str | None:
        """Text that is not empty, or None."""
        found = self.get(*keys)
        return found if isinstance(found, str) and found.strip() else None

    def number(self, *keys: str) -> float | None:
        """A finite number, or None; anything else is refused."""
        found = self.get(*keys)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise RunError(f"{'.'.join(keys)} is no number")
        try:
            number = float(found)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise RunError(f"{'.'.join(keys)} is not a finite number")
        return number

    def seconds_from_ms(self, *keys: str) -> float | None:
        """A number of milliseconds, in seconds."""
        found = self.number(*keys)
        return None if found is None else found * _MILLI


def closed_loop_load(
    limit: float | None, requests: float, in_flight: float | None, *, paced: bool
) -> float:
    """Mean requests in flight of a run.

    ``limit`` is the tool's cap on requests in flight. It is the load only where requests follow
    each other at once and there were enough of them; with a request rate (``paced``) or few
    requests the mean that was measured (``in_flight``) is lower, and the load.
    """
    if limit is not None and not paced and requests >= _FULL_WAVES * limit:
        return limit
    if in_flight is not None and in_flight > 0.0:
        return in_flight if limit is None else min(in_flight, limit)
    if limit is not None and not paced:
        return min(limit, max(requests, 1.0))
    raise RunError(
        "its load is not known: run the tool with a fixed concurrency (--max-concurrency N)"
    )


def points_of(runs: Sequence[Run]) -> tuple[BaselinePoint, ...]:
    """The curve of runs: those at the same load are averaged, and no point falls with load."""
    by_load: dict[float, list[Run]] = {}
    for run in runs:
        # While anything decodes, at least one request does.
        by_load.setdefault(round(max(run.running, 1.0), 6), []).append(run)
    return monotone([_point(load, group) for load, group in sorted(by_load.items())])


def _point(load: float, group: Sequence[Run]) -> BaselinePoint:
    weights = [run.requests or run.seconds or 1.0 for run in group]
    total = sum(weights)
    tpot = sum(run.tpot * weight for run, weight in zip(group, weights, strict=True)) / total
    spreads = [run.spread for run in group if run.spread is not None]
    contexts = [run.context for run in group if run.context is not None]
    return BaselinePoint(
        running=load,
        tpot=tpot,
        seconds=sum(run.seconds for run in group),
        requests=sum(run.requests for run in group),
        spread=sum(spreads) / len(spreads) if spreads else None,
        context=sum(contexts) / len(contexts) if contexts else None,
    )
