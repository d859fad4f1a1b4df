"""Sends what is in the outbox: one worker for each receiver, so that none waits for another.

A message is claimed, sent, and marked after the receiver said yes. A process that dies in
between sends it again under the same id, once its lease has run out: at least once.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from monitor.alerting.notifiers.base import Message, Notifier
from monitor.alerting.notifiers.make import make_notifier
from monitor.alerting.receivers import ReceiverSettings
from monitor.alerting.retry import GiveUp, after_failure, backoff
from monitor.clock import Clock
from monitor.logs import REDACTOR
from monitor.model import DeliveryError, StoreError
from monitor.store.outbox import Claimed, Outbox

POLL_SECONDS = 1.0
"""How often a worker looks for work: its own process and others put it there unasked."""
STORE_SECONDS = 5.0
"""How long a worker leaves a database alone that did not answer."""
LEASE_ROOM = 60.0
"""How much longer than an attempt may take a row is ours."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class DeliveryCounts:
    """What became of the messages of one receiver since the start."""

    sent: int = 0
    failed: int = 0
    """Attempts that will be repeated."""
    dead: int = 0
    problem: str | None = None
    """Why the last attempt failed; None when it did not."""


class Worker:
    """Delivers to one receiver."""

    def __init__(
        self,
        settings: ReceiverSettings,
        notifier: Notifier,
        outbox: Outbox,
        clock: Clock,
        jitter: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.counts = DeliveryCounts()
        self._notifier = notifier
        self._outbox = outbox
        self._clock = clock
        self._jitter = jitter
        self._owner = uuid.uuid4().hex
        self._failures = 0
        self._rest_until = clock.monotonic()
        self._alive_at: float | None = None
        self._store_problem: str | None = None
        self._unmarked: Claimed | None = None

    def step(self) -> float:
        """Does the next piece of work, if any; seconds after which to ask again."""
        try:
            return self._step()
        except StoreError as error:
            if str(error) != self._store_problem:
                _log.error("the outbox does not answer", error=str(error), receiver=self._name)
            self._store_problem = str(error)
            return STORE_SECONDS

    @property
    def _name(self) -> str:
        return self.settings.name

    def _step(self) -> float:
        self._mark()
        rest = self._rest_until - self._clock.monotonic()
        if rest > 0:
            # The receiver is down or has asked for a pause: no message is tried meanwhile.
            return min(rest, POLL_SECONDS)
        self._keep_alive()
        now = self._clock.utc()
        lease = self.settings.timeout + LEASE_ROOM
        claimed = self._outbox.claim(self._name, self._owner, now, lease)
        self._store_problem = None
        if claimed is None:
            return POLL_SECONDS
        self._deliver(claimed)
        return 0.0

    def _deliver(self, claimed: Claimed) -> None:
        try:
            answer = self._send(claimed)
        except DeliveryError as error:
            self._failed(claimed, error)
            return
        self._unmarked = claimed
        self.counts.sent += 1
        self.counts.problem = None
        self._failures = 0
        self._mark()
        _log.info("notification sent", **self._about(claimed), answer=answer)

    def _mark(self) -> None:
        """Marks what was sent last; a database that is away then must not have it sent again."""
        if self._unmarked is not None:
            self._outbox.sent(self._unmarked, self._clock.utc())
            self._unmarked = None

    def _send(self, claimed: Claimed) -> str:
        try:
            return self._notifier.send(Message(claimed.notification), self._clock.utc())
        except DeliveryError as error:
            raise DeliveryError(
                REDACTOR.text(str(error)), permanent=error.permanent, retry_after=error.retry_after
            ) from None
        except Exception as error:
            # The border of delivery: a mistake of ours must not end the worker, nor stop what
            # waits behind this message. The text may hold anything, so only its kind is told.
            raise DeliveryError(f"internal error: {type(error).__name__}") from None

    def _failed(self, claimed: Claimed, error: DeliveryError) -> None:
        now = self._clock.utc()
        self.counts.problem = str(error)
        decision = after_failure(
            error,
            attempts=claimed.attempts,
            age=now - claimed.created_at,
            give_up_after=self.settings.give_up_after,
            jitter=self._jitter,
        )
        if isinstance(decision, GiveUp):
            if self._outbox.bury(claimed, now, decision.reason):
                self.counts.dead += 1
                _log.error("notification given up", **self._about(claimed), error=decision.reason)
            return
        self.counts.failed += 1
        self._failures += 1
        self._outbox.postpone(claimed, now + decision.seconds, str(error))
        # What goes wrong for one message goes wrong for the next; each try of a receiver that
        # is down costs a deadline.
        rest = backoff(self._failures, self._jitter)
        if error.retry_after is not None:
            rest = max(rest, decision.seconds)
        self._rest_until = self._clock.monotonic() + rest
        _log.warning(
            "notification not delivered",
            **self._about(claimed),
            error=str(error),
            again_in_seconds=round(decision.seconds, 1),
        )

    def _keep_alive(self) -> None:
        every = self._notifier.keep_alive_seconds
        now = self._clock.monotonic()
        if every is None or (self._alive_at is not None and now - self._alive_at < every):
            return
        self._alive_at = now
        firing = self._outbox.firing(self._name)
        if not firing:
            return
        try:
            self._notifier.keep_alive(firing, self._clock.utc())
        except DeliveryError as error:
            self.counts.problem = REDACTOR.text(str(error))
            _log.warning("alerts not kept alive", receiver=self._name, error=self.counts.problem)
        except Exception as error:
            # The same border.
            _log.error("alerts not kept alive", receiver=self._name, error=type(error).__name__)

    def _about(self, claimed: Claimed) -> Mapping[str, object]:
        n = claimed.notification
        return {
            "receiver": self._name,
            "incident": n.incident,
            "sequence": n.sequence,
            "reason": n.reason.value,
            "attempt": claimed.attempts,
        }

    def close(self) -> None:
        """Lets go of connections."""
        self._notifier.close()


class _Running:
    """A worker and the thread that drives it."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.ending = threading.Event()
        name = f"deliver-{worker.settings.name}"
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def _serve(self) -> None:
        try:
            while not self.ending.is_set():
                self.ending.wait(self._step())
        finally:
            self.worker.close()

    def _step(self) -> float:
        try:
            return self.worker.step()
        except Exception:
            # The border of delivery: this thread must not end.
            _log.exception("a delivery worker stumbled", receiver=self.worker.settings.name)
            return STORE_SECONDS


@dataclass(frozen=True, slots=True)
class Lineup:
    """The receivers that are wanted from now on."""

    kept: Mapping[str, _Running]
    fresh: Sequence[_Running]
    """Not started yet."""

    def drop(self) -> None:
        """Lets go of those that were made for nothing."""
        for running in self.fresh:
            running.worker.close()


class Delivery:
    """All receivers with a worker each.

    ``prepare``, ``exchange`` and ``stop`` may be called from any thread, but never two at once;
    ``counts`` also beside them.
    """

    def __init__(
        self,
        outbox: Outbox,
        clock: Clock,
        *,
        jitter: Callable[[], float] = random.random,
        make: Callable[[ReceiverSettings], Notifier] = make_notifier,
    ) -> None:
        self._outbox = outbox
        self._clock = clock
        self._jitter = jitter
        self._make = make
        self._running: dict[str, _Running] = {}
        self._leaving: list[_Running] = []

    def prepare(self, receivers: Iterable[ReceiverSettings]) -> Lineup:
        """Makes the receivers that are new or changed; until ``exchange`` nothing else happens."""
        wanted = {settings.name: settings for settings in receivers}
        kept = {
            name: running
            for name, running in self._running.items()
            if wanted.get(name) == running.worker.settings
        }
        fresh = [self._prepare(settings) for name, settings in wanted.items() if name not in kept]
        return Lineup(kept, fresh)

    def exchange(self, lineup: Lineup) -> None:
        """Goes on with these receivers; those that are kept do not notice."""
        for name, running in self._running.items():
            if name not in lineup.kept:
                self._end(running)
        for running in lineup.fresh:
            running.thread.start()
        fresh = {running.worker.settings.name: running for running in lineup.fresh}
        self._running = {**lineup.kept, **fresh}

    def stop(self, timeout: float) -> bool:
        """Ends all workers; False when one was still sending at the end of the time.

        What is not sent stays in the outbox. Threads that hang do not keep the process.
        """
        for running in self._running.values():
            self._end(running)
        self._running = {}
        deadline = self._clock.monotonic() + timeout
        for running in self._leaving:
            running.thread.join(max(0.0, deadline - self._clock.monotonic()))
        ended = not any(running.thread.is_alive() for running in self._leaving)
        self._leaving = []
        return ended

    def counts(self) -> dict[str, DeliveryCounts]:
        """What became of messages since the start, by receiver."""
        return {name: running.worker.counts for name, running in tuple(self._running.items())}

    def _prepare(self, settings: ReceiverSettings) -> _Running:
        worker = Worker(settings, self._make(settings), self._outbox, self._clock, self._jitter)
        return _Running(worker)

    def _end(self, running: _Running) -> None:
        running.ending.set()
        self._leaving = [other for other in self._leaving if other.thread.is_alive()]
        self._leaving.append(running)
