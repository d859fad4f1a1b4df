"""The state machine of one service's rollback, as a table: each phase, each kind of event.

    armed → proposed → checking → shifting ⇄ holding → verifying → done
              │          ⇅   ↘                  │                    │ rearm
              │       blocked starting          ▼                    ▼
              ▼          │                   undoing → failed     checking → returning ⇄ trial
            armed ←──────┘                      ╰────→ aborted       │             │      │
                                             held (a person decides) ╰→ done ←─────┴──────╯→ armed

Pure: ``now`` is an argument, and what is to be done is a value in the state. One rule, the stop-
loss, is applied before the table, in each phase that has moved traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from monitor.rollback import acts, checking, loading, moving, orders, waiting
from monitor.rollback.evidence import Circumstances, known_share, tidy_sight
from monitor.rollback.model import Order, Phase
from monitor.rollback.scene import Acted, Event, Looked, Scene, Transition
from monitor.rollback.settings import Policy
from monitor.rollback.state import State

GAP = 60.0
"""Most seconds that may count as watched between two events."""
LOOKED, ACTED = "looked", "acted"
KINDS = (LOOKED, ACTED, *Order)

Rule = Callable[[Scene, Any], Transition]

_LOOKS: Mapping[Phase, Rule] = {
    Phase.ARMED: waiting.armed,
    Phase.PROPOSED: waiting.proposed,
    Phase.CHECKING: checking.checking,
    Phase.BLOCKED: waiting.blocked,
    Phase.STARTING: loading.starting,
    Phase.RESTARTING: loading.restarting,
    Phase.SHIFTING: moving.shifting,
    Phase.HOLDING: moving.holding,
    Phase.VERIFYING: moving.holding,
    Phase.DONE: moving.done,
    Phase.RETURNING: moving.outstanding,
    Phase.TRIAL: moving.trial,
    Phase.UNDOING: moving.outstanding,
    Phase.FAILED: waiting.failed,
    Phase.ABORTED: moving.outstanding,
    Phase.HELD: moving.held,
}
_RUNS: Mapping[Phase, Rule] = {
    Phase.ARMED: orders.run,
    Phase.PROPOSED: orders.run_proposed,
    Phase.BLOCKED: orders.run_blocked,
    Phase.DONE: orders.run_done,
    Phase.FAILED: orders.run,
    Phase.ABORTED: orders.run,
    Phase.HELD: orders.run_held,
}
_ABORTS: Mapping[Phase, Rule] = {
    Phase.ARMED: orders.nothing_to_abort,
    Phase.FAILED: orders.nothing_to_abort,
    Phase.ABORTED: orders.nothing_to_abort,
    Phase.UNDOING: orders.abort_undoing,
}
_REARMS: Mapping[Phase, Rule] = {
    Phase.ARMED: orders.rearm_armed,
    Phase.DONE: orders.rearm_done,
    Phase.FAILED: orders.rearm_idle,
    Phase.ABORTED: orders.rearm_idle,
    Phase.HELD: orders.rearm_held,
}

TABLE: Mapping[tuple[Phase, str], Rule] = {
    **{(phase, LOOKED): rule for phase, rule in _LOOKS.items()},
    **{(phase, ACTED): acts.acted for phase in Phase},
    **{
        (phase, Order.APPROVE): orders.approve
        if phase is Phase.PROPOSED
        else orders.nothing_proposed
        for phase in Phase
    },
    **{(phase, Order.RUN): _RUNS.get(phase, orders.in_progress) for phase in Phase},
    **{(phase, Order.ABORT): _ABORTS.get(phase, orders.abort) for phase in Phase},
    **{(phase, Order.REARM): _REARMS.get(phase, orders.in_progress) for phase in Phase},
}


def step(
    state: State, event: Event, policy: Policy, around: Circumstances, now: float
) -> Transition:
    """Takes in one event.

    Args:
        state: as the step before returned it, or ``State(service)`` of a new service.
        event: what happened.
        policy: the policy of the service.
        around: what else holds.
        now: the time of the event, UTC.

    Returns:
        The state to keep, with the act that is outstanding in it, and what to tell.
    """
    scene = Scene(_pass(state, around, now), policy, around, now)
    if isinstance(event, Acted):
        event = replace(event, share=known_share(event.share))
        return TABLE[state.phase, ACTED](scene, event)
    if not isinstance(event, Looked):
        refusal = orders.refusal(scene, event)
        return refusal if refusal is not None else TABLE[state.phase, event.order](scene, event)
    event = replace(event, sight=tidy_sight(event.sight))
    scene = scene.with_state(moving.count_misses(scene, event))
    first = moving.stop_loss(scene, event) or waiting.overruled(scene)
    return first if first is not None else TABLE[state.phase, LOOKED](scene, event)


def _pass(state: State, around: Circumstances, now: float) -> State:
    """The state at ``now``. A clock that was set back makes what is past begin now."""
    seconds = min(max(now - state.at, 0.0), GAP) if state.at else 0.0
    return replace(
        state,
        at=now,
        fingerprint=around.fingerprint or state.fingerprint,
        model=around.model or state.model,
        since=min(state.since, now),
        watched=state.watched + seconds,
        blind=state.blind + seconds,
        stuck=state.stuck + seconds,
        ended_at=None if state.ended_at is None else min(state.ended_at, now),
        restarted_at=None if state.restarted_at is None else min(state.restarted_at, now),
        plans=tuple(min(at, now) for at in state.plans),
    )
