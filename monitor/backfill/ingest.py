"""Puts the looks of a source through the turns that the daemon takes, and stores what comes out.

What is stored with each batch includes how far it came and what was remembered there. So a
run that was killed, or whose disk was full, goes on from its last batch when it is repeated,
and a run that is repeated after its end changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from monitor.alerting.model import State
from monitor.alerting.rules import Rule
from monitor.backfill.lane import PRIMERS, Lane
from monitor.backfill.looks import Look, Source
from monitor.health.window import GAP_INTERVALS
from monitor.model import MonitorError, Verdict
from monitor.report import iso
from monitor.settings import TargetSettings
from monitor.store.backfill import PastStore
from monitor.store.cover import Cover
from monitor.store.rows import RoundRow
from monitor.turn.curves import Curves
from monitor.turn.neighbours import Neighbours
from monitor.turn.turn import Outcome, Turn

BATCH = 2_000
"""Looks in one transaction: about a second of work, and as much to repeat after a crash."""
TOLD = 250
"""Looks between two words about the progress."""
ALIKE = 0.1
"""Intervals that differ by no more than this share count as the same."""


@dataclass(frozen=True, slots=True)
class AlertChange:
    """An alert that would have been told at some time."""

    rule: str
    target: str
    state: State
    at: float


@dataclass(slots=True)
class Summary:
    """What a run found, and what it made of it."""

    samples: int = 0
    """Looks that were taken in."""
    windows: int = 0
    """Those of them that told what happened since the one before."""
    skipped: Counter[str] = field(default_factory=Counter)
    start: float | None = None
    end: float | None = None
    """Of what was taken in."""
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    """Looks by the verdict they led to."""
    changes: int = 0
    """Changes of verdict, cause or action."""
    alerts: list[AlertChange] = field(default_factory=list)
    targets: set[str] = field(default_factory=set)

    def take(self, outcome: Outcome) -> None:
        """Counts one look that was taken in."""
        tick, row = outcome
        self.samples += 1
        self.windows += bool(tick.increments)
        self.changes += tick.changed
        self.start = row.now if self.start is None else self.start
        self.end = row.now
        self.verdicts[tick.assessment.verdict] += 1
        self.targets.add(row.target)
        self.alerts += [
            AlertChange(one.rule, row.target, one.state, one.at) for one in row.alerts.told
        ]


class Ingest:
    """One run over one source.

    Args:
        store: of the targets that looks may be of.
        curves: what targets are compared with.
        rules: the alert rules in force.
        source: where looks come from, and a name for it.
        start: looks before this are not taken in.
        end: nor are those after this.
    """

    def __init__(
        self,
        store: PastStore,
        curves: Curves,
        rules: Sequence[Rule],
        source: Source,
        *,
        name: str,
        start: float = 0.0,
        end: float,
    ) -> None:
        self.summary = Summary()
        self.stored = False
        """Whether anything was written yet."""
        self._store = store
        self._curves = curves
        self._rules = rules
        self._source = source
        self._end = end
        self._neighbours = Neighbours()
        self._begun = False
        self._rows: list[RoundRow] = []
        self._lanes = {
            target: self._lane(settings, name, start) for target, settings in store.targets.items()
        }

    def run(self, tell: Callable[[float], None] = lambda _at: None) -> Summary:
        """Takes in all there is; ``tell`` is told now and then how far the run has come.

        Raises:
            MonitorError: the source or the database failed; what came before is stored, and
                the same run again goes on from there.
        """
        for number, look in enumerate(self._looks(), start=1):
            if look.at > self._end:
                self._source.findings.note(f"what is later than {iso(self._end)} was left out")
                break
            self._take(look)
            if number % BATCH == 0:
                self._flush()
            if number % min(TOLD, BATCH) == 0:
                tell(look.at)
        self._flush()
        self.summary.skipped.update(self._source.findings.skipped)
        for target in self._lanes:
            self._store.hand_over(target)
        return self.summary

    def _looks(self) -> Iterator[Look]:
        """From a little before the first look that is to be taken in."""
        after = min(
            (lane.resumes_at - PRIMERS * lane.settings.interval for lane in self._lanes.values()),
            default=0.0,
        )
        try:
            yield from self._source.looks(after)
        except MonitorError:
            # What was judged is not lost because the source has failed.
            self._flush()
            raise

    def _take(self, look: Look) -> None:
        lane = self._lanes.get(look.target)
        if lane is None:
            self.summary.skipped["of a target that was not asked for"] += 1
            return
        outcome = lane.take(look)
        if isinstance(outcome, str):
            self.summary.skipped[outcome] += 1
            return
        self._rows.append(outcome.row)
        self.summary.take(outcome)

    def _flush(self) -> None:
        lanes = self._lanes.values()
        filled = [found for lane in lanes if (found := lane.filled()) is not None]
        if self._rows:
            refused = self._store.write(self._rows, filled)
            self.stored = not self._store.dry
            if refused:
                self.summary.skipped["a figure that is not finite"] += refused
        self._rows.clear()
        for lane in lanes:
            lane.saved()

    def _lane(self, settings: TargetSettings, name: str, start: float) -> Lane:
        settings = _at_the_pace_of(self._source, settings)
        gap = settings.gap or GAP_INTERVALS * settings.interval
        return Lane(
            settings=settings,
            cover=Cover(self._store.stretches(settings.name, gap)),
            past=self._store,
            make_turn=self._make_turn,
            flush=self._flush,
            source=name,
            start=start,
        )

    def _make_turn(self, settings: TargetSettings, at: float) -> Turn:
        if not self._begun:
            self._begun = True
            self._build_controls(at)
        return Turn(
            settings,
            rules=lambda: self._rules,
            curves=self._curves,
            neighbours=self._neighbours,
        )

    def _build_controls(self, at: float) -> None:
        """Before the first look, so that it is compared as if nothing had been interrupted."""
        lanes = self._lanes.values()
        self._curves.configure([lane.settings for lane in lanes], at)
        for lane in lanes:
            control = lane.control_at(at)
            if control is not None:
                self._curves.resume(lane.settings, control)


def _at_the_pace_of(source: Source, settings: TargetSettings) -> TargetSettings:
    """The settings with the interval that the source really has.

    The configured one says how often the daemon looks; what others saved was seen as often as
    they looked, and a gap is a gap in that.
    """
    interval = source.interval(settings.name)
    if interval is None or abs(interval - settings.interval) <= ALIKE * settings.interval:
        return settings
    return replace(settings, interval=interval)
