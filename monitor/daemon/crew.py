"""The workers of all targets: built, restored from the store, exchanged on reload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import structlog

from monitor.clock import Clock
from monitor.daemon.rollbacks import Rollbacks
from monitor.daemon.timeline import FARTHEST, Timeline
from monitor.daemon.worker import Worker
from monitor.model import Increment, StoreError
from monitor.rollback.ports import Lease
from monitor.settings import DaemonSettings, TargetSettings
from monitor.store.repository import Repository
from monitor.store.rows import RoundRow, StoredState, TargetStatus
from monitor.store.standing import AlertNews
from monitor.store.upkeep import Upkeep
from monitor.turn.alerts import closing
from monitor.turn.curves import Curves
from monitor.turn.neighbours import Neighbours

FINE_SECONDS = 3600.0
"""How much of the past is restored interval by interval; what is older comes in sums."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Crew:
    """All workers, and what they share."""

    settings: DaemonSettings
    workers: Mapping[str, Worker]
    timeline: Timeline
    curves: Curves
    neighbours: Neighbours
    clock: Clock
    repository: Repository
    sink: Callable[[RoundRow], None]
    """Takes the rows that the workers make."""
    upkeep: Upkeep
    rollbacks: Rollbacks

    def build(self, targets: Iterable[TargetSettings]) -> dict[str, Worker]:
        """The workers for ``targets``; those whose settings did not change are kept."""
        workers = {}
        for target in targets:
            before = self.workers.get(target.name)
            same = before is not None and before.settings == target
            workers[target.name] = before if before and same else self._new(target, before)
        return workers

    def ends_of(self, names: Iterable[str]) -> list[AlertNews]:
        """Says of targets that are no longer watched that nobody will tell more about them."""
        alerts, gone = self.repository.alerts, [*names]
        if not gone:
            return []
        now, stored, services = self.timeline.now(), alerts.by_target(), alerts.services()
        return [closing(name, services.get(name, ""), stored.get(name, {}), now) for name in gone]

    def exchange(self, settings: DaemonSettings, workers: Mapping[str, Worker]) -> int:
        """Goes on with other settings and the workers built for them; how many were kept."""
        self.curves.configure(settings.targets, self.timeline.now())
        self.upkeep.retention = settings.retention
        self.rollbacks.configure(settings)
        for name, worker in self.workers.items():
            if name not in workers:
                self.rollbacks.forget(worker.settings)
        before, self.settings, self.workers = self.workers, settings, workers
        return sum(before.get(name) is worker for name, worker in workers.items())

    def run_errands(self) -> bool:
        """What is done in the database each minute; True when there is more to do now."""
        self.curves.refresh()
        self._deliver_orders()
        return self.upkeep.work(self.timeline.now())

    def _deliver_orders(self) -> None:
        """Hands each worker what was ordered about its reference by another process."""
        for given in self.repository.pending_orders():
            worker = self.workers.get(given.target)
            if worker is not None:
                worker.order(given.id, given.order)

    def _new(self, target: TargetSettings, predecessor: Worker | None) -> Worker:
        return Worker(
            target,
            clock=self.clock,
            timeline=self.timeline,
            sink=self.sink,
            predecessor=predecessor,
            recall=self._recall,
            curves=self.curves,
            neighbours=self.neighbours,
            rules=lambda: self.settings.rules,
            moving=lambda: self.rollbacks.is_moving(target.service),
            witness=self.rollbacks.take,
        )

    def restore_worker(self, stored: StoredState, known: TargetStatus) -> None:
        """Lets a worker go on where the last process stopped."""
        worker = self.workers[known.target]
        try:
            history = self._recall(worker.name)
            worker.restore(stored.state, history, known.verdict, known.since)
        except StoreError as error:
            _log.error("a target starts without its past", target=worker.name, error=str(error))

    def restore_alerts(self) -> None:
        """Goes on with the alerts that are stored, and ends those of targets that are gone."""
        stored = self.repository.alerts.by_target()
        for name, texts in stored.items():
            if name in self.workers:
                self.workers[name].restore_alerts(texts)
        for news in self.ends_of(stored.keys() - self.workers.keys()):
            self.repository.alerts.record(news, self.settings.routing, self.timeline.now())

    def _recall(self, name: str) -> Iterable[Increment]:
        now = self.timeline.now()
        return self.repository.load_history(name, now - FINE_SECONDS, now)


def muster(
    settings: DaemonSettings,
    repository: Repository,
    clock: Clock,
    sink: Callable[[RoundRow], None],
    lease: Lease,
) -> Crew:
    """The workers for ``settings``, where the last process left them, however it ended."""
    states = repository.load_states()
    known_until = max((state.at for state in states.values()), default=0.0)
    ahead = known_until - clock.utc()
    if ahead > FARTHEST:
        # Nothing can be appended to a past that lies days in the future.
        _log.error("what is stored lies in the future and is not used", by_seconds=ahead)
        states, known_until = {}, 0.0
    timeline = Timeline(clock, not_before=known_until)
    curves = Curves(repository)
    curves.refresh()
    curves.configure(settings.targets, timeline.now())
    upkeep = repository.upkeep(settings.retention)
    rollbacks = Rollbacks(
        repository,
        lease,
        clock=clock,
        now=timeline.now,
        baseline_of=lambda target: curves.choose(target).baseline,
    )
    rollbacks.configure(settings)
    crew = Crew(
        settings, {}, timeline, curves, Neighbours(), clock, repository, sink, upkeep, rollbacks
    )
    crew.workers = crew.build(settings.targets)
    statuses = repository.statuses()
    known = {target.target: target for service in statuses for target in service.targets}
    for name, state in states.items():
        crew.restore_worker(state, known[name])
    crew.restore_alerts()
    return crew
