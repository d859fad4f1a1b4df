"""What is known of one target: its engines' counters, its windows and the verdict on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

from monitor.health.baseline import Baseline
from monitor.health.combine import balanced, combine
from monitor.health.judging import JudgeSettings
from monitor.health.ledger import Ledger, add
from monitor.health.past import Changes, Part, Past, look_back
from monitor.health.peers import NO_PEERS
from monitor.health.speedup import BLOCKS, compare
from monitor.health.verdict import (
    Facts,
    Finding,
    Said,
    decide,
    gather,
    inconclusive,
    with_engines,
)
from monitor.health.watch import Watch, fingerprint
from monitor.health.whatif import StepCost, marginal_cost, what_if
from monitor.health.window import GAP_INTERVALS, Step, Track
from monitor.health.words import duration
from monitor.model import (
    SHARED,
    Action,
    Assessment,
    BaselineMatch,
    Counts,
    EngineVerdict,
    Identity,
    Increment,
    Reading,
    Sample,
    Speculation,
    Verdict,
    WhatIf,
    Window,
)

WARM_SECONDS = 60.0
WARM_REQUESTS = 8.0
"""Warm-up lasts for this time or these requests after a start, whichever ends later."""
LEAST_ALTERNATIONS = 2
"""One return of an earlier worker may be chance; two are workers that take turns."""
_PARTS = 60
_SEEK_SICK = 60.0
_SEEK_WELL = 600.0
"""Seconds between two searches of the past for changes, while sick and while well."""
_HOUR, _DAY = 3600.0, 86_400.0
_SAME_LOAD = 1.25
"""Ratio of two loads at which steps of different draft sizes may still be compared."""
_OTHER_K = 0.5
_COLD_PREFIX_SHARE = 0.01
_WARM_PREFIX = 0.10
_FORGET_SECONDS = 86_400.0
"""An engine that no page has shown for a day is gone: pods come and go behind a router."""
_PREFIX_TOKENS = 10_000.0


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


@dataclass(slots=True)
class _Warmup:
    """The figures since a start that do not vote yet, kept only to be shown."""

    start: float
    end: float
    counts: Counts


class Trial(NamedTuple):
    """What one of the judged windows says."""

    finding: Finding
    facts: Facts
    seconds: float


class Deliberation(NamedTuple):
    """A verdict and how it was come to."""

    assessment: Assessment
    trials: tuple[Trial, ...] = ()
    """The judged windows, shortest first; none where there was nothing to judge."""
    chosen: Trial | None = None


class TargetState:
    """Takes samples of one target in and gives increments and assessments out.

    Pure: no clock, no I/O. ``interval`` is the nominal time between looks in seconds; a time
    of more than ``longest`` (default 2.5 intervals) between two looks is a gap.
    """

    def __init__(
        self,
        name: str,
        interval: float,
        settings: JudgeSettings,
        longest: float | None = None,
    ) -> None:
        self.name = name
        self.memory = Memory()
        self.peers = NO_PEERS
        """How the other replicas of the service do, as far as anybody told."""
        self._interval = interval
        self._longest = longest or GAP_INTERVALS * interval
        self._settings = settings
        self._ledger = Ledger(interval)
        self._engine_ledgers: dict[str, Ledger] = {}
        self._warmup: _Warmup | None = None
        self._sample: Sample | None = None
        self._own_notes: tuple[str, ...] = ()

    def use_baseline(self, baseline: Baseline | None, why_not: str | None = None) -> None:
        """Compares with this curve from now on; ``why_not`` is a note on why there is none.

        A curve of the same name is the same one, known better. With another one the comparison
        begins anew: a speedup over two curves would be over neither.
        """
        before = self._settings.baseline
        self._settings = replace(self._settings, baseline=baseline)
        self._own_notes = () if why_not is None else (why_not,)
        if (before and before.name) == (baseline and baseline.name):
            return
        self._ledger.forget_comparison()
        if self._warmup is not None:
            self._warmup.counts = _without_comparison(self._warmup.counts)
        self.memory.step_costs.clear()

    @property
    def identity(self) -> Identity:
        """What the last page told about the server."""
        return self._sample.identity if self._sample is not None else Identity()

    # -- taking in ---------------------------------------------------------------------

    def observe(self, sample: Sample) -> tuple[Increment, ...]:
        """Takes in one page; the increments are what the store keeps of it."""
        before, memory = self.memory.last_at, self.memory
        version = self.identity.engine_version
        steps = self._advance(sample)
        memory.last_at = sample.at
        self._keep_reference(sample.identity)
        self._sample = sample
        if before is None or not steps:
            return ()
        if any(step.other_worker for step in steps.values()):
            memory.alternations.append(sample.at)
        if any(step.restarted for step in steps.values()):
            memory.restarted_at, memory.version = sample.at, version
            memory.running_since = before
        if any(step.active for step in steps.values()):
            memory.active_at = sample.at
        self._note_stall(sample, steps, sample.at - before)
        warmup = self._is_warming_up(sample)
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

    def _keep_reference(self, identity: Identity) -> None:
        """Goes on with what was learnt where only more is known of the same server."""
        before = self.identity
        if identity is before or identity.engine is None:
            return
        if any(_differ(a, b) for a, b in zip(before, identity, strict=True)):
            return
        references = self.memory.watch.references
        old, new = fingerprint(before), fingerprint(identity)
        if old != new and old in references and new not in references:
            references[new] = references.pop(old)

    @property
    def _may_learn(self) -> bool:
        """Only from a past that nobody would call sick is learnt what is normal."""
        verdict = self.memory.verdict
        return verdict is not None and verdict[0] in _LEARNT_FROM

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
                    self._engine_ledgers.pop(label, None)
        return steps

    def _note_stall(self, sample: Sample, steps: dict[str, Step], seconds: float) -> None:
        running = any((reading.running or 0.0) > 0.0 for reading in sample.readings)
        if running and not any(step.active or step.restarted for step in steps.values()):
            self.memory.stalled_seconds += seconds
        else:
            self.memory.stalled_seconds = 0.0

    def _is_warming_up(self, sample: Sample) -> bool:
        births = [r.birth for r in sample.readings if r.birth is not None]
        start = max(births) if births else self.memory.restarted_at
        if start is not None and start > sample.at:
            # The server's clock is ahead of ours; when we saw the restart is what we know.
            start = self.memory.restarted_at
        if start is not None and sample.at - start < WARM_SECONDS:
            return True
        served = [r.counters["requests"] for r in sample.readings if "requests" in r.counters]
        return bool(served) and sum(served) < WARM_REQUESTS

    def _remember(
        self, increments: tuple[Increment, ...], *, compared: bool = False
    ) -> tuple[tuple[Increment, ...], Counts]:
        """Adds one interval to the windows; returns it with the comparison to the baseline,
        and the target's sums of it. If ``compared``, the comparison is there already."""
        first = increments[0]
        total = combine({increment.label: increment.counts for increment in increments})
        if self._compares and not compared:
            total = compare(total, self._settings.baseline)  # type: ignore[arg-type]
            increments = (_with_comparison(first, total), *increments[1:])
        if first.warmup:
            self._keep_warmup(first.start, first.end, total)
            # The figures do not vote, but that there was a restart belongs to the window.
            self._ledger.append(first.start, first.end, Counts(resets=total.resets))
            return increments, total
        self._warmup = None
        self._ledger.append(first.start, first.end, total)
        if len(increments) > 1:
            for increment in increments:
                ledger = self._engine_ledgers.setdefault(increment.label, Ledger(self._interval))
                ledger.append(increment.start, increment.end, increment.counts)
        return increments, total

    @property
    def _compares(self) -> bool:
        return self._settings.baseline is not None and self._baseline_matches

    def _keep_warmup(self, start: float, end: float, counts: Counts) -> None:
        if self._warmup is None:
            self._warmup = _Warmup(start, end, counts)
        else:
            self._warmup = _Warmup(self._warmup.start, end, add(self._warmup.counts, counts))

    def retrace(self, sample: Sample, increments: tuple[Increment, ...], *, learn: bool) -> None:
        """Takes in one stored interval as ``observe`` took in its page, for looking back.

        The comparison with the baseline stays as it was stored, whatever is compared with now.
        ``sample`` holds what of the page is known from elsewhere; unless ``learn``, references
        stay as they are.
        """
        memory, version = self.memory, self.identity.engine_version
        self._sample, memory.last_at = sample, sample.at
        parts = {i.label: i.counts for i in increments}
        if any(counts.resets > 0.0 for counts in parts.values()):
            memory.restarted_at, memory.version = sample.at, version
            memory.running_since = increments[0].start
        if any(_moved(counts) for counts in parts.values()):
            memory.active_at = sample.at
        running = any(counts.running_seconds > 0.0 for counts in parts.values())
        stalled = running and not any(_moved(counts) for counts in parts.values())
        start = increments[0].start
        memory.stalled_seconds = memory.stalled_seconds + sample.at - start if stalled else 0.0
        _, total = self._remember(increments, compared=True)
        if not increments[0].warmup:
            healthy = learn and self._may_learn
            memory.watch.take(sample.identity, start, sample.at, total, healthy=healthy)
        # Changes are sought at times of their own, which belong to what was known.
        self._look_back(sample, sample.at)

    def restore(self, memory: Memory, identity: Identity, history: Iterable[Increment]) -> None:
        """Goes on from what an earlier process remembered and stored (ascending in time)."""
        self.memory = memory
        self._sample = Sample(memory.last_at or 0.0, identity, [])
        for _, group in groupby(history, key=lambda increment: increment.end):
            increments = tuple(i._replace(counts=_without_comparison(i.counts)) for i in group)
            self._remember(increments)

    # -- judging -----------------------------------------------------------------------

    def assess(self, now: float) -> Assessment:
        """The verdict now: the shortest judged window that allows one decides."""
        return self.deliberate(now).assessment

    def deliberate(self, now: float) -> Deliberation:
        """The same, with what each window said."""
        sample = self._sample
        early = self._without_figures(now)
        if early is not None or sample is None:
            return Deliberation(early or self.down("no page yet", now))
        past = self._look_back(sample, now)
        tried = []
        for seconds in self._settings.judged:
            facts = self._facts(self._since_start(seconds, sample), sample, past)
            finding = decide(facts)
            tried.append(Trial(finding, facts, seconds))
            if not inconclusive(finding, facts):
                break
        chosen = max(tried, key=_weight)
        self.memory.watch.clear(now, chosen.facts.accepted.rate, past.normal)
        answer = self._with_silence(self._answer(*chosen, now), now)
        return Deliberation(answer, tuple(tried), chosen)

    def _with_silence(self, answer: Assessment, now: float) -> Assessment:
        """Says that a verdict rests on traffic that has ended, where it does."""
        active = self.memory.active_at
        silent = now - active if active is not None else 0.0
        if silent <= self._settings.judged[0] or answer.verdict not in _RESTS_ON_TRAFFIC:
            return answer
        return replace(answer, sentence=f"{answer.sentence}; no traffic for {duration(silent)}")

    def _since_start(self, seconds: float, sample: Sample) -> float:
        """A window no longer than the present process runs: the one before may have had
        another drafter, and its figures say nothing about this one."""
        start = self.memory.running_since
        return seconds if start is None else min(seconds, max(sample.at - start, 1.0))

    def _look_back(self, sample: Sample, now: float) -> Past:
        """What is known of the time before; changes in it are only sought now and then."""
        memory, watch = self.memory, self.memory.watch
        sick = watch.alarmed or (memory.verdict is not None and memory.verdict[0] in _SICK)
        patience = _SEEK_SICK if sick else _SEEK_WELL
        if memory.sought_at is None or now - memory.sought_at >= patience:
            memory.sought_at, memory.changes = now, self._seek_changes(sick=sick)
        reference = watch.reference(sample.identity)
        return Past(
            changes=memory.changes,
            normal=reference.normal(now),
            normal_rates=reference.rates,
            restarted_at=memory.restarted_at,
            version_changed=_differ(memory.version, sample.identity.engine_version),
            drop_alarm=watch.drop.alarm_at,
            drop_since=watch.drop.changed_at,
            rise_alarm=watch.rise.alarm_at,
            peers=self.peers,
        )

    def _seek_changes(self, *, sick: bool) -> Changes:
        """Changes within the last hour; for a sick target, else within the last day."""
        hour = self._changes(_HOUR)
        if hour.any or not sick:
            return hour
        day = self._changes(_DAY)
        return day if day.any else hour

    def _changes(self, seconds: float) -> Changes:
        return look_back([Part(*part) for part in self._ledger.parts(seconds, _PARTS)])

    def assess_window(self, seconds: float, now: float) -> Assessment:
        """The assessment of the last ``seconds`` alone."""
        sample = self._sample
        early = self._without_figures(now)
        if early is not None or sample is None:
            return early or self.down("no page yet", now)
        facts = self._facts(seconds, sample)
        return self._answer(decide(facts), facts, seconds, now)

    def assess_lifetime(self, now: float) -> Assessment:
        """The assessment of all since the server started, from the last page alone."""
        sample = self._sample
        if sample is None or not sample.readings:
            return self._without_figures(now) or self.down("no page yet", now)
        parts = {r.label: self.memory.tracks[r.label].lifetime(r, now) for r in sample.readings}
        total = combine(parts)
        window = Window(
            start=now - total.seconds,
            end=now,
            counts=total,
            lifetime=True,
            running_now=_running(sample.readings),
            warming_up=self._is_warming_up(sample),
        )
        facts = gather(
            window, [], _speculation(sample.readings), self._settings, baseline_matches=False
        )
        return self._answer(decide(facts), facts, None, now)

    def down(self, reason: str, now: float) -> Assessment:
        """The assessment of a target whose page cannot be had."""
        return Assessment(
            self.name, now, Verdict.DOWN, None, Action.FIX_MONITORING, f"no page: {reason}"
        )

    def standing(self, now: float) -> Assessment | None:
        """The verdict of an earlier process, of which only the words are left."""
        verdict = self.memory.verdict
        if verdict is None:
            return None
        sentence = "no page since the monitor was started; the verdict from before stands"
        return Assessment(self.name, now, *verdict, sentence, self.identity)

    def misses_pages(self, now: float) -> bool:
        """Whether the last usable page is too old for its verdict to be repeated."""
        last = self.memory.last_at
        return last is None or now - last > self._longest

    def _without_figures(self, now: float) -> Assessment | None:
        """The assessments that need no window at all."""
        sample = self._sample
        if sample is None:
            return None
        verdict, action = Verdict.INSUFFICIENT, Action.NONE
        if sample.identity.engine is None:
            verdict, action = Verdict.UNRECOGNISED, Action.FIX_MONITORING
            sentence = (
                "the page answers but shows no metric family of a known engine:"
                " were names changed, or are the engine's metrics switched off?"
            )
        elif not sample.readings:
            verdict = Verdict.IDLE
            sentence = "the page shows no figures yet: nothing was served since the start"
        elif self._ledger.window(1.0) is None and self._warmup is None:
            sentence = "figures are there for the first time; it takes a second look to judge"
        else:
            return None
        return Assessment(
            self.name, now, verdict, None, action, sentence, sample.identity, notes=sample.notes
        )

    def _facts(
        self,
        seconds: float,
        sample: Sample,
        past: Past | None = None,
    ) -> Facts:
        # The interval of the speedup needs the spread between parts of the window.
        needs_blocks = self._compares and seconds <= _HOUR
        return gather(
            self._window(seconds, sample),
            self._ledger.compared_blocks(seconds, BLOCKS) if needs_blocks else [],
            _speculation(sample.readings),
            self._settings,
            baseline_matches=self._baseline_matches,
            previous=self.memory.verdict if past is not None else None,
            learnt_effect=self.memory.watch.reference(sample.identity).design_effect,
            past=past,
        )

    @property
    def _baseline_matches(self) -> bool:
        baseline, sample = self._settings.baseline, self._sample
        return baseline is None or sample is None or baseline.matches(sample.identity)

    def _window(self, seconds: float, sample: Sample) -> Window:
        span = self._ledger.window(seconds)
        running = _running(sample.readings)
        start, end, counts = span or (sample.at, sample.at, Counts())
        if self._warmup is not None:
            # What the server did before it started anew says nothing about what runs now.
            warm = self._warmup
            return Window(warm.start, warm.end, warm.counts, running_now=running, warming_up=True)
        recent = [at for at in self.memory.alternations if at > start]
        return Window(
            start,
            end,
            counts,
            running_now=running,
            stalled_seconds=self.memory.stalled_seconds,
            drafts_pending=any(
                track.drafts_pending for track in self.memory.tracks.values() if not track.vanished
            ),
            alternating=len(recent) >= LEAST_ALTERNATIONS,
        )

    def _answer(
        self, finding: Finding, facts: Facts, seconds: float | None, now: float
    ) -> Assessment:
        sample = self._sample or Sample(now, Identity(), [])
        engines = self._engines(seconds, sample) if seconds is not None else ()
        finding = with_engines(finding, engines)
        silent = finding.verdict in _WITHOUT_ACCEPTANCE
        baseline = self._settings.baseline
        return Assessment(
            target=self.name,
            at=now,
            verdict=finding.verdict,
            cause=finding.cause,
            action=finding.action,
            sentence=finding.sentence,
            identity=sample.identity,
            window=facts.window,
            acceptance_rate=None if silent else facts.accepted.rate,
            acceptance_length=None if silent else facts.accepted.length,
            positions=() if silent else facts.table,
            speedup=None if silent else facts.speedup,
            break_even=None if silent else facts.break_even,
            what_if=None if silent else self._best_size(facts),
            load=facts.load,
            evidence=facts.accepted.evidence,
            baseline=(
                BaselineMatch(baseline.name, facts.baseline_matches, baseline.running_range)
                if baseline is not None
                else None
            ),
            engines=engines,
            notes=(*sample.notes, *_notes(facts), *self._own_notes),
        )

    def _lost_prefixes(self, facts: Facts) -> list[str]:
        """A note where prompts were found in the prefix cache earlier and are no more."""
        now, day = _prefix_share(facts.counts), self._ledger.window(_DAY)
        before = _prefix_share(day[2]) if day is not None else None
        if now is None or before is None or now >= _COLD_PREFIX_SHARE or before < _WARM_PREFIX:
            return []
        return ["prompt prefixes are no longer found in the cache: first tokens take longer"]

    def _best_size(self, facts: Facts) -> WhatIf | None:
        """The best draft size, where a baseline and counters per position are there."""
        now = _step_cost(facts)
        if now is None or not facts.conclusive:
            return None
        seen = self.memory.step_costs
        seen[str(round(now.k))] = (now, facts.load.running or 1.0)
        cost = None
        for other, load in seen.values():
            close = _SAME_LOAD > load / (facts.load.running or 1.0) > 1.0 / _SAME_LOAD
            if close and abs(other.k - now.k) > _OTHER_K:
                cost = marginal_cost(now, other)
        return what_if(facts.table, now.k, now, cost)

    def _engines(self, seconds: float, sample: Sample) -> tuple[EngineVerdict, ...]:
        """The verdict on each engine, where there are several."""
        ranks = [r for r in sample.readings if r.label != SHARED]
        if len(ranks) < 2:  # noqa: PLR2004
            return ()
        return tuple(self._engine(reading, seconds) for reading in ranks)

    def _engine(self, reading: Reading, seconds: float) -> EngineVerdict:
        ledger = self._engine_ledgers.get(reading.label)
        span = ledger.window(seconds) if ledger is not None else None
        if span is None:
            return EngineVerdict(reading.label, Verdict.INSUFFICIENT, None, None, None)
        start, end, counts = span
        window = Window(start, end, counts, running_now=reading.running or 0.0)
        plain = replace(self._settings, baseline=None, speeds=None)
        facts = gather(window, [], reading.speculation, plain)
        finding = decide(facts)
        silent = finding.verdict in _WITHOUT_ACCEPTANCE
        return EngineVerdict(
            reading.label,
            finding.verdict,
            finding.cause,
            None if silent else facts.accepted.rate,
            None if silent else facts.accepted.length,
        )


