"""Everything that runs while the daemon leads: it scrapes, judges, stores and tells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog
from sqlalchemy import Engine

from monitor.alerting.delivery import Delivery
from monitor.clock import Clock, SystemClock
from monitor.daemon.crew import Crew, muster
from monitor.daemon.marker import Marker
from monitor.daemon.pool import Pool
from monitor.daemon.rounds import Rounds
from monitor.daemon.worker import Worker
from monitor.daemon.writer import Writer
from monitor.report import to_document
from monitor.rollback.ports import Lease
from monitor.settings import DaemonSettings, RollbackSettings
from monitor.store.lease import Guard
from monitor.store.repository import Adoption, Repository
from monitor.web.status import alert_document, status_document, target_document
from monitor.web.view import Health, ReceiverView, TargetView

_STORE_SECONDS = 15.0

_log = structlog.get_logger(__name__)


class Watch:
    """What one holder of the lease does, from the moment it has it until it stops.

    Raises ``StoreError`` where the past cannot be read; nothing runs then.

    Args:
        settings: what to begin with.
        engine: the open database.
        guard: refuses what is written once another process has the lease.
        lease: the lease itself, without which no traffic is moved.
        clock: where time comes from.
        rate: how many of its seconds pass in one of the machine's.
    """

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        *,
        guard: Guard,
        lease: Lease,
        clock: Clock,
        rate: float,
    ) -> None:
        self._clock = clock
        self._machine = clock if rate == 1.0 else SystemClock()
        self._repository = Repository(engine, guard)
        self._writer = Writer(self._repository, clock, errand=self._run_errands)
        self._adopt(adoption(settings))
        self._crew: Crew = muster(settings, self._repository, clock, self._writer.put, lease)
        self._delivery = Delivery(self._repository.alerts.outbox, clock)
        self._rounds: Rounds[Worker] = Rounds(self._machine, self._submit, rate)
        self._rounds.plan(self._crew.workers.values())
        self._marker = Marker(self._repository.marks, lambda: self._crew.settings.grafana)
        self._first_round_done = False
        self.is_acting = False
        self._waiting: Mapping[str, tuple[int, float]] = {}

    def start(self) -> None:
        """Begins."""
        self._delivery.exchange(self._delivery.prepare(self._crew.settings.receivers))
        self._pool = Pool()
        self._writer.start()
        self._rounds.start()
        self._crew.rollbacks.start()
        self._marker.start()

    def look_after(self) -> None:
        """To be called about once a second: notices when rounds have stopped."""
        self._rounds.watch()

    def reload(self, settings: DaemonSettings) -> None:
        """Swaps to other settings; on failure everything stays as it was."""
        before = self._crew.workers
        workers = self._crew.build(settings.targets)
        lineup = self._delivery.prepare(settings.receivers)

        def adopt() -> None:
            self._crew.curves.refresh()
            ended = self._crew.ends_of(before.keys() - workers.keys())
            text = f"configuration {settings.config_hash or 'without a hash'} loaded"
            self._adopt(replace(adoption(settings), ended=ended, text=text))

        # The database is the last that can say no; all that follows cannot fail.
        try:
            self._writer.call(adopt, timeout=_STORE_SECONDS)
        except BaseException:
            lineup.drop()
            raise
        self._delivery.exchange(lineup)
        kept = self._crew.exchange(settings, workers)
        self._rounds.plan(workers.values())
        for name, worker in before.items():
            if workers.get(name) is not worker:
                worker.retire()
        _log.info("reloaded", targets=len(workers), kept=kept)

    def stop(self, left: Callable[[float], float]) -> bool:
        """Ends everything in order; False when rows were left behind.

        Afterwards ``is_acting`` tells whether an act of a rollback did not end in time.

        Args:
            left: the seconds that a share of the time still allowed comes to.
        """
        self.is_acting = not self._crew.rollbacks.stop(left(0.4))
        if self.is_acting:
            _log.warning("an act of a rollback did not end in time; it is observed later")
        self._marker.stop(left(0.1))
        self._rounds.stop()
        self._end_scrapes(left(0.5))
        flushed = self._writer.stop(left(0.75))
        if not flushed:
            _log.error("rows were left behind", rows=self._writer.queued)
        if not self._delivery.stop(left(0.5)):
            _log.warning("a receiver did not answer in time; its message is sent again later")
        return flushed

    # -- what is shown ---------------------------------------------------------------------

    def targets(self) -> Sequence[TargetView]:
        """All targets as of now."""
        return [worker.view() for worker in self._crew.workers.values()]

    def health(self) -> Health:
        """The state of all this as of now."""
        rounds, writer = self._rounds, self._writer
        return Health(
            loop_age=rounds.age(),
            loop_limit=rounds.limit,
            waiting_for=self._waiting_for(),
            rounds_missed=rounds.counts.missed,
            rounds_skipped=rounds.counts.skipped,
            rounds_failed=rounds.counts.failed,
            scheduler_rebuilds=rounds.counts.rebuilds,
            clock_lead=self._crew.timeline.lead(),
            rows_queued=writer.queued,
            rows_written=writer.written,
            rows_dropped=writer.dropped,
            write_errors=writer.errors,
            write_age=writer.age(),
            space=self._crew.upkeep.space,
            receivers=self._receivers(),
            rollbacks=self._crew.rollbacks.views(),
            frozen=self._crew.rollbacks.frozen,
        )

    def status(self) -> dict[str, Any]:
        """The document of ``monitor status --json``, from memory."""
        services: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        alerts: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        now = self._crew.timeline.now()
        for worker in sorted(self._crew.workers.values(), key=lambda worker: worker.name):
            latest = worker.latest
            services[worker.settings.service].append(
                target_document(
                    worker.name,
                    worker.settings.role,
                    None if latest is None else to_document(latest),
                    since=worker.since,
                    at=worker.at,
                    problem=worker.problem,
                    now=now,
                )
            )
            alerts[worker.settings.service] += [
                alert_document(worker.name, alert) for alert in worker.view().alerts
            ]
        rollbacks = {view.service: view for view in self._crew.rollbacks.views()}
        return status_document(services, alerts, rollbacks)

    # -- inside ----------------------------------------------------------------------------

    def _adopt(self, adoption: Adoption) -> None:
        ids = self._repository.adopt(adoption, self._clock.utc())
        self._writer.accept(frozenset(ids))

    def _run_errands(self) -> bool:
        self._waiting = self._repository.alerts.outbox.waiting()
        return self._crew.run_errands()

    def _receivers(self) -> list[ReceiverView]:
        waiting, now = self._waiting, self._clock.utc()
        return [
            ReceiverView(
                receiver=name,
                sent=counts.sent,
                retried=counts.failed,
                dead=counts.dead,
                waiting=waiting[name][0] if name in waiting else 0,
                oldest=max(0.0, now - waiting[name][1]) if name in waiting else None,
            )
            for name, counts in self._delivery.counts().items()
        ]

    def _submit(self, worker: Worker) -> None:
        self._pool.submit(worker.fetch)

    def _waiting_for(self) -> str | None:
        if not self._first_round_done:
            workers = self._crew.workers
            waiting = sum(worker.rounds == 0 for worker in workers.values())
            if waiting:
                return f"the first look at {waiting} of {len(workers)} targets"
            self._first_round_done = True
        return None

    def _end_scrapes(self, patience: float) -> None:
        """Waits for the scrapes under way; those that take too long are cut off, unseen."""
        ended = self._pool.close(patience)
        for worker in self._crew.workers.values():
            worker.retire()
        if not ended and not self._pool.close(patience / 2):
            _log.warning("some scrapes did not end in time")


def adoption(settings: DaemonSettings) -> Adoption:
    """What ``settings`` mean to the database."""
    rollbacks = settings.rollbacks
    services = dict.fromkeys(target.service for target in settings.targets)
    return Adoption(
        targets=settings.targets,
        modes={name: rollbacks.get(name, RollbackSettings()).policy.mode for name in services},
        routing=settings.routing,
        receivers=[receiver.name for receiver in settings.receivers],
    )
