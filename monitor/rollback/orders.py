"""What an order of an operator leads to, in each phase."""

from __future__ import annotations

from dataclasses import replace

from monitor.health import words
from monitor.rollback.ballots import Opinion, is_same_side
from monitor.rollback.model import Command, Kind, Order, Phase
from monitor.rollback.moving import begin_trial
from monitor.rollback.scene import (
    Scene,
    Transition,
    end,
    enter,
    hold,
    retreat,
    tell,
    undo,
)
from monitor.rollback.settings import Mode
from monitor.rollback.state import Plan, State
from monitor.rollback.waiting import begin, ordered_mode, start


def refuse(scene: Scene, command: Command, why: str) -> Transition:
    """Changes nothing, and says why."""
    sentence = f"'{command.order} {command.service}' was refused: {why}"
    return tell(scene, scene.state, Kind.REFUSED, sentence, who=command.who)


def refusal(scene: Scene, command: Command) -> Transition | None:
    """Refuses to move traffic where that cannot be, or where nobody may think of it any more.

    An order waits in the database while no daemon runs. To abort is never too late.
    """
    age, limit = scene.now - command.at, scene.policy.limits.approval
    if command.order in {Order.RUN, Order.APPROVE} and scene.around.lacks:
        return refuse(scene, command, f"nothing can be moved: {scene.around.lacks}")
    if command.order not in {Order.RUN, Order.REARM} or age < limit:
        return None
    return refuse(scene, command, f"it was given {words.duration(age)} ago; give it again")


def _is_other_plan(scene: Scene, command: Command) -> bool:
    plan = scene.state.plan
    return command.plan is not None and (plan is None or plan.id != command.plan)


# -- approve ---------------------------------------------------------------------------------


def approve(scene: Scene, command: Command) -> Transition:
    """Lets a proposal go on, if it is the one the operator has seen and neither is stale."""
    plan, limit = scene.plan, scene.policy.limits.approval
    if _is_other_plan(scene, command):
        return refuse(scene, command, f"it is about {command.plan}, and {plan.id} is proposed")
    if plan.mode is Mode.OBSERVE:
        why = "the mode is observe; 'monitor rollback run' does it all the same"
        return refuse(scene, command, why)
    if max(scene.now - plan.at, scene.now - command.at, scene.state.watched) >= limit:
        return refuse(scene, command, "the proposal is too old, wait for the next one")
    return _go_on(scene, replace(plan, who=command.who, approved_at=scene.now))


def _go_on(scene: Scene, plan: Plan) -> Transition:
    ready = scene.with_state(replace(scene.state, plan=plan))
    sentence = f"{plan.id} was approved by {plan.who}: {plan.why}"
    return start(ready, Kind.APPROVED, sentence, plan.who, {})


def nothing_proposed(scene: Scene, command: Command) -> Transition:
    """There is no proposal to approve of."""
    return refuse(scene, command, f"nothing is proposed, the rollback is {scene.state.phase}")


# -- run -------------------------------------------------------------------------------------


def run(scene: Scene, command: Command) -> Transition:
    """Starts a plan without votes; the baseline side must pass its check all the same."""
    return begin(scene, Opinion(why=f"{command.who} asks for it"), who=command.who)


def run_proposed(scene: Scene, command: Command) -> Transition:
    """An order stands above the mode and above the age of the proposal."""
    if _is_other_plan(scene, command):
        return refuse(scene, command, f"{scene.plan.id} is proposed, not {command.plan}")
    return _go_on(scene, _ordered(scene, command))


def _ordered(scene: Scene, command: Command) -> Plan:
    """The plan in progress, which needs no votes from now on."""
    return replace(
        scene.plan, mode=ordered_mode(scene.plan.mode), who=command.who,
        approved_at=scene.now, is_automatic=False, is_exempt=True,
    )  # fmt: skip


def run_blocked(scene: Scene, command: Command) -> Transition:
    """Looks at the baseline side again at once."""
    sentence = f"{command.who} has the baseline side looked at again"
    state = enter(scene, Phase.CHECKING, plan=_ordered(scene, command))
    return tell(scene, state, Kind.STARTED, sentence, who=command.who)


def run_held(scene: Scene, command: Command) -> Transition:
    """Goes on from where traffic is, after another check."""
    steps = tuple(share for share in scene.policy.shift.steps if share > scene.state.share)
    path = steps or scene.policy.shift.steps[-1:]
    plan = replace(
        _ordered(scene, command), path=path, leg=0, is_back=False, trial_at=None,
        is_checked=False,
    )  # fmt: skip
    state = enter(scene, Phase.CHECKING, plan=plan, misses=0, is_cornered=False)
    sentence = f"{command.who} lets it go on: {scene.state.why}"
    return tell(scene, state, Kind.STARTED, sentence, who=command.who)