_WITHOUT_ACCEPTANCE = frozenset(
    {
        Verdict.IDLE,
        Verdict.OFF,
        Verdict.NOT_DRAFTING,
        Verdict.UNRECOGNISED,
        Verdict.DOWN,
        Verdict.MISREPORTED,
        Verdict.STALLED,
    }
)
"""Verdicts beside which an acceptance figure would be wrong or old."""

_RESTS_ON_TRAFFIC = frozenset(
    {
        Verdict.HEALTHY,
        Verdict.NEUTRAL,
        Verdict.DEGRADED,
        Verdict.HARMFUL,
        Verdict.UNPROVEN,
    }
)
# A verdict needs a narrow interval, which comes sooner where acceptance is high: what is learnt
# from judged windows alone is too high where requests are few.
_LEARNT_FROM = frozenset(
    {Verdict.HEALTHY, Verdict.NEUTRAL, Verdict.UNPROVEN, Verdict.INSUFFICIENT, Verdict.IDLE}
)
_SICK = frozenset({Verdict.DEGRADED, Verdict.HARMFUL})

_RANK = {Verdict.IDLE: 0, Verdict.INSUFFICIENT: 1, Verdict.UNPROVEN: 2}


def _weight(tried: Trial) -> tuple[int, float]:
    """What was found out with certainty wins; among the rest the one with most evidence."""
    return _RANK.get(tried.finding.verdict, 3), tried.seconds


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


