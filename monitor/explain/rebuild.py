"""Stands again where the daemon stood at some moment, by taking the stored samples in anew.

The samples go through the same code as pages did, one by one: windows, references, detectors
and the search for changes come out as they were. What was never stored is said in ``notes``.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from monitor.health import memory
from monitor.health.baseline import Baseline, BaselinePoint
from monitor.health.combine import combine
from monitor.health.judging import JudgeSettings
from monitor.health.orders import OrderKind
from monitor.health.reference import Reference
from monitor.health.stored import stored_sample
from monitor.health.target import Deliberation, TargetState
from monitor.health.watch import Watch, fingerprint
from monitor.health.window import GAP_INTERVALS
from monitor.model import (
    Action,
    Cause,
    Counts,
    Identity,
    StoreError,
    Verdict,
)
from monitor.settings import DEFAULT_INTERVAL
from monitor.store.rows import StoredMoment, StoredState, VerdictChange

_OTHER_KIND = "another kind of server"


@dataclass(frozen=True, slots=True)
class Point:
    """One stored interval, and the evidence of the detectors after it."""

    start: float
    end: float
    counts: Counts
    warmup: bool
    drop: float
    rise: float


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was found by judging again."""

    moment: StoredMoment
    at: float
    """The look that is explained: the last one that has a bearing on the verdict."""
    longest: float
    """Seconds between two looks that are no gap yet."""
    baseline: Baseline | None
    deliberation: Deliberation | None
    """None where the verdict was not come to from figures."""
    watch: Watch
    reference: Reference | None
    """Of the server at that time; None where its kind is not known."""
    points: tuple[Point, ...]
    notes: tuple[str, ...]

    @property
    def change(self) -> VerdictChange | None:
        """The stored change of the verdict in force."""
        return self.moment.verdicts[-1] if self.moment.verdicts else None


@dataclass(slots=True)
class _Verdicts:
    """The verdicts by time."""

    changes: Sequence[VerdictChange]
    _times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._times = [change.at for change in self.changes]

    def until(self, at: float) -> VerdictChange | None:
        """The one in force at a time."""
        index = bisect_right(self._times, at)
        return self.changes[index - 1] if index else None

    def before(self, at: float) -> tuple[Verdict, Cause | None, Action] | None:
        """The one in force just before a time, as the memory of a target keeps it."""
        index = bisect_left(self._times, at)
        if not index:
            return None
        change = self.changes[index - 1]
        return change.verdict, Cause(change.cause) if change.cause else None, Action(change.action)


def rebuild(moment: StoredMoment) -> Rebuilt:
    """Judges again what was judged at the moment."""
    notes: list[str] = []
    kept, parsed = _parse(moment, notes), _parse(moment, [])
    document = _assessment(moment)
    baseline = recorded_baseline((document or {}).get("baseline"))
    state = TargetState(
        moment.facts.target,
        moment.pace,
        replace(moment.judge, baseline=baseline),
        moment.longest,
    )
    young = _is_whole(moment)
    if not young and parsed is not None:
        state.memory.watch = _watch_of(parsed, moment)
    points = tuple(_retrace(state, moment, _identities(moment, kept), learn=young))
    latest = _is_latest(moment)
    if young and not latest and (pinned := _pinned_at(moment)) is not None:
        state.memory.watch.reference(state.identity).pin(pinned)
    if latest and kept is not None:
        state.memory = kept.memory
    at = _explained_at(moment, points)
    deliberation = state.deliberate(at) if at is not None else None
    if not latest:
        notes += _notes_on_the_past(young=young)
    if moment.kept:
        notes.append(
            f"of that time only sums of {moment.kept} s are kept: this is what they led to at the"
            " end of the one that holds the moment"
        )
    watch = state.memory.watch
    return Rebuilt(
        moment=moment,
        at=moment.at if at is None else at,
        longest=moment.longest or GAP_INTERVALS * moment.pace,
        baseline=baseline,
        deliberation=deliberation,
        watch=watch,
        reference=_reference(state, kept, young=young, latest=latest),
        points=points,
        notes=tuple(notes),
    )


def recorded_baseline(document: Mapping[str, Any] | None) -> Baseline | None:
    """The baseline of a stored assessment, as far as it can be known from it.

    Its curve is not among that, and is not needed: what it would have taken is stored with
    each sample.
    """
    if document is None:
        return None
    low, high = document["running_range"]
    points = tuple(BaselinePoint(load, 0.0) for load in (low, high))
    other = Identity(None, _OTHER_KIND, _OTHER_KIND, None, None, -1)
    return Baseline(document["name"], points, Identity() if document["matches"] else other)


