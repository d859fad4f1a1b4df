"""What the rollbacks of all services are run with: gear, orders, silences, and evidence."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Generic, TypeVar

import structlog

from monitor.alerting.silences import Silence
from monitor.clock import Clock
from monitor.daemon.evidence import Evidence
from monitor.health.baseline import Baseline
from monitor.model import StoreError
from monitor.rollback.actuators.nowhere import Nowhere
from monitor.rollback.asks import attainable
from monitor.rollback.evidence import Circumstances, Look
from monitor.rollback.fleet import FLEET
from monitor.rollback.hands import Gear
from monitor.rollback.messages import RULE
from monitor.rollback.model import IDLE, Command, Phase
from monitor.rollback.ports import Lease, Record
from monitor.rollback.probe import ServiceProbe
from monitor.rollback.runner import Runner
from monitor.rollback.settings import Mode
from monitor.settings import DaemonSettings, Role, RollbackSettings, TargetSettings
from monitor.store.repository import Repository
from monitor.store.rollbacks import Rollbacks as RollbackStore
from monitor.web.view import RollbackView

ORDER_SECONDS = 0.5
"""How long what the database said of orders is taken for true: one look serves all services."""
SILENCE_SECONDS = 5.0
"""The same of silences."""
MOVING = frozenset(
    {
        Phase.CHECKING,
        Phase.STARTING,
        Phase.RESTARTING,
        Phase.SHIFTING,
        Phase.HOLDING,
        Phase.VERIFYING,
        Phase.RETURNING,
        Phase.TRIAL,
        Phase.UNDOING,
    }
)
"""Phases in which figures change because traffic does, or is about to."""

T = TypeVar("T")
Side = Mapping[Role, Sequence[TargetSettings]]

_log = structlog.get_logger(__name__)


class Rollbacks:
    """The rollbacks of all services, as the daemon sees them. Safe from any thread.

    Args:
        repository: where states, steps, decisions, orders and silences are.
        lease: the lease of this process.
        clock: for durations.
        now: the time of decisions.
        baseline_of: the curve that a target is compared with now.
    """

    def __init__(
        self,
        repository: Repository,
        lease: Lease,
        *,
        clock: Clock,
        now: Callable[[], float],
        baseline_of: Callable[[TargetSettings], Baseline | None],
    ) -> None:
        self._clock = clock
        self._now = now
        self._store = repository.rollbacks
        self._evidence = Evidence(baseline_of)
        self._silences: _Fresh[Sequence[Silence]] = _Fresh(
            lambda: repository.alerts.silences.current(now()), SILENCE_SECONDS, clock
        )
        journal = _Journal(repository.rollbacks, clock)
        self._runner = Runner(
            journal=journal, lease=lease, clock=clock, now=now, rate=getattr(clock, "rate", 1.0)
        )
        self._targets: Mapping[str, Sequence[str]] = {}
        self._modes: Mapping[str, Mode] = {}

    def configure(self, settings: DaemonSettings) -> None:
        """Goes on with these settings; plans in progress go on under them."""
        sides: dict[str, dict[Role, list[TargetSettings]]] = defaultdict(lambda: defaultdict(list))
        for target in settings.targets:
            sides[target.service][target.role].append(target)
        given = {name: settings.rollbacks.get(name, RollbackSettings()) for name in sides}
        self._evidence.config_hash = settings.config_hash
        self._modes = {name: rollback.policy.mode for name, rollback in given.items()}
        self._targets = {
            name: [target.name for target in side[Role.SPECULATIVE]]
            for name, side in sides.items()
        }
        self._warn_of_those_left(sides.keys())
        gears = {name: self._gear(name, given[name], side) for name, side in sides.items()}
        self._runner.use(gears, settings.freeze)

    def _warn_of_those_left(self, services: Collection[str]) -> None:
        """Names plans in progress of services that are configured no more: nobody watches them."""
        try:
            known = self._store.states()
        except StoreError:
            return  # Whoever needs the database next says so.
        for name, stored in known.items():
            if name not in {FLEET, *services} and stored.phase not in IDLE:
                _log.warning(
                    "a rollback stays where it is, and is watched no more: no such service now",
                    service=name, plan=stored.plan, phase=stored.phase,
                )  # fmt: skip

    def start(self) -> None:
        """Begins to act upon what is stored and seen."""
        self._runner.start()

    def stop(self, timeout: float) -> bool:
        """Begins nothing any more; False when an act was still under way at the end.

        What such an act has intended is in the database, and is observed at the next start.
        """
        return self._runner.stop(timeout)

    def take(self, target: TargetSettings, look: Look, page: bytes | None) -> None:
        """Takes in a tick of a target; returns at once."""
        if target.role is Role.SPECULATIVE:
            self._evidence.take(target, look, page)
            self._runner.take(target.service, look)

    def forget(self, target: TargetSettings) -> None:
        """Drops a target that is no longer watched."""
        self._evidence.forget(target.name)
        self._runner.forget(target.service, target.name)

    def is_moving(self, service: str) -> bool:
        """Whether traffic of a service is being moved, or about to be."""
        executor = self._runner.executor(service)
        return executor is not None and executor.state.phase in MOVING

    @property
    def frozen(self) -> str | None:
        """Why nothing moves because too many services are hurt at once, if so."""
        return self._runner.frozen

    def views(self) -> list[RollbackView]:
        """All rollbacks as of now."""
        views = []
        for service, executor in self._runner.executors.items():
            state = executor.state
            views.append(
                RollbackView(
                    service=service,
                    mode=self._modes.get(service, Mode.OBSERVE),
                    phase=state.phase,
                    plan=None if state.plan is None else state.plan.id,
                    share=state.share,
                    since=state.since or None,
                    why=state.why or None,
                    acts=dict(executor.acts),
                    errors=self._runner.errors[service],
                    is_hurt=executor.is_hurt is True,
                )
            )
        return views

    def _gear(self, service: str, given: RollbackSettings, side: Side) -> Gear:
        policy, actuator = given.policy, given.actuator
        lacks = "" if side.get(Role.BASELINE) else "it has no baseline.targets to move traffic to"
        if actuator is None:
            # Nothing will be moved, so that no server need be asked either.
            lacks = "no rollback.actuator is configured for it"
            probe = ServiceProbe((), ())
        else:
            policy = attainable(policy, actuator.reachable)
            both = (side.get(Role.BASELINE, ()), side.get(Role.SPECULATIVE, ()))
            probe = ServiceProbe(*both, model=policy.precheck.model, clock=self._clock)
        return Gear(
            policy,
            probe,
            actuator or Nowhere(),
            given.starter,
            around=lambda: self._around(service, lacks),
        )

    def _around(self, service: str, lacks: str) -> Circumstances:
        targets = self._targets.get(service, ())
        return Circumstances(
            held=self._held(service), lacks=lacks, annex=self._evidence.annex(targets)
        )

    def _held(self, service: str) -> str | None:
        """The silence that holds the rollbacks of a service, in words."""
        now = self._now()
        for silence in self._silences.value():
            for target in ("", *self._targets.get(service, ())):
                labels = {"rule": RULE, "service": service, "target": target}
                if silence.holds_rollback and silence.covers(labels, now):
                    return f"silence {silence.id} by {silence.who}: {silence.why}"
        return None


class _Fresh(Generic[T]):
    """What the database says, asked again when it is older than some seconds."""

    def __init__(self, ask: Callable[[], T], seconds: float, clock: Clock) -> None:
        self._ask = ask
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._known: tuple[float, T] | None = None

    def value(self) -> T:
        """The answer; raises ``StoreError`` where the database does not give one."""
        with self._lock:
            now = self._clock.monotonic()
            if self._known is None or now - self._known[0] >= self._seconds:
                self._known = now, self._ask()
            return self._known[1]

    def forget(self) -> None:
        """Asks again with the next call."""
        with self._lock:
            self._known = None


class _Journal:
    """The store, as ``ports.Journal``; one look for orders serves all services."""

    def __init__(self, store: RollbackStore, clock: Clock) -> None:
        self._store = store
        self._orders: _Fresh[Sequence[Command]] = _Fresh(store.waiting, ORDER_SECONDS, clock)

    def load(self, service: str) -> str | None:
        return self._store.load(service)

    def commands(self, service: str) -> Sequence[Command]:
        return [command for command in self._orders.value() if command.service == service]

    def save(self, record: Record, fence: int) -> None:
        if record.taken:
            self._orders.forget()
        self._store.save(record, fence)
