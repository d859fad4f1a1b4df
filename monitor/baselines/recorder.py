"""Watches a live server without speculation until its curve is known well enough.

It only looks: the load is whatever users put on the server. Every look goes through the same
pipeline as the daemon's, and what lies between two looks goes into the bin of its load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from monitor.check import Fetcher
from monitor.clock import Clock
from monitor.health.baseline import BaselinePoint
from monitor.health.combine import combine
from monitor.health.curve import LEAST_SECONDS, CurveSums, bin_of, monotone
from monitor.health.ledger import add
from monitor.model import Assessment, Counts, Identity, PageError, ScrapeError, Verdict
from monitor.pipeline import TargetPipeline, Tick
from monitor.settings import TargetSettings

DEAD_LENGTH = 1.05
"""An acceptance length below this is a drafter that does nothing but cost time."""
MOST_RUNNING = 100_000.0
_MOST_FAILURES = 12
"""So many looks without a usable page in a row, and the server is given up."""


class RefusedError(ValueError):
    """The server must not become a baseline; the text says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a recording is to cover, and for how long at most."""

    seconds: float
    interval: float
    bins: tuple[float, ...] = ()
    """Middles of the load bins to cover; without any the whole time is used."""
    force: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a recording is."""

    elapsed: float
    covered: tuple[float, ...]
    shares: dict[float, float]
    """Per bin, the share of the decode time that a point needs, up to 1."""
    looks: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class Recording:
    """What was seen."""

    points: tuple[BaselinePoint, ...]
    identity: Identity
    start: float
    end: float
    looks: int
    interrupted: bool
    reason: str | None
    """Why it should have been refused; only with force."""
    notes: tuple[str, ...] = ()
    missing: tuple[float, ...] = ()
    """Bins that were asked for and not covered."""


def parse_bins(text: str) -> tuple[float, ...]:
    """The load bins of ``1,4,16``, ascending."""
    try:
        loads = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError("must be loads with commas between, such as 1,4,16") from None
    if not all(1.0 <= load <= MOST_RUNNING for load in loads):
        raise ValueError("must be numbers of running requests from 1 on")
    return tuple(sorted({bin_of(load) for load in loads}))


def speculation_reason(assessment: Assessment, counts: Counts) -> str | None:
    """Why figures of this server are no baseline, or None if it does not speculate."""
    drafts = counts.drafts or counts.draft_tokens or counts.unsized_drafts
    if drafts > 0.0:
        length = assessment.acceptance_length
        if length is not None and length.value < DEAD_LENGTH:
            return (
                f"its drafter is dead (acceptance length {length.value:.2f}): it looks like plain"
                " decoding, but each step still pays for a draft"
            )
        return "it speculates: drafts flow"
    if assessment.verdict is Verdict.NOT_DRAFTING:
        return "speculation is configured, even if nothing is drafted now"
    if assessment.verdict is Verdict.UNRECOGNISED:
        return "its metrics are not known, so it may speculate"
    return None


