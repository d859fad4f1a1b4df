"""The daemon itself: what starts in which order, what is exchanged on reload, what ends how."""

from __future__ import annotations

import os
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy.engine import Engine, make_url

from monitor.alerting.delivery import Delivery
from monitor.alerting.receivers import secrets_of
from monitor.clock import Clock, SystemClock
from monitor.daemon.crew import Crew, muster
from monitor.daemon.pool import Pool
from monitor.daemon.rounds import Rounds
from monitor.daemon.signals import handled
from monitor.daemon.worker import Worker
from monitor.daemon.writer import Writer
from monitor.logs import REDACTOR
from monitor.model import ConfigError, MonitorError
from monitor.report import to_document
from monitor.settings import DaemonSettings
from monitor.store.connect import open_store
from monitor.store.repository import Repository
from monitor.store.schema import ensure_ready
from monitor.web.app import create_app
from monitor.web.guard import check_exposure
from monitor.web.server import WebServer, listen
from monitor.web.status import status_document, target_document
from monitor.web.view import Health, TargetView

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
        self._first_round_done = False
        self.started = threading.Event()
        """Set when everything runs."""

    # -- what others call ------------------------------------------------------------------

    def run(self) -> int:
        """Runs until a signal or ``stop``; the exit code. Raises ``MonitorError`` at start."""
        REDACTOR.learn(_secrets(self._settings))
        with handled(stop=self._on_stop, reload=self._on_reload):
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
        return [worker.view() for worker in self._crew.workers.values()]

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
            clock_lead=self._crew.timeline.lead(),
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
        self._rounds.plan(self._crew.workers.values())
        self._web = WebServer(
            create_app(self, host=settings.host, token=lambda: self._settings.token), sock
        )
        self._writer.start()
        self._rounds.start()
        self._web.start()
        _log.info("started", targets=len(self._crew.workers), host=settings.host, port=self.port)
        self.started.set()

    def _open_store(self) -> None:
        settings = self._settings
        self._engine: Engine = open_store(settings.database)
        try:
            ensure_ready(self._engine)
            self._repository = Repository(self._engine)
            self._writer = Writer(self._repository, self._clock, errand=self._run_errands)
            self._register(settings)
            self._crew: Crew = muster(settings, self._repository, self._clock, self._writer.put)
            self._delivery = Delivery(self._repository.alerts.outbox, self._clock)
            self._delivery.start(settings.receivers)
        except BaseException:
            self._engine.dispose()
            raise

    def _register(self, settings: DaemonSettings) -> None:
        ids = self._repository.register(settings.targets, self._clock.utc())
        self._repository.route(settings.routing)
        self._writer.accept(frozenset(ids))

    def _run_errands(self) -> None:
        self._crew.run_errands()

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
        before = self._crew.workers
        workers = self._crew.build(settings.targets)

        def register() -> None:
            self._register(settings)
            self._crew.curves.refresh()
            text = f"configuration {settings.config_hash or 'without a hash'} loaded"
            self._repository.event(self._crew.timeline.now(), "reload", text)
            self._crew.end_alerts(before.keys() - workers.keys(), settings)
            self._delivery.reload(settings.receivers)

        # The database is the last that can say no; all that follows cannot fail.
        self._writer.call(register, timeout=_STORE_SECONDS)
        self._warn_of_fixed(settings)
        kept = self._crew.exchange(settings, workers)
        self._settings = settings
        self._rounds.plan(workers.values())
        for name, worker in before.items():
            if workers.get(name) is not worker:
                worker.retire()
        self._reload_ok, self._reload_at = True, self._clock.utc()
        _log.info("reloaded", targets=len(workers), kept=kept)

    def _warn_of_fixed(self, new: DaemonSettings) -> None:
        old = self._settings
        for name in ("database", "host", "port"):
            if getattr(old, name) != getattr(new, name):
                _log.warning("this setting takes effect at the next start only", setting=name)

    def _waiting_for(self) -> str | None:
        if not self._first_round_done:
            waiting = sum(worker.rounds == 0 for worker in self._crew.workers.values())
            if waiting:
                return f"the first look at {waiting} of {len(self._crew.workers)} targets"
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
        for worker in self._crew.workers.values():
            worker.retire()
        if not ended and not self._pool.close(patience / 2):
            _log.warning("some scrapes did not end in time")

    # Handlers interrupt the main thread anywhere, even inside a lock it holds. A SimpleQueue is
    # made to be put to in that position; an Event is not.
    def _on_stop(self) -> None:
        if self._stopping:
            os._exit(_FORCED_EXIT)
        self._stopping = True
        self._commands.put("stop")

    def _on_reload(self) -> None:
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
