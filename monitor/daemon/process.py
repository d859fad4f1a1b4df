"""The daemon itself: what starts in which order, what is exchanged on reload, what ends how."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import structlog
from sqlalchemy.engine import Engine, make_url

from monitor.alerting.delivery import Delivery
from monitor.alerting.receivers import secrets_of
from monitor.alerting.routes import Routing
from monitor.clock import Clock, SystemClock
from monitor.daemon.alerts import closing
from monitor.daemon.curves import Curves
from monitor.daemon.neighbours import Neighbours
from monitor.daemon.pool import Pool
from monitor.daemon.rounds import Rounds
from monitor.daemon.timeline import FARTHEST, Timeline
from monitor.daemon.worker import Worker
from monitor.daemon.writer import Writer
from monitor.logs import REDACTOR
from monitor.model import ConfigError, Increment, MonitorError, StoreError
from monitor.report import to_document
from monitor.settings import DaemonSettings, TargetSettings
from monitor.store.connect import open_store
from monitor.store.repository import Repository
from monitor.store.rows import StoredState, TargetStatus
from monitor.store.schema import ensure_ready
from monitor.web.app import create_app
from monitor.web.guard import check_exposure
from monitor.web.server import WebServer, listen
from monitor.web.status import status_document, target_document
from monitor.web.view import Health, TargetView

FINE_SECONDS = 3600.0
"""How much of the past is restored interval by interval; what is older comes in sums."""
WATCH_SECONDS = 1.0
_STORE_SECONDS = 15.0
_FORCED_EXIT = 1

_log = structlog.get_logger(__name__)


class Daemon:
    """Scrapes, judges, stores and shows, until it is told to stop.

    Args:
        settings: what to start with.
        load: reads the configuration again; raises ``ConfigError``.
        clock: where time comes from. One that runs faster than the machine's says so in an
            attribute ``rate``; then rounds come that much sooner.
    """

    def __init__(
        self,
        settings: DaemonSettings,
        *,
        load: Callable[[], DaemonSettings],
        clock: Clock | None = None,
    ) -> None:
        check_exposure(settings.host, settings.token)
        self._settings = settings
        self._load = load
        self._clock: Clock = clock or SystemClock()
        self._rate: float = getattr(self._clock, "rate", 1.0)
        self._machine = self._clock if self._rate == 1.0 else SystemClock()
        self._commands: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._stopping = False
        self._reloading = threading.Lock()
        self._reload_ok = True
        self._reload_at = self._clock.utc()
        self._workers: dict[str, Worker] = {}
        self._first_round_done = False
        self.started = threading.Event()
        """Set when everything runs."""

    # -- what others call ------------------------------------------------------------------

    def run(self) -> int:
        """Runs until a signal or ``stop``; the exit code. Raises ``MonitorError`` at start."""
        REDACTOR.learn(_secrets(self._settings))
        with self._signals():
            self._start()
            try:
                self._attend()
            finally:
                clean = self._shut_down()
        return 0 if clean else 1

    def stop(self) -> None:
        """Makes ``run`` end; returns at once, and may be called from anywhere."""
        self._commands.put("stop")

    def reload(self) -> None:
        """Loads the configuration and swaps to it; on failure everything stays as it was."""
        with self._reloading:
            try:
                self._reload()
            except MonitorError as error:
                self._reload_ok = False
                _log.error("reload failed; the old configuration stays", error=str(error))
                raise
            except Exception as error:
                self._reload_ok = False
                _log.exception("reload failed; the old configuration stays")
                raise ConfigError(f"reload failed: {type(error).__name__}") from error

    @property
    def port(self) -> int:
        """The port of the web server."""
        return self._web.port

    def targets(self) -> Sequence[TargetView]:
        """All targets as of now."""
        return [worker.view() for worker in self._workers.values()]

    def health(self) -> Health:
        """The state of the daemon as of now."""
        rounds, writer = self._rounds, self._writer
        return Health(
            loop_age=rounds.age(),
            loop_limit=rounds.limit,
            waiting_for=self._waiting_for(),
            rounds_missed=rounds.counts.missed,
            rounds_skipped=rounds.counts.skipped,
            rounds_failed=rounds.counts.failed,
            scheduler_rebuilds=rounds.counts.rebuilds,
            clock_lead=self._timeline.lead(),
            rows_queued=writer.queued,
            rows_written=writer.written,
            rows_dropped=writer.dropped,
            write_errors=writer.errors,
            write_age=writer.age(),
            reload_ok=self._reload_ok,
            reload_at=self._reload_at,
            config_hash=self._settings.config_hash,
        )

    def status(self) -> dict[str, Any]:
        """The document of ``monitor status --json``, from memory."""
        services: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        now = self._timeline.now()
        for worker in sorted(self._workers.values(), key=lambda worker: worker.name):
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
        return status_document(services)

    # -- start -----------------------------------------------------------------------------

    def _start(self) -> None:
        settings = self._settings
        sock = listen(settings.host, settings.port)
        try:
            self._open_store()
        except BaseException:
            sock.close()
            raise
        self._pool = Pool()
        self._rounds: Rounds[Worker] = Rounds(self._machine, self._submit, self._rate)
        self._rounds.plan(self._workers.values())
        self._web = WebServer(
            create_app(self, host=settings.host, token=lambda: self._settings.token), sock
        )
        self._writer.start()
        self._rounds.start()
        self._web.start()
        _log.info("started", targets=len(self._workers), host=settings.host, port=self.port)
        self.started.set()

    def _open_store(self) -> None:
        self._engine: Engine = open_store(self._settings.database)
        try:
            ensure_ready(self._engine)
            self._repository = Repository(self._engine)
            self._writer = Writer(self._repository, self._clock, errand=self._run_errands)
            self._register(self._settings)
            self._restore()
            self._restore_alerts()
            self._delivery = Delivery(self._repository.alerts.outbox, self._clock)
            self._delivery.start(self._settings.receivers)
        except BaseException:
            self._engine.dispose()
            raise

    def _restore(self) -> None:
        """Goes on where the last process stopped, however it ended."""
        states = self._repository.load_states()
        known_until = max((state.at for state in states.values()), default=0.0)
        ahead = known_until - self._clock.utc()
        if ahead > FARTHEST:
            # Nothing can be appended to a past that lies days in the future.
            _log.error("what is stored lies in the future and is not used", by_seconds=ahead)
            states, known_until = {}, 0.0
        self._timeline = Timeline(self._clock, not_before=known_until)
        self._curves = Curves(self._repository)
        self._neighbours = Neighbours()
        self._curves.refresh()
        self._curves.configure(self._settings.targets, self._timeline.now())
        self._workers = self._build(self._settings.targets, {})
        statuses = self._repository.statuses()
        known = {target.target: target for service in statuses for target in service.targets}
        for name, state in states.items():
            self._restore_worker(self._workers[name], state, known[name])

    def _restore_worker(self, worker: Worker, stored: StoredState, known: TargetStatus) -> None:
        try:
            history = self._recall(worker.name)
            worker.restore(stored.state, history, known.verdict, known.since)
        except StoreError as error:
            _log.error("a target starts without its past", target=worker.name, error=str(error))

    def _restore_alerts(self) -> None:
        stored = self._repository.alerts.by_target()
        for name, texts in stored.items():
            if name in self._workers:
                self._workers[name].restore_alerts(texts)
        self._end_alerts(stored.keys() - self._workers.keys(), self._settings.routing)

    def _end_alerts(self, names: Iterable[str], routing: Routing) -> None:
        """Says of targets that are no longer watched that nobody will tell more about them."""
        alerts = self._repository.alerts
        if gone := [*names]:
            now, stored, services = self._timeline.now(), alerts.by_target(), alerts.services()
            for name in gone:
                news = closing(name, services.get(name, ""), stored.get(name, {}), now)
                alerts.record(news, routing, now)

    def _register(self, settings: DaemonSettings) -> None:
        ids = self._repository.register(settings.targets, self._clock.utc())
        self._repository.route(settings.routing)
        self._writer.accept(frozenset(ids))

    def _recall(self, name: str) -> Iterable[Increment]:
        now = self._timeline.now()
        return self._repository.load_history(name, now - FINE_SECONDS, now)

    def _build(
        self, targets: Iterable[TargetSettings], old: Mapping[str, Worker]
    ) -> dict[str, Worker]:
        """The workers for ``targets``; those whose settings did not change are kept."""
        workers = {}
        for target in targets:
            before = old.get(target.name)
            same = before is not None and before.settings == target
            workers[target.name] = before if before and same else self._new(target, before)
        return workers

    def _new(self, target: TargetSettings, predecessor: Worker | None) -> Worker:
        return Worker(
            target,
            clock=self._clock,
            timeline=self._timeline,
            sink=self._writer.put,
            predecessor=predecessor,
            recall=self._recall,
            curves=self._curves,
            neighbours=self._neighbours,
            rules=lambda: self._settings.rules,
        )

    def _run_errands(self) -> None:
        """What the thread that writes looks for in the database each minute."""
        self._curves.refresh()
        self._deliver_orders()

    def _deliver_orders(self) -> None:
        """Hands each worker what was ordered about its reference by another process."""
        for given in self._repository.pending_orders():
            worker = self._workers.get(given.target)
            if worker is not None:
                worker.order(given.id, given.order)

    def _submit(self, worker: Worker) -> None:
        self._pool.submit(worker.run)

    # -- while it runs ---------------------------------------------------------------------

    def _attend(self) -> None:
        while True:
            try:
                command = self._commands.get(timeout=WATCH_SECONDS)
            except queue.Empty:
                self._rounds.watch()
                continue
            if command == "stop":
                return
            try:
                self.reload()
            except MonitorError:
                continue  # It is logged and counted; nobody waits for the answer.

    def _reload(self) -> None:
        settings = self._load()
        check_exposure(self._settings.host, settings.token)
        REDACTOR.learn(_secrets(settings))
        before = self._workers
        workers = self._build(settings.targets, before)

        def register() -> None:
            self._register(settings)
            self._curves.refresh()
            text = f"configuration {settings.config_hash or 'without a hash'} loaded"
            self._repository.event(self._timeline.now(), "reload", text)
            self._end_alerts(before.keys() - workers.keys(), settings.routing)
            self._delivery.reload(settings.receivers)

        # The database is the last that can say no; all that follows cannot fail.
        self._writer.call(register, timeout=_STORE_SECONDS)
        self._warn_of_fixed(settings)
        self._curves.configure(settings.targets, self._timeline.now())
        self._settings, self._workers = settings, workers
        self._rounds.plan(workers.values())
        for name, worker in before.items():
            if workers.get(name) is not worker:
                worker.retire()
        self._reload_ok, self._reload_at = True, self._clock.utc()
        kept = sum(before.get(name) is worker for name, worker in workers.items())
        _log.info("reloaded", targets=len(workers), kept=kept)

    def _warn_of_fixed(self, new: DaemonSettings) -> None:
        old = self._settings
        for name in ("database", "host", "port"):
            if getattr(old, name) != getattr(new, name):
                _log.warning("this setting takes effect at the next start only", setting=name)

    def _waiting_for(self) -> str | None:
        if not self._first_round_done:
            waiting = sum(worker.rounds == 0 for worker in self._workers.values())
            if waiting:
                return f"the first look at {waiting} of {len(self._workers)} targets"
            self._first_round_done = True
        return None

    # -- end -------------------------------------------------------------------------------

    def _shut_down(self) -> bool:
        """Everything in order, within the time allowed; False when rows were left behind."""
        self._stopping = True
        _log.info("stopping", within_seconds=self._settings.shutdown_seconds)
        deadline = self._machine.monotonic() + self._settings.shutdown_seconds

        def left(share: float = 1.0) -> float:
            return max(0.1, (deadline - self._machine.monotonic()) * share)

        self._rounds.stop()
        self._end_scrapes(left(0.5))
        flushed = self._writer.stop(left(0.75))
        if not flushed:
            _log.error("rows were left behind", rows=self._writer.queued)
        if not self._delivery.stop(left(0.5)):
            _log.warning("a receiver did not answer in time; its message is sent again later")
        if not self._web.stop(left()):
            _log.warning("the web server did not end in time")
        self._engine.dispose()
        _log.info("stopped", rows_written=self._writer.written)
        return flushed

    def _end_scrapes(self, patience: float) -> None:
        """Waits for the scrapes under way; those that take too long are cut off, unseen."""
        ended = self._pool.close(patience)
        for worker in self._workers.values():
            worker.retire()
        if not ended and not self._pool.close(patience / 2):
            _log.warning("some scrapes did not end in time")

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Handles the signals, where that is possible: only the main thread may."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handled = {signal.SIGTERM: self._on_stop, signal.SIGINT: self._on_stop}
        handlers = {**handled, signal.SIGHUP: self._on_reload}
        before = {number: signal.signal(number, handlers[number]) for number in handlers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # Handlers interrupt the main thread anywhere, even inside a lock it holds. A SimpleQueue is
    # made to be put to in that position; an Event is not.
    def _on_stop(self, _number: int, _frame: FrameType | None) -> None:
        if self._stopping:
            os._exit(_FORCED_EXIT)
        self._stopping = True
        self._commands.put("stop")

    def _on_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._commands.put("reload")


def _secrets(settings: DaemonSettings) -> Iterator[str]:
    """All that must never be logged."""
    held = [settings.token]
    for target in settings.targets:
        held += [target.credentials.bearer, target.credentials.password]
    yield from (secret.get_secret_value() for secret in held if secret is not None)
    for receiver in settings.receivers:
        yield from secrets_of(receiver)
    password = make_url(settings.database).password
    if password:
        yield str(password)