def _differ(before: object, now: object) -> bool:
    return before is not None and now is not None and before != now


def _running(readings: list[Reading]) -> float:
    return sum(reading.running or 0.0 for reading in readings)


def _speculation(readings: list[Reading]) -> Speculation:
    """What is configured if any engine says so; else what the first one says."""
    said = [reading.speculation for reading in readings]
    if Speculation.CONFIGURED in said:
        return Speculation.CONFIGURED
    known = [s for s in said if s is not Speculation.ABSENT]
    return known[0] if known else Speculation.ABSENT


def _step_cost(facts: Facts) -> StepCost | None:
    k, step, gain = facts.accepted.k, facts.load.step, facts.speedup
    if k is None or step is None or gain is None or facts.load.tpot is None:
        return None
    return StepCost(k, step, gain.value * facts.load.tpot)


def _with_comparison(increment: Increment, total: Counts) -> Increment:
    """Carries the target's comparison with the baseline on its first engine's row."""
    counts = increment.counts._replace(
        baseline_seconds=total.baseline_seconds,
        compared_seconds=total.compared_seconds,
        uncompared_seconds=total.uncompared_seconds,
    )
    return increment._replace(counts=counts)


def _without_comparison(counts: Counts) -> Counts:
    return counts._replace(baseline_seconds=0.0, compared_seconds=0.0, uncompared_seconds=0.0)


def _notes(facts: Facts) -> list[str]:
    """What is worth knowing beside the verdict."""
    baseline = facts.settings.baseline
    if baseline is not None and not facts.baseline_matches and not facts.window.lifetime:
        return [f"baseline mismatch: {baseline.name} was not compared"]
    return []


def _prefix_share(counts: Counts) -> float | None:
    """Share of prompt tokens found in the prefix cache; None where few were looked for."""
    if counts.prefix_queries < _PREFIX_TOKENS:
        return None
    return counts.prefix_hits / counts.prefix_queries
