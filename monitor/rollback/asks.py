"""What each phase wants to be looked at, how often, and whether its act may be done now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from monitor.rollback.evidence import Circumstances
from monitor.rollback.model import Do, Phase
from monitor.rollback.settings import Policy
from monitor.rollback.state import State


@dataclass(frozen=True, slots=True)
class Asks:
    """What one look has to see."""

    baseline: bool = False
    speculative: bool = False
    traffic: bool = False
    progress: bool = False
    """Signs of life of the side that loads."""


EVERYTHING = Asks(baseline=True, speculative=True, traffic=True)
_BY_PHASE = {
    Phase.CHECKING: EVERYTHING,
    Phase.STARTING: Asks(baseline=True, progress=True),
    Phase.RESTARTING: Asks(speculative=True, progress=True),
}
_PACES = {
    Phase.STARTING: 15.0,
    Phase.RESTARTING: 15.0,
    Phase.DONE: 60.0,
    Phase.HELD: 30.0,
}
ACTIVE_PACE, IDLE_PACE = 10.0, 5.0
"""Seconds from one look to the next while a plan is in progress, and while none is."""
QUIET = frozenset({Phase.ARMED, Phase.PROPOSED, Phase.BLOCKED, Phase.FAILED, Phase.ABORTED})
"""Phases in which neither servers nor routers are asked for anything."""


def asks(state: State) -> Asks:
    """What to look at. Wherever traffic was moved, everything is watched."""
    if state.is_moved:
        return EVERYTHING
    return _BY_PHASE.get(state.phase, Asks())


def pace(state: State, policy: Policy) -> float:
    """Seconds until the next look."""
    if state.phase in QUIET:
        return IDLE_PACE
    if state.phase is Phase.CHECKING:
        return max(policy.precheck.pause, 1.0)
    if state.misses > 0:
        # Something is wrong: no time to lose.
        return ACTIVE_PACE
    return _PACES.get(state.phase, ACTIVE_PACE)


def may_act(state: State, around: Circumstances) -> bool:
    """Whether the outstanding act may be done now. What takes traffic back always may."""
    if state.step is None:
        return False
    is_paused = around.frozen is not None or around.held is not None
    is_exempt = state.plan is not None and state.plan.is_exempt
    back = state.phase is Phase.UNDOING or state.step.do is Do.START
    return not is_paused or is_exempt or back


def attainable(policy: Policy, reachable: Callable[[Sequence[float]], Sequence[float]]) -> Policy:
    """The policy with shares that the router can really set, by ``Actuator.reachable``."""
    steps = tuple(share for share in reachable(policy.shift.steps) if share > 0.0)
    first = [s for s in (*reachable((1.0 - policy.trial.share,)), *steps) if 0.0 < s < 1.0]
    # Where it is all or nothing, the trial has all.
    trial = 1.0 - max(first, default=0.0)
    return replace(
        policy,
        shift=replace(policy.shift, steps=steps),
        trial=replace(policy.trial, share=trial),
    )
