"""What was before the window: the normal it is judged against, and how it came to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from monitor.health.peers import NO_PEERS, Peers
from monitor.health.reference import Normal
from monitor.health.shape import Change, Kind, Point, find_change
from monitor.health.speedup import running
from monitor.model import Counts

LEAST_FALL = 0.08
LEAST_RELATIVE = 0.15
"""How far acceptance must have fallen within the seen past to count without a learnt normal:
a harmless shift of the traffic mix moves it by ± 0.05."""
LEAST_SLOWER = 0.25
"""How much longer a step must take at the same load to be called slow."""
SAME_LOAD = 1.3
"""Ratio of two loads that still compare."""
SAME_K = 0.01


class Part(NamedTuple):
    """Counts of a part of the past, with its times."""

    start: float
    end: float
    counts: Counts


class Changes(NamedTuple):
    """Changes within the seen past."""

    rate: Change | None = None
    """Of the acceptance rate at an unchanged draft size."""
    step: Change | None = None
    """Of the time per step at an unchanged load."""
    load: Change | None = None
    """Of the number of running requests."""
    rates_before: tuple[float, ...] = ()
    """Acceptance by position before the change of the rate."""
    speedup_before: float | None = None
    """Speedup before the change of the load."""

    @property
    def has_fallen(self) -> bool:
        """Whether acceptance fell by more than a shift of the traffic mix."""
        if self.rate is None:
            return False
        fall = self.rate.before - self.rate.after
        return fall >= max(LEAST_FALL, LEAST_RELATIVE * self.rate.before)

    @property
    def has_risen(self) -> bool:
        """The same upwards."""
        return self.rate is not None and self.rate.after - self.rate.before >= LEAST_FALL

    @property
    def is_slower(self) -> bool:
        """Whether steps take much longer at the same load."""
        return self.step is not None and self.step.relative >= LEAST_SLOWER

    @property
    def any(self) -> bool:
        """Whether there is anything to explain."""
        return self.has_fallen or self.has_risen or self.is_slower


class Past(NamedTuple):
    """What is known of the time before, as far as it helps to judge and to explain."""

    changes: Changes = Changes()
    normal: Normal | None = None
    """Learnt acceptance at this hour."""
    normal_rates: tuple[float, ...] = ()
    """Learnt acceptance by position."""
    restarted_at: float | None = None
    version_changed: bool = False
    drop_alarm: float | None = None
    """When the detector found acceptance fallen; None while it does not."""
    drop_since: float | None = None
    rise_alarm: float | None = None
    slow_alarm: float | None = None
    """When the detector found the speedup fallen at the same load; None while it does not."""
    slow_since: float | None = None
    normal_speedup: float | None = None
    """Learnt speedup at this load."""
    peers: Peers = NO_PEERS
    """The other replicas of the service in the same window."""

    @property
    def expected_rate(self) -> float | None:
        """Acceptance that would be normal now, learnt or seen before a clear change."""
        if self.normal is not None:
            return self.normal.rate
        rate = self.changes.rate
        return rate.before if rate is not None and self.changes.has_fallen else None

    @property
    def expected_rates(self) -> tuple[float, ...]:
        """The same by position."""
        return self.normal_rates or self.changes.rates_before

    @property
    def has_fallen(self) -> bool:
        """Whether acceptance is known to have fallen."""
        return self.drop_alarm is not None or self.changes.has_fallen

    @property
    def has_jumped(self) -> bool:
        """Whether acceptance is known to have risen."""
        return self.rise_alarm is not None or (self.normal is None and self.changes.has_risen)

    @property
    def since(self) -> tuple[float, float] | None:
        """When acceptance changed, and within how many seconds of that."""
        rate = self.changes.rate
        if rate is not None and (self.changes.has_fallen or self.changes.has_risen):
            return rate.at, rate.error
        if self.drop_since is not None and self.drop_alarm is not None:
            return self.drop_since, max((self.drop_alarm - self.drop_since) / 2.0, 0.0)
        return None

    @property
    def came_with_restart(self) -> bool:
        """Whether acceptance changed when the server started."""
        since = self.since
        if since is None or self.restarted_at is None:
            return False
        return abs(since[0] - self.restarted_at) <= since[1] + 1.0

    @property
    def slides(self) -> bool:
        """Whether acceptance has been sliding for hours, with no restart to explain it."""
        rate = self.changes.rate
        if rate is None or rate.kind is not Kind.SLIDE or not self.changes.has_fallen:
            return False
        return self.restarted_at is None or self.restarted_at <= rate.at


def look_back(parts: Sequence[Part]) -> Changes:
    """Changes within the parts, which ascend in time and end with the present.

    Only parts with the draft size and, for step times, the load of the last one are compared:
    the rate falls as k grows, and steps get slower as more requests run.
    """
    if not parts:
        return Changes()
    size = _k(parts[-1].counts)
    same_k = [p for p in parts if _close(_k(p.counts), size, 1.0 + SAME_K)]
    rate = find_change([_rate_point(p) for p in same_k])
    load = find_change([_load_point(p) for p in parts])
    now = _recent_load(parts)
    same_load = [p for p in same_k if _close(running(p.counts), now, SAME_LOAD)]
    return Changes(
        rate=rate,
        step=find_change([_step_point(p) for p in same_load]),
        load=load,
        rates_before=_rates([p.counts for p in same_k if rate and p.end <= rate.at]),
        speedup_before=_speedup([p.counts for p in parts if load and p.end <= load.at]),
    )


def _recent_load(parts: Sequence[Part]) -> float | None:
    recent = [p for p in parts if p.counts.decode_seconds > 0.0]
    return running(recent[-1].counts) if recent else None


def _close(a: float | None, b: float | None, ratio: float) -> bool:
    if a is None or b is None:
        return a is b
    return b > 0.0 and 1.0 / ratio <= a / b <= ratio


def _k(counts: Counts) -> float | None:
    if counts.drafts <= 0.0 or counts.unsized_drafts > 0.0 or counts.draft_tokens <= 0.0:
        return None
    return counts.draft_tokens / counts.drafts


def _rate_point(part: Part) -> Point:
    tokens = part.counts.draft_tokens
    value = max(part.counts.accepted_tokens, 0.0) / tokens if tokens > 0.0 else 0.0
    return Point(part.start, part.end, value, tokens)


def _load_point(part: Part) -> Point:
    return Point(part.start, part.end, running(part.counts) or 0.0, part.counts.decode_seconds)


def _step_point(part: Part) -> Point:
    counts = part.counts
    steps = counts.decode_steps or counts.drafts
    value = counts.decode_seconds / steps if steps > 0.0 else 0.0
    return Point(part.start, part.end, value, steps if counts.decode_seconds > 0.0 else 0.0)


def _rates(counts: Sequence[Counts]) -> tuple[float, ...]:
    drafts = sum(c.position_drafts for c in counts)
    if drafts <= 0.0:
        return ()
    width = max(len(c.positions) for c in counts)
    sums = [sum(c.positions[i] for c in counts if i < len(c.positions)) for i in range(width)]
    return tuple(total / drafts for total in sums)


def _speedup(counts: Sequence[Counts]) -> float | None:
    compared = sum(c.compared_seconds for c in counts)
    return sum(c.baseline_seconds for c in counts) / compared if compared > 0.0 else None
