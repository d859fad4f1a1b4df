"""Plays simulated traffic to the real pipeline and notes what its detector says."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from benchmarks.detection.traffic import SCRAPE, SPEED, Traffic
from monitor.health.judging import JudgeSettings
from monitor.health.target import TargetState
from monitor.model import Engine, Identity, Reading, Sample, Speculation, Verdict

MIDNIGHT = 1_789_948_800.0
"""A midnight, UTC: hours of the simulation are hours of the day."""
ASSESS_EVERY = 4
"""Pages between two assessments. The daemon assesses each page; once a minute gives the same
decisions of the detector (``--check-assess``), because the verdict only opens and closes the
gate of learning and clears alarms."""
_NAMES = (
    "output_tokens",
    "requests",
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "decode_seconds",
    "decode_tokens",
    "decode_steps",
)
_SICK = (Verdict.DEGRADED, Verdict.HARMFUL)


@dataclass(slots=True)
class Pages:
    """Cumulative counters of a server, page by page."""

    k: int
    counters: list[float] = field(default_factory=lambda: [0.0] * len(_NAMES))
    positions: list[float] = field(init=False)
    identity: Identity = field(init=False)

    def __post_init__(self) -> None:
        self.positions = [0.0] * self.k
        self.identity = Identity(Engine.VLLM, "1", "model", "eagle", self.k)

    def show(self, traffic: Traffic) -> Iterator[Sample]:
        """The page at the end of each scrape interval."""
        drafts, total = traffic.drafts, traffic.total
        tokens = drafts + total
        steps = np.stack(
            [
                tokens + traffic.finished,
                traffic.finished,
                drafts,
                drafts * self.k,
                total,
                drafts / SPEED,
                tokens,
                drafts,
                *traffic.accepted,
            ]
        )
        steps[:, 0] += [*self.counters, *self.positions]
        cumulative = steps.cumsum(axis=1).T
        running = traffic.running.tolist()
        for index in range(len(drafts)):
            row = cumulative[index].tolist()
            self.counters, self.positions = row[: len(_NAMES)], row[len(_NAMES) :]
            at = MIDNIGHT + (traffic.first + index + 1) * SCRAPE
            yield Sample(at, self.identity, [self._reading(running[index])])

    def _reading(self, running: float) -> Reading:
        return Reading(
            label="0",
            counters=dict(zip(_NAMES, self.counters, strict=True)),
            positions=tuple(self.positions),
            birth=MIDNIGHT - 86_400.0,
            running=running,
            waiting=0.0,
            speculation=Speculation.CONFIGURED,
        )


@dataclass(slots=True)
class Noted:
    """What was said during a replay; times are numbers of scrapes since the first midnight."""

    drops: list[int] = field(default_factory=list)
    """When the detector found a fall."""
    cleared: list[int] = field(default_factory=list)
    """When such an alarm ended."""
    rises: list[int] = field(default_factory=list)
    sick: list[int] = field(default_factory=list)
    """When the verdict became degraded or harmful."""
    highest: float = 0.0
    """Most evidence of a fall."""


class Replay:
    """A target under simulated traffic; a copy of it can be taken at any time."""

    def __init__(self, k: int, assess_every: int = ASSESS_EVERY) -> None:
        self.state = TargetState("simulated", SCRAPE, JudgeSettings())
        self.pages = Pages(k)
        self.noted = Noted()
        self._every = assess_every
        self._was = (False, False, False)

    def play(self, traffic: Traffic, *, until_alarm: bool = False) -> int | None:
        """Plays traffic through; with ``until_alarm`` ends at the first alarm and gives when.

        The time is the number of intervals since the traffic began.
        """
        for index, sample in enumerate(self.pages.show(traffic)):
            self._look(sample, traffic.first + index + 1)
            if until_alarm and self.alarmed:
                return index + 1
        return None

    @property
    def alarmed(self) -> bool:
        """Whether the detector says that acceptance has fallen."""
        return self.state.memory.watch.drop.alarm_at is not None

    @property
    def knows_normal(self) -> bool:
        """Whether a reference has been learnt."""
        reference = self.state.memory.watch.reference(self.state.identity)
        return reference.normal(MIDNIGHT + 43_200.0) is not None

    def _look(self, sample: Sample, number: int) -> None:
        state = self.state
        state.observe(sample)
        if number % self._every == 0:
            answer = state.assess(sample.at)
            state.memory.verdict = (answer.verdict, answer.cause, answer.action)
        self._note(number)

    def _note(self, number: int) -> None:
        memory, noted = self.state.memory, self.noted
        watch = memory.watch
        sick = memory.verdict is not None and memory.verdict[0] in _SICK
        is_now = (watch.drop.alarm_at is not None, watch.rise.alarm_at is not None, sick)
        noted.highest = max(noted.highest, watch.drop.evidence)
        if is_now == self._was:
            return
        for before, now, times in zip(
            self._was, is_now, (noted.drops, noted.rises, noted.sick), strict=True
        ):
            if now and not before:
                times.append(number)
        if self._was[0] and not is_now[0]:
            noted.cleared.append(number)
        self._was = is_now

    def freeze(self) -> bytes:
        """All of it, to go on from here several times."""
        return pickle.dumps(self)

    @staticmethod
    def thaw(frozen: bytes) -> Replay:
        """A replay as it was when it was frozen, with nothing noted yet."""
        replay: Replay = pickle.loads(frozen)
        replay.noted = Noted()
        return replay
