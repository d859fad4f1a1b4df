"""The daemon itself: what starts in which order, who leads, what is reloaded, what ends how."""

from __future__ import annotations

import gc
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any

import structlog
from sqlalchemy.engine import Engine, make_url

from monitor.alerting.receivers import secrets_of
from monitor.clock import Clock, SystemClock
from monitor.daemon.keeper import Keeper
from monitor.daemon.signals import handled
from monitor.daemon.watch import Watch
from monitor.logs import REDACTOR
from monitor.model import ConfigError, MonitorError, StoreError
from monitor.settings import DaemonSettings
from monitor.store.connect import open_store
from monitor.store.lease import DAEMON, Leases, guard
from monitor.store.repository import Repository
from monitor.store.schema import ensure_ready
from monitor.web.app import create_app
from monitor.web.guard import check_exposure
from monitor.web.server import WebServer, listen
from monitor.web.status import stored_status
from monitor.web.view import Health, TargetView

WATCH_SECONDS = 1.0
_COLLECT_AT = 20_000
"""Objects by which those alive must grow before the garbage collector looks for cycles.

Next to nothing here is in cycles, and with its default of 700 the collector goes through what is
remembered of some hundred targets again each second, at 6 % of all work.
"""
_FORCED_EXIT = 1
_FIXED = ("database", "host", "port", "lease_seconds")
"""Settings that take effect at the start only."""

_log = structlog.get_logger(__name__)


