"""Runs the executors of all services beside the daemon's loop, which it never blocks.

One thread turns those services about which nothing is in progress: that asks no server. Each
service with a plan in progress has a thread of its own, in which a hanging server hurts nobody
else.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping

import structlog

from monitor.clock import Clock
from monitor.model import StoreError
from monitor.rollback.asks import IDLE_PACE
from monitor.rollback.evidence import Look
from monitor.rollback.executor import Executor
from monitor.rollback.fleet import FLEET, Fleet, answer, survey
from monitor.rollback.hands import Gear
from monitor.rollback.model import News, Phase
from monitor.rollback.ports import Journal, Lease, Record
from monitor.rollback.settings import FleetPolicy

_log = structlog.get_logger(__name__)


class Runner:
    """All services. Everything but ``sweep`` may be called from any thread, and returns at once.

    Args:
        journal: the store.
        lease: the lease of this process.
        clock: for durations.
        now: the time, UTC (``Timeline.now``).
        rate: how many seconds of ``clock`` pass in one of the machine's.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        lease: Lease,
        clock: Clock,
        now: Callable[[], float],
        rate: float = 1.0,
    ) -> None:
        self.errors: Counter[str] = Counter()
        """Turns that ended in an error, by service."""
        self._journal = journal
        self._lease = lease
        self._clock = clock
        self._now = now
        self._rate = rate
        self._policy = FleetPolicy()
        self._fleet = Fleet()
        self._fence: int | None = None
        self._executors: dict[str, Executor] = {}
        self._active: frozenset[str] = frozenset()
        self._threads: dict[str, threading.Thread] = {}
        self._problems: dict[str, str] = {}
        self._main: threading.Thread | None = None
        self._stopping = threading.Event()

    @property
    def executors(self) -> Mapping[str, Executor]:
        """The executors of the services that are configured now."""
        return {name: self._executors[name] for name in sorted(self._active)}

    def executor(self, service: str) -> Executor | None:
        """The executor of a service that is configured now."""
        return self._executors[service] if service in self._active else None

    @property
    def frozen(self) -> str | None:
        """Why all rollbacks are frozen, if they are."""
        return self._fleet.why if self._fleet.frozen_at is not None else None

    def use(self, gears: Mapping[str, Gear], fleet: FleetPolicy) -> None:
        """Works with a new configuration; what is in progress goes on under it."""
        for service, gear in gears.items():
            if service in self._executors:
                self._executors[service].use(gear)
            else:
                self._executors[service] = self._make(service, gear)
        # An executor is kept for ever: its last turn may still be running when the service
        # comes back, and two of them must never act on the same one.
        self._active, self._policy = frozenset(gears), fleet

    def take(self, service: str, look: Look) -> None:
        """Takes in a tick of a target of the speculative side."""
        executor = self.executor(service)
        if executor is not None:
            executor.take(look)

    def forget(self, service: str, target: str) -> None:
        """Drops a target that is no longer watched."""
        if service in self._executors:
            self._executors[service].forget(target)

    def start(self) -> None:
        """Begins."""
        self._main = threading.Thread(target=self._run, name="rollback", daemon=True)
        self._main.start()

    def stop(self, seconds: float) -> bool:
        """Begins nothing any more; False if an act was still running after ``seconds``."""
        self._stopping.set()
        deadline = self._clock.monotonic() + seconds
        threads = [*self._threads.values(), *([self._main] if self._main else [])]
        for thread in threads:
            thread.join(max(deadline - self._clock.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in threads)

    def sweep(self) -> None:
        """Turns each service about which nothing is in progress, and looks at all together."""
        self._guarded(self._recall)
        for service in sorted(self._active):
            thread = self._threads.get(service)
            if self._stopping.is_set() or (thread is not None and thread.is_alive()):
                continue
            executor = self._executors[service]
            if executor.is_quiet:
                self._turn(executor)
            if not executor.is_quiet:
                name = f"rollback {service}"
                thread = threading.Thread(
                    target=self._attend, args=(executor,), name=name, daemon=True
                )
                self._threads[service] = thread
                thread.start()
        self._guarded(self._survey)

    def _guarded(self, look: Callable[[], object]) -> None:
        try:
            look()
            self._problems.pop(FLEET, None)
        except StoreError as error:
            self._failed(FLEET, str(error))

    def _brake(self) -> str | None:
        """Why nothing may begin or go on, as an executor sees it."""
        if self._fence is None or self._fence != self._lease.fence():
            return "it is not known yet whether all rollbacks are frozen"
        return self.frozen

    def _make(self, service: str, gear: Gear) -> Executor:
        return Executor(
            service,
            gear,
            journal=self._journal,
            lease=self._lease,
            clock=self._clock,
            now=self._now,
            frozen=self._brake,
        )

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.sweep()
            self._stopping.wait(IDLE_PACE / self._rate)

    def _attend(self, executor: Executor) -> None:
        """Stays with one service until its plan is over."""
        while (
            not executor.is_quiet
            and not self._stopping.is_set()
            and executor.service in self._active
        ):
            seconds = self._turn(executor)
            # An order must not wait for the next look.
            self._stopping.wait(min(seconds, IDLE_PACE) / self._rate)

    def _turn(self, executor: Executor) -> float:
        """One turn. Never raises: one service must not hurt another."""
        try:
            seconds = executor.turn()
        except StoreError as error:
            self._failed(executor.service, str(error))
        except Exception as error:
            self._failed(executor.service, f"unforeseen: {type(error).__name__}: {error}")
            _log.exception("a turn of a rollback failed", service=executor.service)
        else:
            self._problems.pop(executor.service, None)
            return seconds
        return IDLE_PACE

    def _failed(self, service: str, problem: str) -> None:
        self.errors[service] += 1
        if self._problems.get(service) != problem:
            _log.error("a rollback cannot go on", service=service, error=problem)
        self._problems[service] = problem

    def _survey(self) -> None:
        """Looks at all services together, and takes the orders about all of them."""
        fence = self._recall()
        if fence is None:
            return
        now = self._now()
        hurt = {name: executor.is_hurt for name, executor in self.executors.items()}
        fleet, news = survey(self._fleet, hurt, self._policy, now)
        taken: list[str] = []
        for command in self._journal.commands(FLEET):
            fleet, told = answer(fleet, command, now)
            news, taken = (*news, *told), [*taken, command.id]
        self._keep(fleet, news, tuple(taken), fence)

    def _recall(self) -> int | None:
        """Reads what is stored of all services, under a new lease; its number while it is held."""
        fence = self._lease.fence()
        if fence is None or self._lease.remaining() <= 0.0:
            self._fence = None
        elif fence != self._fence:
            text = self._journal.load(FLEET)
            self._fleet = Fleet() if text is None else Fleet.from_json(text)
            self._fence = fence
        return self._fence

    def _keep(
        self, fleet: Fleet, news: tuple[News, ...], taken: tuple[str, ...], fence: int
    ) -> None:
        if news or taken or fleet.since != self._fleet.since:
            record = Record(
                service=FLEET,
                state=fleet.to_json(),
                phase=(Phase.ARMED if fleet.frozen_at is None else Phase.HELD).value,
                plan=fleet.plan,
                news=news,
                taken=taken,
            )
            self._journal.save(record, fence)
        self._fleet = fleet
