"""Takes in the pages of one target: what they add to its windows, and what must be remembered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby

from monitor.health.baseline import Baseline
from monitor.health.combine import balanced, combine
from monitor.health.judging import JudgeSettings
from monitor.health.pace import Pace
from monitor.health.past import Changes
from monitor.health.speedup import compare
from monitor.health.verdict import Said
from monitor.health.watch import Watch, fingerprint
from monitor.health.whatif import StepCost
from monitor.health.window import GAP_INTERVALS, Step, Track
from monitor.health.windows import Windows, without_comparison
from monitor.model import Counts, Identity, Increment, Sample, Verdict

WARM_SECONDS = 60.0
WARM_REQUESTS = 8.0
"""Warm-up lasts for this time or these requests after a start, whichever ends later."""
LEARNT_FROM = frozenset(
    {Verdict.HEALTHY, Verdict.NEUTRAL, Verdict.UNPROVEN, Verdict.INSUFFICIENT, Verdict.IDLE}
)
"""Verdicts beside which is learnt what is normal.

A verdict needs a narrow interval, which comes sooner where acceptance is high: what is learnt
from judged windows alone is too high where requests are few.
"""
_FORGET_SECONDS = 86_400.0
"""An engine that no page has shown for a day is gone: pods come and go behind a router."""


@dataclass(slots=True)
class Memory:
    """What must survive a restart of the monitor, besides the increments in the store."""

    tracks: dict[str, Track] = field(default_factory=dict)
    last_at: float | None = None
    """Time of the last usable page."""
    restarted_at: float | None = None
    """When a restart was seen."""
    running_since: float | None = None
    """Since when what is counted belongs to the process that runs now."""
    active_at: float | None = None
    """When anything was last counted."""
    stalled_seconds: float = 0.0
    alternations: deque[float] = field(default_factory=lambda: deque(maxlen=16))
    verdict: Said | None = None
    step_costs: dict[str, tuple[StepCost, float]] = field(default_factory=dict)
    """Cost of a step and the load it was seen at, by draft size: two sizes tell what a draft
    token costs."""
    watch: Watch = field(default_factory=Watch)
    version: str | None = None
    """The engine version before the last restart."""
    changes: Changes = field(default_factory=Changes)
    sought_at: float | None = None
    """When the past was last searched for ``changes``."""


class Intake:
    """Takes samples in and gives increments out; keeps what a judgement needs.

    Pure: no clock, no I/O. ``interval`` is the nominal time between looks in seconds; a time
    of more than ``longest`` (default 2.5 intervals) between two looks is a gap.
    """

    def __init__(
        self, interval: float, settings: JudgeSettings, longest: float | None = None
    ) -> None:
        self.settings = settings
        self.memory = Memory()
        self.windows = Windows(interval)
        self.sample: Sample | None = None
        """The last usable page."""
        self.alerted = False
        """Whether an alert about the target is open; it may outlast the verdict it came from."""
        self._longest = longest or GAP_INTERVALS * interval

    @property
    def identity(self) -> Identity:
        """What the last page told about the server."""
        return self.sample.identity if self.sample is not None else Identity()

    @property
    def baseline_matches(self) -> bool:
        """Whether the baseline is of this kind of server, as far as is known."""
        baseline, sample = self.settings.baseline, self.sample
        return baseline is None or sample is None or baseline.matches(sample.identity)

    def use_baseline(self, baseline: Baseline | None) -> None:
        """Compares with this curve from now on.

        A curve of the same name is the same one, known better. With another one the comparison
        begins anew: a speedup over two curves would be over neither.
        """
        before = self.settings.baseline
        self.settings = replace(self.settings, baseline=baseline)
        if (before and before.name) == (baseline and baseline.name):
            return
        self.windows.forget_comparison()
        self.memory.step_costs.clear()
        self.memory.watch.pace = Pace()

    def observe(self, sample: Sample) -> tuple[Increment, ...]:
        """Takes in one page; the increments are what the store keeps of it."""
        before, memory = self.memory.last_at, self.memory
        version = self.identity.engine_version
        steps = self._advance(sample)
        memory.last_at = sample.at
        self._keep_reference(sample.identity)
        self.sample = sample
        if before is None or not steps:
            return ()
        other_worker = restarted = active = running = False
        for step in steps.values():
            other_worker |= step.other_worker
            restarted |= step.restarted
            active |= step.active
        for reading in sample.readings:
            running |= (reading.running or 0.0) > 0.0
        if other_worker:
            memory.alternations.append(sample.at)
        self._note_process(
            before, sample.at, version, restarted=restarted, active=active, running=running
        )
        warmup = self.is_warming_up(sample)
        parts = {label: step.counts for label, step in steps.items()}
        increments = tuple(
            Increment(label, before, sample.at, counts, warmup)
            for label, counts in balanced(parts, sample.readings).items()
        )
        increments, total = self._remember(increments)
        if not warmup:
            self.memory.watch.take(
                sample.identity, before, sample.at, total, healthy=self._may_learn
            )
        return increments

    def retrace(self, sample: Sample, increments: tuple[Increment, ...], *, learn: bool) -> None:
        """Takes in one stored interval as ``observe`` took in its page, for looking back.

        The comparison with the baseline stays as it was stored, whatever is compared with now.
        ``sample`` holds what of the page is known from elsewhere; unless ``learn``, references
        stay as they are.
        """
        version, start = self.identity.engine_version, increments[0].start
        self.sample, self.memory.last_at = sample, sample.at
        self._note_process(
            start,
            sample.at,
            version,
            restarted=any(i.counts.resets > 0.0 for i in increments),
            active=any(_moved(i.counts) for i in increments),
            running=any(i.counts.running_seconds > 0.0 for i in increments),
        )
        _, total = self._remember(increments, compared=True)
        if not increments[0].warmup:
            healthy = learn and self._may_learn
            self.memory.watch.take(sample.identity, start, sample.at, total, healthy=healthy)

    def restore(self, memory: Memory, identity: Identity, history: Iterable[Increment]) -> None:
        """Goes on from what an earlier process remembered and stored (ascending in time)."""
        self.memory = memory
        self.sample = Sample(memory.last_at or 0.0, identity, [])
        for _, group in groupby(history, key=lambda increment: increment.end):
            increments = tuple(i._replace(counts=without_comparison(i.counts)) for i in group)
            self._remember(increments)

    def misses_pages(self, now: float) -> bool:
        """Whether the last usable page is too old for its verdict to be repeated."""
        last = self.memory.last_at
        return last is None or now - last > self._longest

    def is_warming_up(self, sample: Sample) -> bool:
        """Whether the server has started so recently that its figures do not vote yet."""
        births = [r.birth for r in sample.readings if r.birth is not None]
        start = max(births) if births else self.memory.restarted_at
        if start is not None and start > sample.at:
            # The server's clock is ahead of ours; when we saw the restart is what we know.
            start = self.memory.restarted_at
        if start is not None and sample.at - start < WARM_SECONDS:
            return True
        served = [r.counters["requests"] for r in sample.readings if "requests" in r.counters]
        return bool(served) and sum(served) < WARM_REQUESTS

    def _keep_reference(self, identity: Identity) -> None:
        """Goes on with what was learnt where only more is known of the same server."""
        before = self.identity
        if identity is before or identity.engine is None:
            return
        if before.contradicts(identity):
            return
        references = self.memory.watch.references
        old, new = fingerprint(before), fingerprint(identity)
        if old != new and old in references and new not in references:
            references[new] = references.pop(old)

    @property
    def _may_learn(self) -> bool:
        """Only from a past that nobody would call sick is learnt what is normal."""
        verdict = self.memory.verdict
        return not self.alerted and verdict is not None and verdict[0] in LEARNT_FROM

    def _advance(self, sample: Sample) -> dict[str, Step]:
        tracks = self.memory.tracks
        steps = {}
        for reading in sample.readings:
            track = tracks.setdefault(reading.label, Track())
            step = track.advance(reading, sample.at, self._longest)
            if step is not None:
                steps[reading.label] = step
        if len(tracks) > len(sample.readings):
            shown = {reading.label for reading in sample.readings}
            for label, track in list(tracks.items()):
                track.vanished = track.vanished or label not in shown
                if track.last_at is not None and sample.at - track.last_at > _FORGET_SECONDS:
                    del tracks[label]
                    self.windows.forget_engine(label)
        return steps

    def _note_process(
        self,
        start: float,
        end: float,
        version: str | None,
        *,
        restarted: bool,
        active: bool,
        running: bool,
    ) -> None:
        """What an interval tells about the process; ``version`` ran until then."""
        memory = self.memory
        if restarted:
            memory.restarted_at, memory.version, memory.running_since = end, version, start
        if active:
            memory.active_at = end
        stalled = running and not (active or restarted)
        memory.stalled_seconds = memory.stalled_seconds + (end - start) if stalled else 0.0

    def _remember(
        self, increments: tuple[Increment, ...], *, compared: bool = False
    ) -> tuple[tuple[Increment, ...], Counts]:
        """Adds one interval to the windows; returns it with the comparison to the baseline,
        and the target's sums of it. If ``compared``, the comparison is there already."""
        first = increments[0]
        total = combine({increment.label: increment.counts for increment in increments})
        baseline = self.settings.baseline
        if baseline is not None and self.baseline_matches and not compared:
            total = compare(total, baseline)
            counts = _with_comparison(first.counts, total) if len(increments) > 1 else total
            increments = (first._replace(counts=counts), *increments[1:])
        self.windows.append(increments, total)
        return increments, total


def _with_comparison(counts: Counts, total: Counts) -> Counts:
    """Carries the target's comparison with the baseline on its first engine's row."""
    return counts._replace(
        baseline_seconds=total.baseline_seconds,
        compared_seconds=total.compared_seconds,
        uncompared_seconds=total.uncompared_seconds,
    )


def _moved(counts: Counts) -> bool:
    """Whether anything at all was counted, or begun anew."""
    return any(
        (
            counts.output_tokens,
            counts.requests,
            counts.drafts,
            counts.decode_steps,
            counts.prompt_tokens,
            counts.draft_tokens,
            counts.engine_steps,
            counts.resets,
        )
    )


def differ(before: object, now: object) -> bool:
    """Whether two parts of an identity contradict each other; what is not known does not."""
    return before is not None and now is not None and before != now