class Daemon:
    """Watches while it holds the lease of its database, stands by while another does.

    Several daemons may share a database: one of them leads. Which one is decided by a lease,
    and so the others neither scrape nor send nor act; the next one goes on where the leader's
    rows end, just as the same process would after a restart.

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
        self._watch: Watch | None = None
        self._problem: str | None = None
        self.opened = threading.Event()
        """Set when it answers requests, whether it leads or stands by."""
        self.started = threading.Event()
        """Set when it leads, and everything runs."""

    # -- what others call ------------------------------------------------------------------

    def run(self) -> int:
        """Runs until a signal or ``stop``; the exit code. Raises ``MonitorError`` at start."""
        REDACTOR.learn(_secrets(self._settings))
        gc.set_threshold(_COLLECT_AT, *gc.get_threshold()[1:])
        with handled(stop=self._on_stop, reload=self._on_reload):
            self._open()
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
        """All targets as of now; none while another daemon leads."""
        return () if self._watch is None else self._watch.targets()

    def health(self) -> Health:
        """The state of the daemon as of now."""
        watch = self._watch
        if watch is None:
            health = Health(loop_age=0.0, loop_limit=inf, waiting_for=self._waits())
        else:
            health = watch.health()
        return replace(
            health,
            reload_ok=self._reload_ok,
            reload_at=self._reload_at,
            config_hash=self._settings.config_hash,
            fence=self._keeper.fence(),
        )

    def status(self) -> dict[str, Any]:
        """The document of ``monitor status --json``: from memory, or what the leader stored."""
        if self._watch is not None:
            return self._watch.status()
        return stored_status(Repository(self._engine), self._clock.utc())

    # -- start -----------------------------------------------------------------------------

    def _open(self) -> None:
        """Opens what is needed in any case; begins to lead if nobody else does."""
        settings = self._settings
        sock = listen(settings.host, settings.port)
        app = create_app(
            self, host=settings.host, token=lambda: self._settings.token, clock=self._clock
        )
        self._web = WebServer(app, sock)
        try:
            self._open_store()
        except BaseException:
            sock.close()
            raise
        self._web.start()
        self.opened.set()

    def _open_store(self) -> None:
        self._engine: Engine = open_store(self._settings.database)
        try:
            ensure_ready(self._engine)
            leases, seconds = Leases(self._engine), self._settings.lease_seconds
            self._keeper = Keeper(leases, self._machine, seconds, self._on_loss)
            self._begin()
        except BaseException:
            self._engine.dispose()
            raise

    def _begin(self) -> None:
        """The first try to lead; raises ``StoreError`` where the past cannot be read."""
        try:
            fence = self._keeper.take()
        except StoreError as error:
            # The database has just answered. A leader that is frozen in mid-write holds the row
            # of the lease for some seconds more.
            self._say_once(f"standing by: {error}")
        else:
            self._lead(fence)

    def _try_to_lead(self) -> None:
        """Begins to lead, unless another daemon does; raises ``StoreError``."""
        self._lead(self._keeper.take())

    def _lead(self, fence: int | None) -> None:
        if fence is None:
            self._say_once(f"standing by: {self._waits()}")
            return
        try:
            self._watch = self._new_watch(fence)
        except BaseException:
            self._keeper.release()
            raise
        self._problem = None
        host, targets = self._settings.host, len(self._settings.targets)
        _log.info("started", targets=targets, host=host, port=self.port, fence=fence)
        self.started.set()

    def _new_watch(self, fence: int) -> Watch:
        watch = Watch(
            self._settings,
            self._engine,
            guard=guard(DAEMON, fence),
            lease=self._keeper,
            clock=self._clock,
            rate=self._rate,
        )
        watch.start()
        return watch

    def _waits(self) -> str:
        holder = self._keeper.holder
        if holder is None:
            return "the past is read from the database"
        return f"{holder} leads on this database; this one neither scrapes, sends nor acts"

    def _say_once(self, text: str) -> None:
        if text != self._problem:
            _log.warning(text)
        self._problem = text

    # -- while it runs ---------------------------------------------------------------------

    def _attend(self) -> None:
        while (command := self._next_command()) != "stop":
            if command == "reload":
                self._reload_on_signal()
            elif command == "lost":
                self._step_down()
            elif self._watch is not None:
                self._watch.look_after()
            else:
                self._stand_by()

    def _next_command(self) -> str | None:
        try:
            return self._commands.get(timeout=WATCH_SECONDS)
        except queue.Empty:
            return None

    def _reload_on_signal(self) -> None:
        # What is wrong is logged and counted; nobody waits for the answer.
        with suppress(MonitorError):
            self.reload()

    def _stand_by(self) -> None:
        try:
            with self._reloading:
                self._try_to_lead()
        except StoreError as error:
            self._say_once(f"standing by: {error}")

    def _step_down(self) -> None:
        """Ends all work because another daemon has taken the lease, and stands by."""
        with self._reloading:
            watch, self._watch = self._watch, None
        if watch is None:
            return
        _log.error("another daemon has taken the lease; all work ends, and this one stands by")
        self.started.clear()
        watch.stop(self._until_deadline())
        self._keeper.release()

    def _reload(self) -> None:
        settings = self._load()
        check_exposure(self._settings.host, settings.token)
        REDACTOR.learn(_secrets(settings))
        if self._watch is not None:
            self._watch.reload(settings)
        for name in _FIXED:
            if getattr(self._settings, name) != getattr(settings, name):
                _log.warning("this setting takes effect at the next start only", setting=name)
        self._settings = settings
        self._reload_ok, self._reload_at = True, self._clock.utc()

    # -- end -------------------------------------------------------------------------------

    def _shut_down(self) -> bool:
        """Everything in order, within the time allowed; False when rows were left behind."""
        self._stopping = True
        _log.info("stopping", within_seconds=self._settings.shutdown_seconds)
        left = self._until_deadline()
        flushed = self._watch is None or self._watch.stop(left)
        # Nobody may take over while we still act: then the lease must run out by itself.
        self._keeper.release(give_back=self._watch is None or not self._watch.is_acting)
        if not self._web.stop(left(1.0)):
            _log.warning("the web server did not end in time")
        self._engine.dispose()
        _log.info("stopped", rows_written=self.health().rows_written)
        return flushed

    def _until_deadline(self) -> Callable[[float], float]:
        """Gives the seconds that a share of the time comes to that is allowed from now on."""
        deadline = self._machine.monotonic() + self._settings.shutdown_seconds
        return lambda share: max(0.1, (deadline - self._machine.monotonic()) * share)

    # Handlers interrupt the main thread anywhere, even inside a lock it holds. A SimpleQueue is
    # made to be put to in that position; an Event is not.
    def _on_stop(self) -> None:
        if self._stopping:
            os._exit(_FORCED_EXIT)
        self._stopping = True
        self._commands.put("stop")

    def _on_reload(self) -> None:
        self._commands.put("reload")

    def _on_loss(self) -> None:
        self._commands.put("lost")


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
