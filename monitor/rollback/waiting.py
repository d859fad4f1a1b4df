"""What a look leads to before anything is done: votes, proposals, and waiting for a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from monitor.health import words
from monitor.rollback.ballots import Opinion
from monitor.rollback.model import Kind, Phase
from monitor.rollback.scene import (
    Looked,
    Scene,
    Transition,
    end,
    enter,
    stay,
    tell,
)
from monitor.rollback.settings import Cure, Mode, Policy
from monitor.rollback.state import Plan

DAY = 86_400.0


# -- before a plan ---------------------------------------------------------------------------


def armed(scene: Scene, event: Looked) -> Transition:
    """Begins a plan where the windows ask for one and nothing holds it back."""
    opinion = scene.opinion(event.box)
    if opinion.cure is Cure.NOTHING or opinion.is_flapping or obstacle(scene):
        return stay(scene)
    recent = tuple(at for at in scene.state.plans if scene.now - at < DAY)
    begun = replace(scene.state, plans=(*recent, scene.now))
    return begin(scene.with_state(begun), opinion, who=None)


def failed(scene: Scene, event: Looked) -> Transition:
    """Arms itself again once the cooldown is over."""
    ended = scene.state.ended_at
    if ended is not None and scene.now - ended < scene.policy.limits.cooldown:
        return stay(scene)
    return armed(scene.with_state(enter(scene, Phase.ARMED, why="")), event)


def obstacle(scene: Scene) -> str:
    """What keeps a plan from starting by itself, in words; nothing if it may."""
    s, limits = scene.state, scene.policy.limits
    if scene.pause is not None:
        return scene.pause
    left = 0.0 if s.ended_at is None else limits.cooldown - (scene.now - s.ended_at)
    if left > 0.0:
        return f"cooling down for another {words.duration(left)}"
    today = [at for at in s.plans if scene.now - at < DAY]
    if len(today) >= limits.per_day:
        return f"{words.number(len(today), 'plan')} within a day, {limits.per_day} may start"
    return ""


def begin(scene: Scene, opinion: Opinion, *, who: str | None) -> Transition:
    """A new plan: proposed, or started where that is allowed."""
    s, policy = scene.state, scene.policy
    mode = _mode(policy, scene.now) if who is None else ordered_mode(policy.mode)
    serial = max(int(scene.now), s.serial + 1)
    cure = _cure(scene, opinion)
    plan = Plan(
        id=f"{s.service}-{serial}",
        at=scene.now,
        mode=mode,
        cure=cure,
        why=opinion.why or "no vote asks for it",
        cause=None if opinion.cause is None else opinion.cause.value,
        fingerprint=s.fingerprint if who is None else "",
        model=policy.precheck.model or s.model,
        path=path(policy, cure, opinion),
        who=who,
        approved_at=None if who is None else scene.now,
        is_automatic=who is None,
        is_exempt=who is not None,
    )
    state = enter(scene, Phase.PROPOSED, plan=plan, steps=0, serial=serial, why="")
    begun = scene.with_state(state)
    evidence = {"windows": opinion.windows}
    if who is not None or mode is Mode.ACT:
        return start(begun, Kind.STARTED, f"{intent(plan)}: {plan.why}", who, evidence)
    sentence = f"{intent(plan)} {_asks(policy, s.service)}: {plan.why}"
    return tell(
        begun, state, Kind.PROPOSED, sentence, pages=mode is Mode.PROPOSE, evidence=evidence
    )


def _asks(policy: Policy, service: str) -> str:
    if policy.mode is Mode.OBSERVE:
        return "would begin now, but the mode is observe"
    until = words.duration(policy.limits.approval)
    quiet = " in quiet hours" if policy.mode is Mode.ACT else ""
    return f"waits for 'monitor rollback approve {service}'{quiet} (void after {until})"


def start(
    scene: Scene, kind: Kind, sentence: str, who: str | None, evidence: Mapping[str, Any]
) -> Transition:
    """Leaves the proposal: to the check of the baseline side, or to a restart."""
    restarts = scene.plan.cure is Cure.RESTART
    state = enter(scene, Phase.RESTARTING if restarts else Phase.CHECKING)
    if scene.pause is not None:
        sentence += f"; nothing moves yet: {scene.pause}"
    return tell(scene, state, kind, sentence, who=who, evidence=evidence)


def _mode(policy: Policy, now: float) -> Mode:
    quiet = any(hours.covers(now) for hours in policy.limits.quiet)
    return Mode.PROPOSE if quiet and policy.mode is Mode.ACT else policy.mode


def ordered_mode(mode: Mode) -> Mode:
    """The mode of a plan that a person wants: what really moves is no longer only observed."""
    return Mode.PROPOSE if mode is Mode.OBSERVE else mode


def _cure(scene: Scene, opinion: Opinion) -> Cure:
    wanted = Cure.ROLL_BACK if opinion.cure is Cure.NOTHING else opinion.cure
    if wanted is Cure.RESTART:
        last = scene.state.restarted_at
        again = last is not None and scene.now - last < DAY
        return Cure.ROLL_BACK if again or not scene.policy.start.can_restart else Cure.RESTART
    if wanted is Cure.SHIFT_ABOVE and not _surplus(scene.policy, opinion):
        return Cure.ROLL_BACK
    return wanted


def _surplus(policy: Policy, opinion: Opinion) -> float:
    """Share of the load beyond what the speculative side is to keep."""
    limit, running = policy.voting.running_limit, opinion.running
    return 0.0 if limit is None or not running else max(1.0 - limit / running, 0.0)


def path(policy: Policy, cure: Cure, opinion: Opinion) -> tuple[float, ...]:
    """The shares that are set one after the other."""
    steps = policy.shift.steps
    if cure is not Cure.SHIFT_ABOVE:
        return steps
    surplus = _surplus(policy, opinion)
    enough = next((n for n, share in enumerate(steps) if share >= surplus), len(steps) - 1)
    return steps[: enough + 1]


def intent(plan: Plan) -> str:
    """What a plan is about to do, as the beginning of a sentence."""
    if plan.cure is Cure.RESTART:
        return "Restart of the speculative side"
    share = words.percent(plan.path[-1]) if plan.path else "nothing"
    return f"Rollback of {share} of the traffic to the baseline side"


# -- while a plan waits ----------------------------------------------------------------------


def proposed(scene: Scene, event: Looked) -> Transition:
    """Waits for approval, and not for ever."""
    gone = withdrawn(scene, event)
    if gone is not None:
        return gone
    limits, plan = scene.policy.limits, scene.plan
    if max(scene.now - plan.at, scene.state.watched) < limits.approval:
        return stay(scene)
    said = f"Nobody approved within {words.duration(limits.approval)}"
    if plan.mode is Mode.OBSERVE:
        said = "Nothing was done, as the mode is observe"
    return tell(scene, end(scene, Phase.ARMED), Kind.EXPIRED, f"{said}: {plan.why}")


_WAITING = frozenset({Phase.PROPOSED, Phase.CHECKING, Phase.BLOCKED, Phase.RESTARTING})


def overruled(scene: Scene) -> Transition | None:
    """Holds a plan that began by itself, and has done nothing yet, to the mode of now."""
    s, plan, policy = scene.state, scene.state.plan, scene.policy
    if plan is None or plan.who is not None or s.phase not in _WAITING or s.is_moved:
        return None
    mode = _mode(policy, scene.now)
    acts_now = s.phase is Phase.RESTARTING and s.steps > 0
    if acts_now or mode is plan.mode or (mode is Mode.ACT and plan.mode is Mode.PROPOSE):
        return None
    if Mode.OBSERVE in {mode, plan.mode}:
        # What was only observed holds nothing back that is meant.
        was = {"ended_at": s.ended_at} if mode is Mode.OBSERVE else {"ended_at": None, "plans": ()}
        sentence = f"Nothing was moved: the mode is {mode.value} now"
        return tell(scene, end(scene, Phase.ARMED, **was), Kind.WITHDRAWN, sentence)
    waits = replace(plan, mode=mode, at=scene.now)
    sentence = f"{intent(waits)} {_asks(policy, s.service)}: {plan.why}"
    state = enter(scene, Phase.PROPOSED, plan=waits)
    return tell(scene, state, Kind.PROPOSED, sentence, pages=True)


def blocked(scene: Scene, event: Looked) -> Transition:
    """Looks again at a baseline side that could not take traffic, as long as it is wanted."""
    gone = withdrawn(scene, event) or void(scene)
    if gone is not None:
        return gone
    wanted = stands(scene, event)
    if scene.pause is None and wanted and scene.state.watched >= scene.policy.precheck.again:
        return Transition(enter(scene, Phase.CHECKING))
    return stay(scene)


def withdrawn(scene: Scene, event: Looked) -> Transition | None:
    """Ends a plan that has moved nothing once the speculative side is well again."""
    opinion = scene.opinion(event.box)
    if not scene.plan.is_automatic or not opinion.is_well or scene.state.is_moved:
        return None
    state = end(scene, Phase.ARMED, ended_at=scene.state.ended_at)
    needed = scene.policy.voting.needed
    sentence = (
        f"Nothing was moved: the last {words.number(needed, 'window')} show no loss any more"
    )
    return tell(scene, state, Kind.WITHDRAWN, sentence, evidence={"windows": opinion.windows})


def void(scene: Scene) -> Transition | None:
    """Ends a plan that waits, and was wanted so long ago that nobody may remember it."""
    approved, limit = scene.plan.approved_at, scene.policy.limits.approval
    if approved is None or scene.now - approved < limit or scene.state.is_moved:
        return None
    what = "approval" if scene.plan.is_automatic else "order"
    sentence = (
        f"The {what} is older than {words.duration(limit)} and void; nothing was moved,"
        f" because {scene.pause or scene.state.why}"
    )
    return tell(scene, end(scene, Phase.FAILED), Kind.EXPIRED, sentence)


def stands(scene: Scene, event: Looked) -> bool:
    """Whether the reason for the plan still holds; an operator's order needs none."""
    plan = scene.plan
    return not plan.is_automatic or scene.opinion(event.box).cure is not Cure.NOTHING