@dataclass(slots=True)
class Recorder:
    """Takes the looks in, one by one; raises ``RefusedError`` for a server that speculates."""

    settings: TargetSettings
    plan: Plan
    sums: CurveSums = field(default_factory=CurveSums)
    looks: int = 0
    reason: str | None = None
    identity: Identity = field(default_factory=Identity)
    warmup: int = 0
    notes: dict[str, None] = field(default_factory=dict)
    _total: Counts = field(default_factory=Counts)
    _pipeline: TargetPipeline = field(init=False)

    def __post_init__(self) -> None:
        """Begins with nothing known of the server."""
        self._pipeline = TargetPipeline(self.settings)

    def take(self, tick: Tick, now: float) -> None:
        """Takes in one look that brought a usable page."""
        self.looks += 1
        assessment = tick.assessment
        self.identity = assessment.identity
        self.notes |= dict.fromkeys(assessment.notes)
        if self.looks == 1:
            # The counters since the start tell at once what would else take minutes to show.
            lifetime = self._pipeline.lifetime(now)
            self._judge(lifetime, lifetime.window.counts if lifetime.window else Counts())
        if not tick.increments:
            return
        counts = combine({increment.label: increment.counts for increment in tick.increments})
        self._total = add(self._total, counts)
        self._judge(assessment, self._total)
        if tick.increments[0].warmup:
            self.warmup += 1
        else:
            self.sums.take(counts)

    @property
    def thin(self) -> str | None:
        """Why what was seen is too little for a curve, if it is."""
        if self.sums.covered:
            return None
        return (
            f"no load was seen for {LEAST_SECONDS:g} s of decoding: put traffic on the server,"
            " or watch for longer"
        )

    def points(self) -> tuple[BaselinePoint, ...]:
        """The curve; with force also of loads that were seen for too short a time."""
        if self.sums.covered or not self.plan.force:
            return self.sums.points()
        return monotone([sums.point for _, sums in sorted(self.sums.bins.items())])

    def look(self, fetcher: Fetcher, clock: Clock) -> str | None:
        """Looks once; the problem in one line where there was no usable page."""
        try:
            page = fetcher.fetch()
        except ScrapeError as error:
            self._pipeline.tick_failed(str(error), clock.utc())
            return str(error)
        now = clock.utc()
        tick = self._pipeline.tick(page, now)
        if tick.problem is not None:
            return tick.problem
        self.take(tick, now)
        return None

    def _judge(self, assessment: Assessment, counts: Counts) -> None:
        reason = speculation_reason(assessment, counts)
        if reason is None:
            return
        if not self.plan.force:
            raise RefusedError(reason)
        self.reason = reason

    @property
    def missing(self) -> tuple[float, ...]:
        """Bins that were asked for and are not covered yet."""
        covered = self.sums.covered
        return tuple(middle for middle in self.plan.bins if middle not in covered)

    @property
    def is_done(self) -> bool:
        """Whether all bins that were asked for are covered."""
        return bool(self.plan.bins) and not self.missing

    def progress(self, elapsed: float, problem: str | None) -> Progress:
        """How far it is."""
        asked = dict.fromkeys((*self.plan.bins, *sorted(self.sums.bins)))
        shares = {middle: self._share(middle) for middle in sorted(asked)}
        return Progress(elapsed, self.sums.covered, shares, self.looks, problem)

    def _share(self, middle: float) -> float:
        sums = self.sums.bins.get(middle)
        return min(sums.decode_seconds / LEAST_SECONDS, 1.0) if sums is not None else 0.0


def record(
    settings: TargetSettings,
    plan: Plan,
    *,
    clock: Clock,
    fetcher: Fetcher,
    shown: Callable[[Progress], None] = lambda _: None,
) -> Recording:
    """Looks every ``plan.interval`` seconds until the bins are covered or the time is over.

    An interrupt ends the recording; what was seen until then is returned.

    Raises:
        RefusedError: the server speculates, and ``plan.force`` is not set.
        PageError: the server gives no usable page.
    """
    recorder = Recorder(settings, plan)
    start, began = clock.utc(), clock.monotonic()
    interrupted = False
    try:
        _watch(recorder, clock, began, fetcher, shown)
    except KeyboardInterrupt:
        interrupted = True
    return Recording(
        points=recorder.points(),
        identity=recorder.identity,
        start=start,
        end=clock.utc(),
        looks=recorder.looks,
        interrupted=interrupted,
        reason=recorder.reason or recorder.thin,
        notes=_notes(recorder),
        missing=recorder.missing,
    )


def _watch(
    recorder: Recorder,
    clock: Clock,
    began: float,
    fetcher: Fetcher,
    shown: Callable[[Progress], None],
) -> None:
    plan, failures = recorder.plan, 0
    for number in range(1, int(plan.seconds // plan.interval) + 2):
        problem = recorder.look(fetcher, clock)
        failures = failures + 1 if problem is not None else 0
        if failures and (recorder.looks == 0 or failures >= _MOST_FAILURES):
            raise PageError(f"{recorder.settings.name}: {problem}")
        shown(recorder.progress(clock.monotonic() - began, problem))
        wait = began + number * plan.interval - clock.monotonic()
        if recorder.is_done or clock.monotonic() + max(wait, 0.0) - began > plan.seconds:
            return
        # The looks keep to a grid, so that a slow page does not stretch the interval.
        clock.sleep(max(wait, 0.0))


def _notes(recorder: Recorder) -> tuple[str, ...]:
    notes: Sequence[str] = tuple(recorder.notes)
    if recorder.warmup:
        notes = (*notes, f"{recorder.warmup} looks during warm-up were left out")
    return tuple(notes)
