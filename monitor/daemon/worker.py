"""One target in the daemon: fetch, judge, hand the row on. The border of a tick is here."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Protocol

import structlog

from monitor.alerting.rules import Rule
from monitor.clock import Clock
from monitor.daemon.timeline import Timeline
from monitor.health.combine import combine
from monitor.health.ledger import add
from monitor.health.orders import Order
from monitor.model import (
    Alarm,
    Assessment,
    Counts,
    Figures,
    Increment,
    ScrapeError,
    StoreError,
    Verdict,
)
from monitor.pipeline import NoPage, Page, Tick
from monitor.rollback.evidence import Look
from monitor.settings import TargetSettings
from monitor.sources.errors import FetchError
from monitor.sources.scrape import Scraper
from monitor.store.rows import RoundRow
from monitor.turn.curves import Curves
from monitor.turn.neighbours import Neighbours
from monitor.turn.turn import Turn
from monitor.web.view import TargetView

BIG_PAGE = 1024 * 1024
"""Bytes from which a page is judged before the next is fetched: it is not kept beside others."""

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
    """Scrapes one target. At most one round runs at a time, the one that has claimed.

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
        moving: Callable[[], bool] = bool,
        witness: Callable[[TargetSettings, Look, bytes | None], None] = lambda *_: None,
    ) -> None:
        self.settings = settings
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
        self._era = timeline.era
        self._predecessor = predecessor
        self._recall = recall
        self._neighbours = neighbours or Neighbours()
        self._turn = Turn(
            settings, rules=rules, curves=curves, neighbours=self._neighbours, moving=moving
        )
        self._witness = witness
        self._turn.latest = predecessor.latest if predecessor else None
        self._alarms: tuple[Alarm, ...] = ()
        # Bound once: a logger made for each decision costs more than what it does not write.
        self._log = _log.bind(target=settings.name, service=settings.service)
        self._claim = threading.Lock()
        # The turn is used by the thread that scrapes and by those that show windows.
        self._guard = threading.Lock()
        self._orders: dict[int, Order] = {}
        self._retired = False
        self._crash: str | None = None
        self._page_at: float | None = None
        self._scrape_seconds: float | None = None
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
    def latest(self) -> Assessment | None:
        """The answer of the last round."""
        return self._turn.latest

    @property
    def since(self) -> float | None:
        """Since when its verdict holds, whatever its cause and action were."""
        return self._turn.since

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

    def fetch(self) -> Callable[[], None]:
        """The first half of a round, claimed before; gives the second half, which ends it.

        Neither half ever raises: one target must not hurt another.
        """
        if self._retired:
            return self.release
        began = self._clock.monotonic()
        try:
            seen = self._fetch()
        except Exception as error:
            # The other border of the daemon: a mistake of ours about one target's page must
            # not end the watch over all the others.
            return partial(self._fail, error)
        finally:
            self._scrape_seconds = self._clock.monotonic() - began
        judge = partial(self._judge, seen, self._timeline.now(), self._timeline.era)
        if isinstance(seen, Page) and len(seen.metrics) > BIG_PAGE:
            judge()
            return _nothing
        return judge

    def restore(
        self,
        state: str,
        history: Iterable[Increment],
        verdict: Verdict | None,
        since: float | None,
    ) -> None:
        """Goes on where an earlier process or worker stopped; ``verdict`` held ``since``."""
        with self._guard:
            self._turn.restore(state, history, verdict, since)

    def restore_alerts(self, texts: Mapping[str, str]) -> None:
        """Goes on with the alerts that are stored, by rule."""
        self._turn.alerts.restore(texts)

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
            windows=cache(self._windows),
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
            alerts=self._turn.alerts.firing(),
        )

    def _fetch(self) -> Page | NoPage:
        self._inherit()
        try:
            page = self._fetcher.fetch()
        except ScrapeError as error:
            if not self._retired:
                kind = error.kind.value if isinstance(error, FetchError) else "other"
                self.errors[kind] += 1
            return NoPage(str(error))
        self._page_at = self._clock.monotonic()
        return page

    def _judge(self, seen: Page | NoPage, now: float, era: int) -> None:
        """The second half of a round; ``now``, of this ``era``, is when the page came."""
        try:
            # What came in the moment in which nobody wanted it any more is not seen.
            if not self._retired:
                self._note(self._take(seen, now, era))
            self._crash = None
        except Exception as error:
            self._fail(error)
        else:
            self._end()

    def _fail(self, error: Exception) -> None:
        try:
            self._crashed(error)
        finally:
            self._end()

    def _end(self) -> None:
        self.rounds += 1
        self.release()

    def _note(self, tick: Tick) -> None:
        if tick.increments:
            counts = {increment.label: increment.counts for increment in tick.increments}
            self._totals = add(self._totals, combine(counts))
        if any(increment.counts.resets > 0.0 for increment in tick.increments):
            self._fetcher.ask_again()

    def _take(self, seen: Page | NoPage, now: float, era: int) -> Tick:
        with self._guard:
            if self._era != era:
                self._turn.forget()
                self._era = era
                self._fetcher.ask_again()
            tick, row = self._turn.take(seen, now, self._orders.copy())
        for key in row.obeyed:
            del self._orders[key]
        self.problem, self.at = tick.problem, now
        self._alarms = self._turn.pipeline.alarms()
        alerts = self._turn.alerts
        look = Look(tick.assessment, tick.fresh, alerts.votes, alerts.is_flapping())
        self._witness(self.settings, look, seen.metrics if isinstance(seen, Page) else None)
        self._sink(row)
        self._log_decision(tick)
        return tick

    def _log_decision(self, tick: Tick) -> None:
        assessment = tick.assessment
        log = self._log.info if tick.changed else self._log.debug
        log(
            assessment.sentence,
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
        earlier = before._turn
        with before._guard:
            state = earlier.state()
        self._turn.alerts.inherit(earlier.alerts)
        self._totals = before._totals
        try:
            self.restore(state, self._recall(self.name), earlier.verdict, earlier.since)
        except StoreError as error:
            _log.error("a target goes on without its past", target=self.name, error=str(error))

    def _windows(self) -> Mapping[float, Figures]:
        if self.latest is None:
            return {}
        with self._guard:
            return self._turn.pipeline.windows()

    def _crashed(self, error: Exception) -> None:
        self.tick_errors += 1
        text = f"{type(error).__name__}: {error}"
        if text != self._crash:
            _log.exception("a round failed on a mistake of the monitor", target=self.name)
        self._crash = text


def _nothing() -> None:
    """What is left to do when all is done."""
