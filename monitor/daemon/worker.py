"""One target in the daemon: fetch, judge, hand the row on. The border of a tick is here."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import structlog

from monitor.alerting.rules import Rule
from monitor.clock import Clock
from monitor.daemon.alerts import Alerts
from monitor.daemon.control import NOTHING
from monitor.daemon.curves import Curves
from monitor.daemon.neighbours import Neighbours
from monitor.daemon.timeline import Timeline
from monitor.health.combine import combine
from monitor.health.ledger import add
from monitor.health.orders import Order
from monitor.model import Alarm, Assessment, Counts, Increment, ScrapeError, StoreError, Verdict
from monitor.pipeline import Page, TargetPipeline, Tick
from monitor.report import to_document
from monitor.settings import TargetSettings
from monitor.sources.errors import FetchError
from monitor.sources.scrape import Scraper
from monitor.store.rows import Change, RoundRow
from monitor.web.view import TargetView

DOCUMENT_SECONDS = 60.0
"""How long a stored assessment may be behind while nothing changes."""

_log = structlog.get_logger(__name__)


class Fetcher(Protocol):
    """Where pages come from: a ``Scraper``."""

    def fetch(self) -> Page:
        """The pages, within the target's timeout; raises ``ScrapeError``."""
        ...

    def ask_again(self) -> None:
        """Asks the server about itself with the next fetch: it has started anew."""
        ...

    def abort(self) -> None:
        """Ends a fetch of another thread early."""
        ...

    def close(self) -> None:
        """Closes the connection."""
        ...


