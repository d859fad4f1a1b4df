"""One turn of one target: a look in, judged beside its neighbours, a row for the store out.

The daemon and backfill take the same turns. They differ in where looks come from, in the clock
that gives ``now``, and in whom the messages of the row are routed to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from monitor.alerting.rules import Rule
from monitor.health.orders import Order
from monitor.health.peers import Sign
from monitor.model import Assessment, Increment, StoreError, Verdict
from monitor.pipeline import Seen, TargetPipeline, Tick
from monitor.report import to_document
from monitor.settings import TargetSettings
from monitor.store.rows import Change, RoundRow
from monitor.turn.alerts import Alerts
from monitor.turn.control import NOTHING
from monitor.turn.curves import Curves
from monitor.turn.neighbours import Neighbours

DOCUMENT_SECONDS = 60.0
"""How long a stored assessment may be behind while nothing changes."""


class Outcome(NamedTuple):
    """What one look led to, and the row that keeps it."""

    tick: Tick
    row: RoundRow


class Turn:
    """Takes the looks at one target, in ascending time. Not safe from several threads.

    Args:
        settings: of the target.
        rules: gives all alert rules in force.
        curves: what targets are compared with; None compares only with a configured curve.
        neighbours: what the replicas of each service say of themselves.
        moving: whether traffic of the service is being moved now.
    """

    def __init__(
        self,
        settings: TargetSettings,
        *,
        rules: Callable[[], Sequence[Rule]] = tuple,
        curves: Curves | None = None,
        neighbours: Neighbours | None = None,
        moving: Callable[[], bool] = bool,
    ) -> None:
        self.settings = settings
        self.latest: Assessment | None = None
        self.verdict: Verdict | None = None
        self.since: float | None = None
        """Since when the verdict holds, whatever its cause and action were."""
        self.alerts = Alerts(settings, rules, moving)
        self._curves = curves
        self._neighbours = neighbours or Neighbours()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.pipeline = TargetPipeline(self.settings)
        self._choice = NOTHING
        self._document_at: float | None = None

    def forget(self) -> None:
        """Drops what was remembered of a time that was given up for another one."""
        self._begin_anew()

    def restore(
        self,
        state: str,
        history: Iterable[Increment],
        verdict: Verdict | None,
        since: float | None,
        waiting: dict[str, Any] | None = None,
    ) -> None:
        """Goes on where an earlier process stopped; ``verdict`` held ``since``.

        Raises ``StoreError`` when the state cannot be read.
        """
        # First, so that the past is compared with the same curve as what comes.
        self._use_baseline()
        self.pipeline.restore(state, history, waiting)
        self.verdict, self.since = verdict, since

    def take(
        self,
        seen: Seen,
        now: float,
        orders: Mapping[int, Order] | None = None,
        *,
        keep: bool = True,
    ) -> Outcome:
        """Takes in one look.

        Args:
            seen: the page, or why there is none.
            now: when it was taken.
            orders: those about the learnt normal; what the row names in ``obeyed`` is done.
            keep: whether the row carries what the next process needs to go on from it.
        """
        self._use_baseline()
        self.pipeline.use_peers(self._neighbours.around(self.settings, now))
        alerted = self.alerts.speak_against_learning
        self.pipeline.note_alert(open_=alerted)
        given = orders or {}
        obeyed = [key for key, order in given.items() if self.pipeline.obey(order)]
        tick = self.pipeline.tick(seen, now)
        row = self._row(tick, now, obeyed, keep=keep)
        if self._curves is not None:
            self._curves.take(self.settings, tick, alerted=alerted)
        return Outcome(tick, row)

    def state(self) -> str:
        """What the next process needs to go on from here."""
        return self.pipeline.state()

    def remember(self) -> dict[str, Any]:
        """All that ``resume`` needs to go on as if there had been no interruption, for JSON.

        The daemon needs less: after its own interruption the world has moved on.
        """
        return {
            "state": self.state(),
            "waiting": self.pipeline.waiting(),
            "alerts": self.alerts.texts(),
            "verdict": self.verdict,
            "since": self.since,
            "document_at": self._document_at,
            "sign": self._neighbours.sign(self.settings.name),
            "control": None if self._curves is None else self._curves.remember(self.settings),
        }

    def resume(self, memory: Mapping[str, Any], history: Iterable[Increment]) -> None:
        """Goes on from what ``remember`` gave; ``history`` is the day before, ascending.

        Raises ``StoreError`` when the memory cannot be read.
        """
        try:
            verdict = None if memory["verdict"] is None else Verdict(memory["verdict"])
            waiting = memory["waiting"]
            self.restore(memory["state"], history, verdict, memory["since"], waiting)
            self.alerts.restore(memory["alerts"])
            self._document_at = memory["document_at"]
            if memory["sign"] is not None:
                sign, since = memory["sign"]
                self._neighbours.restore(self.settings, Sign(sign), since)
        except (KeyError, TypeError, ValueError) as error:
            name = self.settings.name
            raise StoreError(f"{name}: what was remembered cannot be read: {error}") from error

    def _row(self, tick: Tick, now: float, obeyed: Sequence[int], *, keep: bool) -> RoundRow:
        assessment = tick.assessment
        if self.verdict != assessment.verdict:
            self.verdict, self.since = assessment.verdict, now
        self.latest = assessment
        self._neighbours.tell(self.settings, assessment, now)
        document = self._due_document(assessment, now, changed=tick.changed)
        return RoundRow(
            target=self.settings.name,
            now=now,
            increments=tick.increments,
            state=self.state() if keep else None,
            document=document,
            change=_change(assessment, document) if tick.changed and document else None,
            identity=assessment.identity,
            problem=tick.problem,
            obeyed=obeyed,
            alerts=self.alerts.take(tick, self.pipeline.alarms(), now, keep=keep),
        )

    def _use_baseline(self) -> None:
        """Compares with the curve of the moment, where the configuration names none."""
        if self._curves is None or self.settings.judge.baseline is not None:
            return
        choice = self._curves.choose(self.settings)
        if choice != self._choice:
            self._choice = choice
            self.pipeline.use_baseline(*choice)

    def _due_document(self, assessment: Assessment, now: float, *, changed: bool) -> str | None:
        written = self._document_at
        if written is None and assessment.window is None and not changed:
            # What an earlier process has stored tells more than a first look that failed.
            self._document_at = now
            return None
        if not changed and written is not None and now - written < DOCUMENT_SECONDS:
            return None
        self._document_at = now
        return orjson.dumps(to_document(assessment)).decode()


def _change(assessment: Assessment, document: str) -> Change:
    return Change(
        verdict=assessment.verdict.value,
        cause=assessment.cause and assessment.cause.value,
        action=assessment.action.value,
        sentence=assessment.sentence,
        document=document,
    )
