"""Judges one target by what its pages told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from monitor.health.baseline import Baseline
from monitor.health.combine import combine
from monitor.health.intake import Intake, Memory, differ
from monitor.health.judging import JudgeSettings
from monitor.health.past import Changes, Part, Past, look_back
from monitor.health.peers import NO_PEERS
from monitor.health.ranks import judge_engines
from monitor.health.speedup import BLOCKS
from monitor.health.verdict import (
    WITHOUT_ACCEPTANCE,
    Facts,
    Finding,
    decide,
    gather,
    inconclusive,
    unseen,
    with_engines,
)
from monitor.health.whatif import best_size
from monitor.health.words import duration
from monitor.model import (
    Action,
    Assessment,
    BaselineMatch,
    Counts,
    EngineVerdict,
    Figures,
    Identity,
    Increment,
    Reading,
    Sample,
    Speculation,
    Verdict,
    Window,
)

LEAST_ALTERNATIONS = 2
"""One return of an earlier worker may be chance; two are workers that take turns."""
_TURNS_SECONDS = 900.0
"""How long it is remembered that workers took turns: some balancers stay with one for minutes."""
_PARTS = 60
_SEEK_SICK = 60.0
_SEEK_WELL = 600.0
"""Seconds between two searches of the past for changes, while sick and while well."""
_HOUR, _DAY = 3600.0, 86_400.0


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
        self.peers = NO_PEERS
        """How the other replicas of the service do, as far as anybody told."""
        self._intake = Intake(interval, settings, longest)
        self._own_notes: tuple[str, ...] = ()

    @property
    def memory(self) -> Memory:
        """What must survive a restart of the monitor."""
        return self._intake.memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        self._intake.memory = memory

    @property
    def alerted(self) -> bool:
        """Whether an alert about the target is open, as far as anybody told."""
        return self._intake.alerted

    @alerted.setter
    def alerted(self, alerted: bool) -> None:
        self._intake.alerted = alerted

    @property
    def identity(self) -> Identity:
        """What the last page told about the server."""
        return self._intake.identity

    @property
    def _sample(self) -> Sample | None:
        return self._intake.sample

    @property
    def _settings(self) -> JudgeSettings:
        return self._intake.settings

    # -- taking in ---------------------------------------------------------------------

    def use_baseline(self, baseline: Baseline | None, why_not: str | None = None) -> None:
        """Compares with this curve from now on; ``why_not`` is a note on why there is none."""
        self._own_notes = () if why_not is None else (why_not,)
        self._intake.use_baseline(baseline)

    def observe(self, sample: Sample) -> tuple[Increment, ...]:
        """Takes in one page; the increments are what the store keeps of it."""
        return self._intake.observe(sample)

    def retrace(self, sample: Sample, increments: tuple[Increment, ...], *, learn: bool) -> None:
        """Takes in one stored interval, for looking back: see ``Intake.retrace``."""
        self._intake.retrace(sample, increments, learn=learn)
        # Changes are sought at times of their own, which belong to what was known.
        self._look_back(sample, sample.at)

    def restore(self, memory: Memory, identity: Identity, history: Iterable[Increment]) -> None:
        """Goes on from what an earlier process remembered and stored (ascending in time)."""
        self._intake.restore(memory, identity, history)

    def misses_pages(self, now: float) -> bool:
        """Whether the last usable page is too old for its verdict to be repeated."""
        return self._intake.misses_pages(now)

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
        intake = self._intake
        past = self._look_back(sample, now)
        tried = []
        for seconds in intake.settings.judged:
            facts = self._facts(self._since_start(seconds, sample), sample, past)
            finding = decide(facts)
            tried.append(Trial(finding, facts, seconds))
            if not inconclusive(finding, facts):
                break
        chosen = max(tried, key=_weight)
        facts = chosen.facts
        intake.memory.watch.clear(now, facts.accepted.rate, past.normal, facts.speedup)
        answer = self._with_silence(self._answer(*chosen, now), now)
        return Deliberation(answer, tuple(tried), chosen)

    def _with_silence(self, answer: Assessment, now: float) -> Assessment:
        """Says that a verdict rests on traffic that has ended, where it does."""
        active = self.memory.active_at
        silent = now - active if active is not None else 0.0
        if silent <= self._settings.judged[0] or answer.verdict not in _RESTS_ON_TRAFFIC:
            return answer
        return answer._replace(sentence=f"{answer.sentence}; no traffic for {duration(silent)}")

    def _since_start(self, seconds: float, sample: Sample) -> float:
        """A window no longer than the present process runs: the one before may have had
        another drafter, and its figures say nothing about this one."""
        start = self.memory.running_since
        return seconds if start is None else min(seconds, max(sample.at - start, 1.0))

    def _look_back(self, sample: Sample, now: float) -> Past:
        """What is known of the time before; changes in it are only sought now and then."""
        memory, watch = self.memory, self.memory.watch
        sick = bool(watch.alarms) or (memory.verdict is not None and memory.verdict[0] in _SICK)
        patience = _SEEK_SICK if sick else _SEEK_WELL
        if memory.sought_at is None or now - memory.sought_at >= patience:
            memory.sought_at, memory.changes = now, self._seek_changes(sick=sick)
        reference = watch.reference(sample.identity)
        return Past(
            changes=memory.changes,
            normal=reference.normal(now),
            normal_rates=reference.rates,
            restarted_at=memory.restarted_at,
            version_changed=differ(memory.version, sample.identity.engine_version),
            drop_alarm=watch.drop.alarm_at,
            drop_since=watch.drop.changed_at,
            rise_alarm=watch.rise.alarm_at,
            slow_alarm=watch.pace.fall.alarm_at,
            slow_since=watch.pace.fall.changed_at,
            normal_speedup=watch.pace.expected_speedup,
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
        return look_back(
            [Part(*part) for part in self._intake.windows.target.parts(seconds, _PARTS)]
        )

    def assess_window(self, seconds: float, now: float) -> Assessment:
        """The assessment of the last ``seconds`` alone."""
        sample = self._sample
        early = self._without_figures(now)
        if early is not None or sample is None:
            return early or self.down("no page yet", now)
        facts = self._facts(seconds, sample)
        return self._answer(decide(facts), facts, seconds, now)

    def figures(self, seconds: float) -> Figures:
        """The figures of ``assess_window`` alone, for a fraction of its work."""
        sample = self._sample
        if sample is None or self._without_figures(sample.at) is not None:
            return Figures()
        facts = self._facts(seconds, sample)
        found = unseen(facts)
        if found is not None:
            engines = judge_engines(self._intake.windows, sample.readings, self._settings, seconds)
            if with_engines(found, engines).verdict in WITHOUT_ACCEPTANCE:
                return Figures()
        return Figures(facts.accepted.rate, facts.accepted.length, facts.speedup)

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
            warming_up=self._intake.is_warming_up(sample),
        )
        facts = gather(
            window,
            [],
            _speculation(sample.readings),
            self._settings,
            baseline_matches=False,
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
        elif self._intake.windows.empty:
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
        intake = self._intake
        # The interval of the speedup needs the spread between parts of the window.
        matches = intake.baseline_matches
        needs_blocks = intake.settings.baseline is not None and matches and seconds <= _HOUR
        return gather(
            self._window(seconds, sample),
            intake.windows.target.compared_blocks(seconds, BLOCKS) if needs_blocks else [],
            _speculation(sample.readings),
            intake.settings,
            baseline_matches=matches,
            previous=intake.memory.verdict if past is not None else None,
            learnt_effect=intake.memory.watch.reference(sample.identity).design_effect,
            past=past,
        )

    def _window(self, seconds: float, sample: Sample) -> Window:
        windows, memory = self._intake.windows, self._intake.memory
        running = _running(sample.readings)
        since = sample.at - max(seconds, _TURNS_SECONDS)
        alternating = sum(at > since for at in memory.alternations) >= LEAST_ALTERNATIONS
        warm = windows.warmup
        if warm is not None:
            # What the server did before it started anew says nothing about what runs now.
            return Window(
                warm.start,
                warm.end,
                warm.counts,
                running_now=running,
                warming_up=True,
                alternating=alternating,
            )
        span = windows.target.window(seconds)
        start, end, counts = span or (sample.at, sample.at, Counts())
        shown = [track for track in memory.tracks.values() if not track.vanished]
        return Window(
            start,
            end,
            counts,
            running_now=running,
            stalled_seconds=memory.stalled_seconds,
            drafts_pending=any(track.drafts_pending for track in shown),
            alternating=alternating,
        )

    def _answer(
        self, finding: Finding, facts: Facts, seconds: float | None, now: float
    ) -> Assessment:
        sample = self._sample or Sample(now, Identity(), [])
        engines: tuple[EngineVerdict, ...] = ()
        if seconds is not None:
            engines = judge_engines(self._intake.windows, sample.readings, self._settings, seconds)
        finding = with_engines(finding, engines)
        silent = finding.verdict in WITHOUT_ACCEPTANCE
        table = () if silent else facts.table
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
            positions=table,
            speedup=None if silent else facts.speedup,
            break_even=None if silent else facts.break_even,
            what_if=None if silent else best_size(facts, table, self.memory.step_costs),
            load=facts.load,
            evidence=facts.accepted.evidence,
            baseline=(
                BaselineMatch(
                    baseline.name,
                    facts.baseline_matches,
                    baseline.running_range,
                    baseline.measured_at,
                )
                if baseline is not None
                else None
            ),
            engines=engines,
            notes=(*sample.notes, *_notes(facts), *self._own_notes),
        )


_RESTS_ON_TRAFFIC = frozenset(
    {
        Verdict.HEALTHY,
        Verdict.NEUTRAL,
        Verdict.DEGRADED,
        Verdict.HARMFUL,
        Verdict.UNPROVEN,
    }
)
_SICK = frozenset({Verdict.DEGRADED, Verdict.HARMFUL})

_RANK = {Verdict.IDLE: 0, Verdict.INSUFFICIENT: 1, Verdict.UNPROVEN: 2}


def _weight(tried: Trial) -> tuple[int, float]:
    """What was found out with certainty wins; among the rest the one with most evidence."""
    return _RANK.get(tried.finding.verdict, 3), tried.seconds


def _running(readings: list[Reading]) -> float:
    return sum(reading.running or 0.0 for reading in readings)


def _speculation(readings: list[Reading]) -> Speculation:
    """What is configured if any engine says so; else what the first one says."""
    said = [reading.speculation for reading in readings]
    if Speculation.CONFIGURED in said:
        return Speculation.CONFIGURED
    known = [s for s in said if s is not Speculation.ABSENT]
    return known[0] if known else Speculation.ABSENT


def _notes(facts: Facts) -> list[str]:
    """What is worth knowing beside the verdict."""
    baseline = facts.settings.baseline
    if baseline is not None and not facts.baseline_matches and not facts.window.lifetime:
        return [f"baseline mismatch: {baseline.name} was not compared"]
    return []