class Worker:
    """Scrapes one target. At most one thread is in ``run`` at a time, the one that has claimed.

    A worker whose settings changed is followed by an heir, which takes over what was
    remembered once the last scrape of its predecessor is over.
    """

    def __init__(
        self,
        settings: TargetSettings,
        *,
        clock: Clock,
        timeline: Timeline,
        sink: Callable[[RoundRow], None],
        fetcher: Fetcher | None = None,
        predecessor: Worker | None = None,
        recall: Callable[[str], Iterable[Increment]] = lambda _name: (),
        curves: Curves | None = None,
        neighbours: Neighbours | None = None,
        rules: Callable[[], Sequence[Rule]] = tuple,
    ) -> None:
        self.settings = settings
        self.latest: Assessment | None = predecessor.latest if predecessor else None
        self.verdict: Verdict | None = None
        self.since: float | None = None
        """Since when the verdict holds, whatever its cause and action were."""
        self.problem: str | None = None
        self.at: float | None = None
        self.rounds = 0
        self.late = 0
        self.tick_errors = 0
        self.errors: Counter[str] = Counter()
        self._clock = clock
        self._timeline = timeline
        self._sink = sink
        self._fetcher: Fetcher = fetcher or Scraper(settings)
        self._pipeline = TargetPipeline(settings)
        self._era = timeline.era
        self._predecessor = predecessor
        self._recall = recall
        self._curves = curves
        self._neighbours = neighbours or Neighbours()
        self._alerts = Alerts(settings, rules)
        self._alarms: tuple[Alarm, ...] = ()
        self._choice = NOTHING
        self._claim = threading.Lock()
        # The pipeline is used by the thread that scrapes and by those that show windows.
        self._guard = threading.Lock()
        self._orders: dict[int, Order] = {}
        self._retired = False
        self._crash: str | None = None
        self._page_at: float | None = None
        self._scrape_seconds: float | None = None
        self._document_at: float | None = None
        self._totals: Counts = predecessor._totals if predecessor else Counts()

    @property
    def name(self) -> str:
        """The name of the target."""
        return self.settings.name

    @property
    def interval(self) -> float:
        """Seconds between two rounds."""
        return self.settings.interval

    @property
    def busy(self) -> bool:
        """Whether a round is running."""
        return self._claim.locked()

    def claim(self) -> bool:
        """Begins a round; False, and counted, while the one before still runs."""
        if self._retired:
            return False
        waits = self._predecessor is not None and self._predecessor.busy
        if waits or not self._claim.acquire(blocking=False):
            self.late += 1
            return False
        return True

    def release(self) -> None:
        """Ends a round."""
        self._claim.release()
        if self._retired:
            self._neighbours.forget(self.name)
            self._fetcher.close()

    def run(self) -> None:
        """One round, claimed before. Never raises: one target must not hurt another."""
        if self._retired:
            self.release()
            return
        began = self._clock.monotonic()
        try:
            self._round()
            self._crash = None
        except Exception as error:
            # The other border of the daemon: a mistake of ours about one target's page must
            # not end the watch over all the others.
            self._crashed(error)
        finally:
            self._scrape_seconds = self._clock.monotonic() - began
            self.rounds += 1
            self.release()

    def restore(
        self,
        state: str,
        history: Iterable[Increment],
        verdict: Verdict | None,
        since: float | None,
    ) -> None:
        """Goes on where an earlier process or worker stopped; ``verdict`` held ``since``."""
        with self._guard:
            # First, so that the past is compared with the same curve as what comes.
            self._use_baseline()
            self._pipeline.restore(state, history)
        self.verdict, self.since = verdict, since

    def restore_alerts(self, texts: Mapping[str, str]) -> None:
        """Goes on with the alerts that are stored, by rule."""
        self._alerts.restore(texts)

    def order(self, key: int, order: Order) -> None:
        """Takes an order, which the next round carries out; given again, it counts once."""
        self._orders[key] = order

    def retire(self) -> None:
        """Ends the work on this target; a scrape that is running ends early and unseen."""
        self._retired = True
        self._fetcher.abort()
        if self._claim.acquire(blocking=False):
            self.release()

    def view(self) -> TargetView:
        """What the web server shows."""
        seen = self._page_at
        return TargetView(
            service=self.settings.service,
            target=self.settings.name,
            role=self.settings.role,
            assessment=self.latest,
            windows=self._windows,
            page_age=None if seen is None else self._clock.monotonic() - seen,
            scrape_seconds=self._scrape_seconds,
            rounds=self.rounds,
            late=self.late,
            tick_errors=self.tick_errors,
            errors=self.errors.copy(),
            alarms=self._alarms,
            threshold=self.settings.judge.threshold,
            threshold_is_set=self.settings.threshold_is_set,
            since=self.since,
            totals=self._totals,
            alerts=self._alerts.firing(),
        )

    def _round(self) -> None:
        self._inherit()
        try:
            page = self._fetcher.fetch()
        except ScrapeError as error:
            if not self._retired:
                self._missed(error)
            return
        if self._retired:
            return  # The page came in the moment in which nobody wanted it any more.
        self._page_at = self._clock.monotonic()
        tick, now, state, obeyed = self._judge(lambda pipeline, now: pipeline.tick(page, now))
        self._publish(tick, now, state, obeyed)
        if tick.increments:
            counts = {increment.label: increment.counts for increment in tick.increments}
            self._totals = add(self._totals, combine(counts))
        if any(increment.counts.resets > 0.0 for increment in tick.increments):
            self._fetcher.ask_again()
        if self._curves is not None:
            self._curves.take(self.settings, tick)

    def _missed(self, error: ScrapeError) -> None:
        kind = error.kind.value if isinstance(error, FetchError) else "other"
        self.errors[kind] += 1
        text = str(error)
        self._publish(*self._judge(lambda pipeline, now: pipeline.tick_failed(text, now)))

    def _judge(
        self, tick: Callable[[TargetPipeline, float], Tick]
    ) -> tuple[Tick, float, str, Sequence[int]]:
        with self._guard:
            now = self._timeline.now()
            if self._era != self._timeline.era:
                # What is remembered belongs to a time that was given up for another one.
                self._pipeline, self._era = TargetPipeline(self.settings), self._timeline.era
                self._choice = NOTHING
                self._fetcher.ask_again()
            self._use_baseline()
            self._pipeline.use_peers(self._neighbours.around(self.settings, now))
            obeyed = self._obey()
            return tick(self._pipeline, now), now, self._pipeline.state(), obeyed

    def _use_baseline(self) -> None:
        """Compares with the curve of the moment, where the configuration names none."""
        if self._curves is None or self.settings.judge.baseline is not None:
            return
        choice = self._curves.choose(self.settings)
        if choice != self._choice:
            self._choice = choice
            self._pipeline.use_baseline(*choice)

    def _obey(self) -> Sequence[int]:
        """Carries out what was ordered; what cannot be done yet waits for another round."""
        obeyed = [key for key, order in [*self._orders.items()] if self._pipeline.obey(order)]
        for key in obeyed:
            del self._orders[key]
        return obeyed

    def _publish(self, tick: Tick, now: float, state: str, obeyed: Sequence[int]) -> None:
        assessment = tick.assessment
        if self.verdict != assessment.verdict:
            self.verdict, self.since = assessment.verdict, now
        self.latest = assessment
        self._neighbours.tell(self.settings, assessment, now)
        self.problem = tick.problem
        self.at = now
        self._alarms = self._pipeline.alarms()
        document = self._due_document(assessment, changed=tick.changed)
        change = _change(assessment, document) if tick.changed and document else None
        identity = assessment.identity
        row = RoundRow(
            self.name,
            now,
            tick.increments,
            state,
            document,
            change,
            identity,
            tick.problem,
            obeyed,
            self._alerts.take(tick, self._alarms, now),
        )
        self._sink(row)
        self._log_decision(tick)

    def _due_document(self, assessment: Assessment, *, changed: bool) -> str | None:
        now = self._clock.monotonic()
        written = self._document_at
        if written is None and assessment.window is None and not changed:
            # What an earlier process has stored tells more than a first look that failed.
            self._document_at = now
            return None
        if not changed and written is not None and now - written < DOCUMENT_SECONDS:
            return None
        self._document_at = now
        return json.dumps(to_document(assessment), ensure_ascii=False, allow_nan=False)

    def _log_decision(self, tick: Tick) -> None:
        assessment = tick.assessment
        log = _log.info if tick.changed else _log.debug
        log(
            assessment.sentence,
            target=self.name,
            service=self.settings.service,
            verdict=assessment.verdict.value,
            cause=assessment.cause and assessment.cause.value,
            action=assessment.action.value,
            problem=tick.problem,
        )

    def _inherit(self) -> None:
        """Takes over from the worker before, whose last scrape is over."""
        before, self._predecessor = self._predecessor, None
        if before is None:
            return
        with before._guard:
            state = before._pipeline.state()
        self._alerts.inherit(before._alerts)
        self._totals = before._totals
        try:
            self.restore(state, self._recall(self.name), before.verdict, before.since)
        except StoreError as error:
            _log.error("a target goes on without its past", target=self.name, error=str(error))

    def _windows(self) -> Mapping[float, Assessment]:
        if self.latest is None:
            return {}
        with self._guard:
            return self._pipeline.windows(self._timeline.now())

    def _crashed(self, error: Exception) -> None:
        self.tick_errors += 1
        text = f"{type(error).__name__}: {error}"
        if text != self._crash:
            _log.exception("a round failed on a mistake of the monitor", target=self.name)
        self._crash = text


def _change(assessment: Assessment, document: str) -> Change:
    return Change(
        verdict=assessment.verdict.value,
        cause=assessment.cause and assessment.cause.value,
        action=assessment.action.value,
        sentence=assessment.sentence,
        document=document,
    )