def in_progress(scene: Scene, command: Command) -> Transition:
    """A plan is in progress already."""
    return refuse(scene, command, f"{scene.plan.id} is in progress, it is {scene.state.phase}")


def run_done(scene: Scene, command: Command) -> Transition:
    """Moves the rest, if there is one."""
    left = scene.policy.shift.steps[-1] - scene.state.share
    if left > scene.policy.shift.tolerance:
        part = words.percent(scene.state.share)
        said = f"the baseline side has {part} so far"
        return run_held(scene.with_state(replace(scene.state, why=said)), command)
    return refuse(scene, command, f"{scene.plan.id} is done: the baseline side serves")


# -- abort -----------------------------------------------------------------------------------


def nothing_to_abort(scene: Scene, command: Command) -> Transition:
    """Nothing is in progress, and nothing happens."""
    return refuse(scene, command, f"nothing is in progress, the rollback is {scene.state.phase}")


def abort(scene: Scene, command: Command) -> Transition:
    """Ends the plan: what it has moved is taken back, if that side answers."""
    if _is_other_plan(scene, command):
        return refuse(scene, command, f"{scene.plan.id} is in progress, not {command.plan}")
    s, why = scene.state, f"aborted by {command.who}"
    if s.plan is not None and s.plan.is_back:
        return _abort_trial(scene, command, why)
    if not s.is_moved:
        state = end(scene, Phase.ABORTED, why=why)
        sentence = (
            f"Aborted by {command.who}; nothing was moved, and nothing happens until"
            f" 'monitor rollback rearm {s.service}'"
        )
        return tell(scene, state, Kind.ABORTED, sentence, who=command.who)
    if not scene.is_speculative_alive:
        why += ", but the speculative side does not answer"
        sentence = f"Held where it is: {why}"
        state = hold(scene, why)
        return tell(scene, state, Kind.HELD, sentence, who=command.who, pages=True)
    state = undo(scene, why, ends=Phase.ABORTED)
    sentence = f"Aborted by {command.who}: traffic is taken back"
    return tell(scene, state, Kind.STEP, sentence, who=command.who)


def _abort_trial(scene: Scene, command: Command, why: str) -> Transition:
    """The way back ends where it began: on the baseline side."""
    if scene.state.share == scene.plan.top and scene.state.step is None:
        state: State = enter(scene, Phase.DONE, plan=replace(scene.plan, is_back=False), why=why)
        sentence = f"The trial was {why}; nothing was moved"
    else:
        # Nothing was found against the side that was tried, so that it may be tried again.
        blameless = replace(scene.state, plan=replace(scene.plan, fingerprint=""))
        state = retreat(scene.with_state(blameless), why)
        sentence = f"The trial was {why}: the baseline side serves again"
    return tell(scene, state, Kind.ABORTED, sentence, who=command.who)


def abort_undoing(scene: Scene, command: Command) -> Transition:
    """It is being taken back already; afterwards it stays off."""
    state = replace(scene.state, ends=Phase.ABORTED)
    sentence = f"Aborted by {command.who}: traffic is being taken back already"
    return tell(scene, state, Kind.STEP, sentence, who=command.who)


# -- rearm -----------------------------------------------------------------------------------


def rearm_idle(scene: Scene, command: Command) -> Transition:
    """Ends the rest after a plan that came to nothing."""
    state = enter(scene, Phase.ARMED, ended_at=None, why="")
    sentence = f"Re-armed by {command.who}"
    return tell(scene, state, Kind.REARMED, sentence, who=command.who)


def rearm_armed(scene: Scene, command: Command) -> Transition:
    """It is armed already."""
    return refuse(scene, command, "it is armed")


def rearm_done(scene: Scene, command: Command) -> Transition:
    """Tries the speculative side again, unless it is the very one that was rejected."""
    s = scene.state
    if scene.brake is not None:
        return refuse(scene, command, f"nothing may be tried now: {scene.brake}")
    past = next((r for r in s.rejected if is_same_side(r.fingerprint, s.fingerprint)), None)
    if past is not None and not command.force:
        why = (
            f"the speculative side is still the one that was rejected by {past.plan}"
            f" ({past.fingerprint}); --force tries it all the same"
        )
        return refuse(scene, command, why)
    state = begin_trial(scene, command.who)
    sentence = f"Re-armed by {command.who}: the speculative side is checked for a trial"
    return tell(scene, state, Kind.REARMED, sentence, who=command.who)


def rearm_held(scene: Scene, command: Command) -> Transition:
    """From where a person was called: a trial, whatever was rejected."""
    free = scene.with_state(replace(scene.state, is_cornered=False))
    return rearm_done(free, replace(command, force=True))
