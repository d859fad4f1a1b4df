"""Carries the plan of one service out: intent, act, observation, result.

Each change of the state is stored before anything follows from it, in one transaction with its
news and with the intent of the act. So a process that dies anywhere leaves an intent behind; the
next one observes where traffic goes, and goes on. Everything is done under a lease, whose number
goes with each act and each transaction: without the lease, or without the database, nothing is
changed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import structlog

from monitor.clock import Clock
from monitor.model import LeaseError
from monitor.rollback.actuators.base import Act
from monitor.rollback.asks import IDLE_PACE, QUIET, may_act, pace
from monitor.rollback.ballots import Box, opine
from monitor.rollback.evidence import Circumstances, Look
from monitor.rollback.hands import Gear, carry_out, look
from monitor.rollback.machine import step as advance
from monitor.rollback.model import Phase, Step
from monitor.rollback.ports import Journal, Lease, Record, StepRow
from monitor.rollback.scene import Acted, Event, Looked
from monitor.rollback.settings import Cure
from monitor.rollback.state import State

MARGIN = 2.0
"""Seconds by which an act must be over before the lease can run out."""
LEAST_TIMEOUT = 1.0
"""An act that gets less than these seconds is not begun."""
SAVE_SECONDS = 30.0
"""How far what is stored may be behind while only time passes."""

_log = structlog.get_logger(__name__)


class Executor:
    """The rollback of one service. ``turn`` is called by one thread at a time.

    Args:
        service: its name.
        gear: what to work with.
        journal: the store.
        lease: the lease of this process.
        clock: for durations.
        now: the time, UTC, which should not go back (``Timeline.now``).
        frozen: why all rollbacks are frozen, if they are.
    """

    def __init__(
        self,
        service: str,
        gear: Gear,
        *,
        journal: Journal,
        lease: Lease,
        clock: Clock,
        now: Callable[[], float],
        frozen: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.service = service
        self._gear = gear
        self._journal = journal
        self._lease = lease
        self._clock = clock
        self._now = now
        self._frozen = frozen
        self._state = State(service)
        self._box = Box()
        self._guard = threading.Lock()
        self.acts: Counter[str] = Counter()
        """Tries of acts by how they ended: ``done`` or ``failed``."""
        self._fence: int | None = None
        self._look_at = self._act_at = self._saved_at = 0.0

    @property
    def state(self) -> State:
        """Where the rollback stands, as far as this process knows."""
        return self._state

    @property
    def is_quiet(self) -> bool:
        """Whether a turn takes no time worth a thread: no server and no router is asked."""
        return self._state.phase in QUIET

    @property
    def is_hurt(self) -> bool | None:
        """Whether the windows of the service ask for a rollback now; None where they tell neither
        that nor that it is well."""
        opinion = opine(self._ballots(), self._gear.policy.voting, self._now())
        if opinion.cure is not Cure.NOTHING:
            return True
        return False if opinion.is_well else None

    def take(self, tick: Look) -> None:
        """Takes in a tick of a target of the speculative side; from any thread, at once."""
        with self._guard:
            self._box.take(tick, self._gear.policy.voting)

    def forget(self, target: str) -> None:
        """Drops a target that is no longer watched; from any thread."""
        with self._guard:
            self._box.forget(target)

    def use(self, gear: Gear) -> None:
        """Works with another configuration from the next turn on."""
        self._gear = gear

    def turn(self) -> float:
        """One turn: orders, a look, at most one act.

        Returns:
            Seconds until the next turn should come.

        Raises:
            StoreError: the database does not take it; nothing has been done.
        """
        gear, fence = self._gear, self._lease.fence()
        if fence is None or self._lease.remaining() <= 0.0:
            self._fence = None
            return IDLE_PACE
        try:
            if fence != self._fence:
                self._resume(fence)
                return 0.0
            if self._obey(gear):
                return 0.0
            if self._clock.monotonic() >= self._look_at:
                self._look(gear)
            self._act(gear, fence)
        except LeaseError as error:
            _log.warning("left to another process", service=self.service, why=str(error))
            self._fence = None
        return max(self._due() - self._clock.monotonic(), 0.0)

    def _ballots(self) -> Box:
        with self._guard:
            return self._box.copy()

    def _obey(self, gear: Gear) -> bool:
        """Carries out orders; True if they end the quiet, in which no server may be asked."""
        was_quiet = self.is_quiet
        for command in self._journal.commands(self.service):
            self._apply(gear, command, taken=(command.id,))
        return was_quiet and not self.is_quiet

    def _due(self) -> float:
        waits = self._state.step is not None
        return min(self._look_at, self._act_at) if waits else self._look_at

    def _resume(self, fence: int) -> None:
        """Goes on from what is stored: another process may have changed it meanwhile."""
        text = self._journal.load(self.service)
        self._state = State(self.service) if text is None else State.from_json(text)
        self._fence = fence
        self._look_at = self._act_at = self._saved_at = self._clock.monotonic()

    def _look(self, gear: Gear) -> None:
        sight = look(gear, self._state, self._now)
        self._apply(gear, Looked(self._ballots(), sight))
        self._look_at = self._clock.monotonic() + pace(self._state, gear.policy)

    def _act(self, gear: Gear, fence: int) -> None:
        step, around = self._state.step, self._around(gear)
        if step is None or not may_act(self._state, around):
            return
        if self._clock.monotonic() < self._act_at:
            return
        done = carry_out(gear, step, lambda: self._permit(gear, step, fence))
        if done is None:
            self._act_at = self._clock.monotonic() + LEAST_TIMEOUT
            return
        self.acts["done" if done.ok else "failed"] += 1
        _log.info("an act was tried", service=self.service, step=step.id, ok=done.ok)
        self._apply(gear, done)
        retry = gear.policy.shift.retry if self._state.step == step else 0.0
        self._act_at = self._clock.monotonic() + retry

    def _permit(self, gear: Gear, step: Step, fence: int) -> Act | None:
        """Allows an act that is over before anybody else can hold the lease."""
        left = self._lease.remaining() - MARGIN
        if self._lease.fence() != fence or left < LEAST_TIMEOUT:
            return None
        return Act(step.id, fence, min(gear.policy.shift.act_timeout, left))

    def _around(self, gear: Gear) -> Circumstances:
        box, around = self._ballots(), gear.around()
        return replace(
            around,
            frozen=self._frozen() or around.frozen,
            fingerprint=box.fingerprint,
            model=box.model,
        )

    def _apply(self, gear: Gear, event: Event, *, taken: tuple[str, ...] = ()) -> None:
        """Takes in an event; what it changes is stored before it holds."""
        before, now = self._state, self._moment()
        transition = advance(before, event, gear.policy, self._around(gear), now)
        after = transition.state
        rows = _rows(before, after, event, now)
        changed = before.phase is not after.phase or before.plan != after.plan
        stale = self._clock.monotonic() - self._saved_at >= SAVE_SECONDS
        if transition.news or rows or taken or changed or (stale and not self.is_quiet):
            plan = after.plan or (before.plan if after.phase is not Phase.ARMED else None)
            record = Record(
                service=self.service,
                state=after.to_json(),
                phase=after.phase.value,
                plan=None if plan is None else plan.id,
                steps=rows,
                news=transition.news,
                taken=taken,
            )
            if self._fence is None:
                raise LeaseError("the lease was lost in mid-turn")
            self._journal.save(record, self._fence)
            self._saved_at = self._clock.monotonic()
        self._state = after
        if before.phase is not after.phase:
            _log.info("a rollback goes on", service=self.service, phase=after.phase.value)
            self._look_at = self._clock.monotonic()

    def _moment(self) -> float:
        """The time of an event: no two have the same, so that their order can be read later."""
        now, last = self._now(), self._state.at
        return last + 0.001 if now <= last < now + 1.0 else now


def _rows(before: State, after: State, event: Event, now: float) -> tuple[StepRow, ...]:
    """The rows of the acts that an event begins, tries again or ends."""
    rows: list[StepRow] = []
    old, new = before.step, after.step
    if old is not None and before.plan is not None:
        status, attempts, detail = "", before.tries, ""
        if isinstance(event, Acted) and event.step == old.id:
            status = "done" if event.ok else "failed" if new != old else "intended"
            attempts, detail = before.tries + 1, event.detail
        elif new != old:
            status, detail = "failed", "given up for another act"
        if status:
            row = StepRow(old.id, before.plan.id, old.do, old.share, now, status, attempts, detail)
            rows.append(row)
    if new is not None and new != old and after.plan is not None:
        rows.append(StepRow(new.id, after.plan.id, new.do, new.share, now, "intended"))
    return tuple(rows)