def remembered(target: str, state: StoredState) -> TargetState:
    """The stored memory of a target, apart from its samples; raises ``StoreError``."""
    parsed = TargetState(target, DEFAULT_INTERVAL, JudgeSettings())
    memory.restore(parsed, state.state, ())
    return parsed


def _parse(moment: StoredMoment, notes: list[str]) -> TargetState | None:
    if moment.state is None:
        return None
    try:
        return remembered(moment.facts.target, moment.state)
    except StoreError as error:
        notes.append(f"what the daemon remembered cannot be read: {error}")
        return None


def _is_latest(moment: StoredMoment) -> bool:
    return moment.state is not None and moment.at >= moment.state.at


def _is_whole(moment: StoredMoment) -> bool:
    """Whether the samples of the moment are all that there were until then."""
    first = moment.first_sample
    return bool(moment.samples) and moment.samples[0].end == first


def _assessment(moment: StoredMoment) -> Mapping[str, Any] | None:
    """The stored assessment nearest to the moment, and not after it."""
    text = moment.verdicts[-1].document if moment.verdicts else None
    if _is_latest(moment) and moment.state is not None and moment.state.assessment is not None:
        text = moment.state.assessment
    found: Mapping[str, Any] | None = json.loads(text) if text else None
    return found


def _watch_of(parsed: TargetState, moment: StoredMoment) -> Watch:
    """The references of today, pinned as they were then, with detectors that begin at zero."""
    watch = parsed.memory.watch
    if not _is_latest(moment):
        for order in moment.orders:
            if order.applied_at is not None and order.applied_at > moment.at:
                watch.reference(parsed.identity).pin(_pinned_at(moment))
                break
    return Watch(references=watch.references, k=watch.k)


def _pinned_at(moment: StoredMoment) -> float | None:
    rate = None
    for given in moment.orders:
        if given.applied_at is not None and given.applied_at <= moment.at:
            rate = given.order.rate if given.order.kind is OrderKind.PIN else None
    return rate


def _identities(
    moment: StoredMoment, kept: TargetState | None
) -> Sequence[tuple[float, Identity]]:
    """What the server was, and since when; the latest as the daemon itself remembers it.

    The store fills in what one page leaves out, and a reference is bound to the page.
    """
    known = list(moment.identities)
    if kept is not None and kept.identity.engine is not None and known:
        since, latest = known[-1]
        if _is_latest(moment) or fingerprint(latest) == fingerprint(kept.identity):
            known[-1] = since, kept.identity
    return known


def _retrace(
    state: TargetState,
    moment: StoredMoment,
    identities: Sequence[tuple[float, Identity]],
    *,
    learn: bool,
) -> Iterator[Point]:
    verdicts = _Verdicts(moment.verdicts)
    since = [at for at, _ in identities]
    for end, group in groupby(moment.samples, key=lambda increment: increment.end):
        increments = tuple(group)
        index = bisect_right(since, end)
        identity = identities[max(index - 1, 0)][1] if identities else Identity()
        state.memory.verdict = verdicts.before(end)
        now = verdicts.until(end)
        sample = stored_sample(end, identity, increments, now.verdict if now is not None else None)
        state.retrace(sample, increments, learn=learn)
        if state.memory.watch.may_clear:
            state.deliberate(end)
        watch = state.memory.watch
        yield Point(
            increments[0].start,
            end,
            combine({i.label: i.counts for i in increments}),
            increments[0].warmup,
            watch.drop.evidence,
            watch.rise.evidence,
        )


def _explained_at(moment: StoredMoment, points: Sequence[Point]) -> float | None:
    """The last look with figures, if the verdict was come to from figures."""
    if not points:
        return None
    last = points[-1].end
    return last if not moment.verdicts or moment.verdicts[-1].at <= last else None


def _reference(
    state: TargetState, kept: TargetState | None, *, young: bool, latest: bool
) -> Reference | None:
    identity = state.identity
    if identity.engine is None:
        return None
    if kept is None or young or latest:
        return state.memory.watch.reference(identity)
    # What an older moment is judged by is the reference of today, which looking back at the
    # detectors has moved on by a little.
    return kept.memory.watch.reference(identity)


def _notes_on_the_past(*, young: bool) -> list[str]:
    notes = [
        "thresholds and windows are those of today; what was configured then is not stored",
        "what pages said besides their figures (speculation switched off, workers that take"
        " turns) is not stored",
    ]
    if not young:
        notes.append(
            "the learnt normal is that of today; how it stood then is not stored. Evidence is"
            " counted from zero a day before, and changes are looked for each ten minutes from"
            " there on"
        )
    return notes
