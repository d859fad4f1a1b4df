"""Keeps the references of one target and the detectors that watch against them."""

from __future__ import annotations

from dataclasses import dataclass, field

from monitor.health.detect import (
    HARDLY_ANY,
    Cusum,
    Freshness,
    Scrape,
    rate_variance,
    shape_for,
)
from monitor.health.pace import Pace
from monitor.health.reference import HOURS, Normal, Reference, length_variance
from monitor.model import Alarm, Counts, Estimate, Identity

_KEPT_REFERENCES = 4
_SAME_K = 0.01
_RUN_SECONDS = 120.0
_RUN_LIVES = 12.0
"""A run must be long against a request, and short against what moves the traffic slowly."""
_DEAD_LENGTH = 1.05


def fingerprint(identity: Identity) -> str:
    """What a reference is bound to: figures of another kind of server do not compare."""
    return "|".join("" if part is None else str(part) for part in identity)


@dataclass(slots=True)
class Run:
    """Deviations of neighbouring scrapes, to learn how they repeat each other."""

    start: float | None = None
    total: float = 0.0
    """Sum of the deviations, each over its variance: so they become evidence."""
    number: float = 0.0
    """Sum of one over each variance: the variance of ``total`` if no scrape repeats another."""
    decode_seconds: float = 0.0
    requests: float = 0.0
    total_before: float = 0.0
    number_before: float = 0.0
    """The same of the run before; zero if there was none."""

    def add(self, deviation: float, precision: float, counts: Counts) -> None:
        """Takes in a scrape; ``precision`` is one over its variance without correlation."""
        self.total += deviation * precision
        self.number += precision
        self.decode_seconds += counts.decode_seconds
        self.requests += counts.requests

    @property
    def length(self) -> float:
        """Seconds a run must last: some lives of a request."""
        life = self.decode_seconds / self.requests if self.requests > 0.0 else 0.0
        return max(_RUN_SECONDS, _RUN_LIVES * life)


@dataclass(slots=True)
class Watch:
    """The learnt normals by fingerprint, and the evidence that acceptance left them."""

    references: dict[str, Reference] = field(default_factory=dict)
    """By fingerprint, the one in use last."""
    drop: Cusum = field(default_factory=Cusum)
    rise: Cusum = field(default_factory=Cusum)
    run: Run = field(default_factory=Run)
    freshness: Freshness = field(default_factory=Freshness)
    k: float | None = None
    pace: Pace = field(default_factory=Pace)
    _last: tuple[Identity, Reference] | None = None

    def reference(self, identity: Identity) -> Reference:
        """The reference for this kind of server; a few older ones are kept beside it."""
        if self._last is not None and self._last[0] is identity:
            return self._last[1]
        key = fingerprint(identity)
        if self._last is not None and self._last[0].contradicts(identity):
            # What a step costs another kind of server says nothing about this one.
            self.pace = Pace()
        found = self.references.pop(key, None) or Reference()
        while len(self.references) >= _KEPT_REFERENCES:
            self.references.pop(next(iter(self.references)))
        self.references[key] = found
        self._last = identity, found
        return found

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What the detectors have found that still stands."""
        found = []
        if self.drop.alarm_at is not None:
            found.append(Alarm.DROP)
        if self.rise.alarm_at is not None:
            found.append(Alarm.RISE)
        if self.pace.fall.alarm_at is not None:
            found.append(Alarm.SLOWDOWN)
        return tuple(found)

    @property
    def alarmed(self) -> bool:
        """Whether one of the detectors has found a change that still stands."""
        return self.drop.alarm_at is not None or self.rise.alarm_at is not None

    @property
    def may_clear(self) -> bool:
        """Whether an alarm might end by a judgement, which is too dear for each look back."""
        return any(
            cusum.alarm_at is not None and cusum.zero_since is not None
            for cusum in (self.drop, self.rise, self.pace.fall)
        )

    @property
    def quiet(self) -> bool:
        """Whether there is so little evidence of a fault that the past may be learnt from."""
        return not self.alarmed and max(self.drop.evidence, self.rise.evidence) < HARDLY_ANY

    def take(
        self, identity: Identity, start: float, end: float, counts: Counts, *, healthy: bool
    ) -> None:
        """Takes in one steady interval of the target."""
        if counts.drafts <= 0.0 or counts.draft_tokens <= 0.0 or counts.unsized_drafts > 0.0:
            return
        self._note_draft_size(counts)
        self.pace.take(start, end, counts, healthy=healthy and not self.alarmed)
        reference = self.reference(identity)
        normal = reference.normal(end)
        if normal is not None and counts.resets <= 0.0:
            self._watch(reference, normal, start, end, counts)
        alive = counts.accepted_tokens >= (_DEAD_LENGTH - 1.0) * counts.drafts
        reference.offer(start, end, counts, healthy=healthy and alive and self.quiet)

    def _note_draft_size(self, counts: Counts) -> None:
        """The rate falls as k grows, so evidence from another draft size does not add up."""
        k = counts.draft_tokens / counts.drafts
        if self.k is not None and abs(k - round(k)) < _SAME_K and round(k) != round(self.k):
            self.drop.reset()
            self.rise.reset()
            self.run = Run()
            self.pace = Pace()
        if abs(k - round(k)) < _SAME_K or self.k is None:
            self.k = k

    def _watch(
        self, reference: Reference, normal: Normal, start: float, end: float, counts: Counts
    ) -> None:
        k = counts.draft_tokens / counts.drafts
        rate = counts.accepted_tokens / counts.draft_tokens
        shape = shape_for(normal.rate, by_hour=normal.hours < HOURS, error=normal.error)
        running = counts.running_seconds / counts.seconds if counts.seconds > 0.0 else 0.0
        # A page that shows no running requests has drafts of at least one.
        active = max(counts.requests + running, 1.0)
        variance = rate_variance(
            Scrape(
                requests=active,
                drafts=counts.drafts,
                k=k,
                length_variance=length_variance(reference.rates, normal.rate, k),
                fresh=self.freshness.take(start, end, active, running),
            ),
            reference.spread_at(normal.rate),
            reference.correlation,
        )
        self.drop.add(start, end, normal.rate - shape.tolerance - rate, variance, shape)
        self.rise.add(start, end, rate - normal.rate - shape.tolerance, variance, shape)
        if self.quiet:
            self.run.add(normal.rate - rate, reference.correlation / variance, counts)
            self._learn_run(reference, start, end)

    def _learn_run(self, reference: Reference, start: float, end: float) -> None:
        run = self.run
        if run.start is None:
            run.start = start
        if end - run.start >= run.length:
            if run.number_before > 0.0:
                both = run.number + run.number_before
                reference.learn_run(run.total - run.total_before, both)
            self.run = Run(total_before=run.total, number_before=run.number)

    def clear(
        self,
        now: float,
        rate: Estimate | None,
        normal: Normal | None,
        speedup: Estimate | None = None,
    ) -> None:
        """Ends alarms whose cause is gone: no evidence for long, and a normal window."""
        self.pace.clear(now, speedup)
        if normal is None or rate is None or rate.low is None or rate.high is None:
            return
        again = rate.low <= normal.rate <= rate.high
        self.drop.clear_if(now, normal_again=again)
        self.rise.clear_if(now, normal_again=again)
