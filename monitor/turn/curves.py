"""Which curve each target is compared with: that of the configuration, the store or a control."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import structlog

from monitor.baselines.recorder import speculation_reason
from monitor.baselines.standing import IncidentStore, alerted_spans
from monitor.health.baseline import Baseline
from monitor.health.combine import combine
from monitor.model import Increment, StoreError
from monitor.pipeline import Tick
from monitor.settings import Role, TargetSettings
from monitor.store.baseline_rows import StoredBaseline
from monitor.store.rows import TargetFacts
from monitor.turn.control import NOTHING, Choice, Control

REPLAY_SECONDS = 86_400.0
"""How much of its past a control is rebuilt from; older figures have faded to a twelfth."""

_log = structlog.get_logger(__name__)


class ActiveBaselines(Protocol):
    """Which stored curve each service is to be compared with."""

    def active_of_all(self) -> Mapping[str, StoredBaseline]:
        """The active baseline of each service that has one."""
        ...


class CurveStore(Protocol):
    """The part of the repository that curves come from; all of it raises ``StoreError``."""

    @property
    def baselines(self) -> ActiveBaselines:
        """The stored curves."""
        ...

    @property
    def alerts(self) -> IncidentStore:
        """The incidents."""
        ...

    def samples(self, target: str, start: float, end: float) -> Sequence[Increment]:
        """What a target did, ascending in time."""
        ...

    def facts(self, target: str) -> TargetFacts:
        """What is known of a target besides."""
        ...


class Curves:
    """Finds the curve for each target; ``choose`` never waits for the database.

    A curve in the configuration comes first, then the active stored baseline of the service,
    then the control: its plain servers, watched while they run beside it.
    """

    def __init__(self, store: CurveStore) -> None:
        self._store = store
        self._stored: Mapping[str, Baseline] = {}
        self._controls: Mapping[str, Control] = {}
        self._plain: Mapping[str, Sequence[TargetSettings]] = {}
        self._problem: str | None = None
        self._alerted: dict[str, frozenset[str]] = {}
        """The targets of each service about which an alert is open."""
        self._lock = threading.Lock()

    def choose(self, target: TargetSettings) -> Choice:
        """The curve to compare a target with from now on."""
        if target.judge.baseline is not None:
            return Choice(target.judge.baseline)
        control = self._controls.get(target.service)
        if target.role is Role.BASELINE:
            # It is not compared with anything, but must say if it is no good.
            return NOTHING if control is None else Choice(None, control.note_on(target.name))
        stored = self._stored.get(target.service)
        if stored is not None:
            return Choice(stored)
        return NOTHING if control is None else control.choice

    def take(self, target: TargetSettings, tick: Tick, *, alerted: bool = False) -> None:
        """Takes in what was seen of a plain server, and of any whether an alert is open."""
        self._note_alert(target, alerted=alerted)
        control = self._controls.get(target.service)
        if target.role is not Role.BASELINE or control is None or not tick.increments:
            return
        counts = combine({increment.label: increment.counts for increment in tick.increments})
        reason = speculation_reason(tick.assessment, counts)
        held = bool(self._alerted.get(target.service))
        control.take(target.name, tick.increments, tick.assessment.identity, reason, held=held)

    def _note_alert(self, target: TargetSettings, *, alerted: bool) -> None:
        names = self._alerted.get(target.service, frozenset())
        if alerted != (target.name in names):
            with self._lock:
                names = self._alerted.get(target.service, frozenset())
                self._alerted[target.service] = (
                    names | {target.name} if alerted else names - {target.name}
                )

    def remember(self, target: TargetSettings) -> dict[str, Any] | None:
        """What the control knows that a plain server belongs to, for JSON."""
        control = self._controls.get(target.service)
        plain = target.role is Role.BASELINE
        return control.remember() if plain and control is not None else None

    def resume(self, target: TargetSettings, memory: Mapping[str, Any]) -> None:
        """Lets the control of a plain server go on from what ``remember`` gave."""
        control = self._controls.get(target.service)
        if control is not None:
            control.resume(memory)

    def refresh(self) -> None:
        """Reads the active baselines; with the database away, the ones known stay."""
        try:
            found = self._store.baselines.active_of_all()
        except StoreError as error:
            if str(error) != self._problem:
                _log.error("the active baselines cannot be read", error=str(error))
            self._problem = str(error)
            return
        self._problem = None
        fresh = {service: stored.baseline for service, stored in found.items()}
        for service in sorted(fresh.keys() | self._stored.keys()):
            before, now = self._stored.get(service), fresh.get(service)
            if (before and before.name) != (now and now.name):
                _log.info(
                    "another active baseline", service=service, baseline=now.name if now else None
                )
            if before is not None and before == now:
                # The same object tells the targets that nothing has changed.
                fresh[service] = before
        self._stored = fresh

    def configure(self, targets: Iterable[TargetSettings], now: float) -> None:
        """Builds the controls from the plain servers of each service, and from their past."""
        targets = tuple(targets)
        watched = {target.name for target in targets}
        with self._lock:
            self._alerted = {name: open_ & watched for name, open_ in self._alerted.items()}
        plain: dict[str, list[TargetSettings]] = defaultdict(list)
        for target in targets:
            if target.role is Role.BASELINE:
                plain[target.service].append(target)
        if plain == self._plain:
            return
        self._controls = {name: self._build(name, found, now) for name, found in plain.items()}
        self._plain = plain

    def _build(self, service: str, targets: Sequence[TargetSettings], now: float) -> Control:
        control = Control(service, targets)
        for target in targets:
            try:
                history = self._store.samples(target.name, now - REPLAY_SECONDS, now)
                history = self._outside_alerts(service, history)
                identity = self._store.facts(target.name).identity
            except StoreError as error:
                _log.error(
                    "a control begins without its past", target=target.name, error=str(error)
                )
                continue
            control.replay(target.name, history, identity)
        return control

    def _outside_alerts(self, service: str, history: Sequence[Increment]) -> Sequence[Increment]:
        """The past without the times at which an alert was open, unless that is all of it."""
        spans = alerted_spans(self._store.alerts, service)
        calm = [i for i in history if not any(a < i.end and i.start < b for a, b in spans)]
        return calm or history
