"""What a look leads to while no traffic has been moved: from the vote to the passed check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from monitor.health import words
from monitor.rollback.ballots import Opinion
from monitor.rollback.evidence import Side
from monitor.rollback.judge import check, has_restarted, is_up, load, tpot
from monitor.rollback.model import Do, Kind, Phase
from monitor.rollback.scene import (
    Looked,
    Scene,
    Transition,
    act,
    end,
    enter,
    next_leg,
    seen,
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
    mode = _mode(policy, scene.now) if who is None else policy.mode
    serial = max(int(scene.now), s.serial + 1)
    cure = _cure(scene, opinion)
    plan = Plan(
        id=f"{s.service}-{serial}",
        at=scene.now,
        mode=mode,
        cure=cure,
        why=opinion.why or "no vote asks for it",
        cause=None if opinion.cause is None else opinion.cause.value,
        fingerprint=s.fingerprint,
        model=policy.precheck.model or s.model,
        path=path(policy, cure, opinion),
        who=who,
        is_automatic=who is None,
    )
    state = enter(scene, Phase.PROPOSED, plan=plan, steps=0, serial=serial, why="")
    begun = scene.with_state(state)
    evidence = {"windows": opinion.windows}
    if who is not None or mode is Mode.ACT:
        return start(begun, Kind.STARTED, f"{_intent(plan)}: {plan.why}", who, evidence)
    asks = {
        Mode.OBSERVE: "would now be done, but the mode is observe",
        Mode.PROPOSE: f"waits for 'monitor rollback approve {s.service}'",
        Mode.ACT: "",
    }[policy.mode] or f"waits for 'monitor rollback approve {s.service}' in quiet hours"
    expires = words.duration(policy.limits.approval)
    sentence = f"{_intent(plan)} {asks} (void after {expires}): {plan.why}"
    return tell(
        begun, state, Kind.PROPOSED, sentence, pages=mode is Mode.PROPOSE, evidence=evidence
    )


def start(
    scene: Scene, kind: Kind, sentence: str, who: str | None, evidence: Mapping[str, Any]
) -> Transition:
    """Leaves the proposal: to the check of the baseline side, or to a restart."""
    restarts = scene.plan.cure is Cure.RESTART
    state = enter(scene, Phase.RESTARTING if restarts else Phase.CHECKING)
    return tell(scene, state, kind, sentence, who=who, evidence=evidence)


def _mode(policy: Policy, now: float) -> Mode:
    quiet = any(hours.covers(now) for hours in policy.limits.quiet)
    return Mode.PROPOSE if quiet and policy.mode is Mode.ACT else policy.mode


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


def _intent(plan: Plan) -> str:
    if plan.cure is Cure.RESTART:
        return "Restart of the speculative side"
    share = words.percent(plan.path[-1]) if plan.path else "nothing"
    return f"Rollback of {share} of the traffic to the baseline side"


# -- while a plan waits ----------------------------------------------------------------------


def proposed(scene: Scene, event: Looked) -> Transition:
    """Waits for approval, and not for ever."""
    gone = _withdrawn(scene, event)
    if gone is not None:
        return gone
    limits, plan = scene.policy.limits, scene.plan
    if max(scene.now - plan.at, scene.state.watched) < limits.approval:
        return stay(scene)
    said = f"Nobody approved within {words.duration(limits.approval)}"
    if plan.mode is Mode.OBSERVE:
        said = "Nothing was done, as the mode is observe"
    return tell(scene, end(scene, Phase.ARMED), Kind.EXPIRED, f"{said}: {plan.why}")


def blocked(scene: Scene, event: Looked) -> Transition:
    """Looks again at a baseline side that could not take traffic, as long as it is wanted."""
    gone = _withdrawn(scene, event) or _void(scene)
    if gone is not None:
        return gone
    wanted = _stands(scene, event)
    if scene.pause is None and wanted and scene.state.watched >= scene.policy.precheck.again:
        return Transition(enter(scene, Phase.CHECKING))
    return stay(scene)


def _withdrawn(scene: Scene, event: Looked) -> Transition | None:
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


def _void(scene: Scene) -> Transition | None:
    """Ends a plan whose approval is so old that nobody may remember it."""
    approved, limit = scene.plan.approved_at, scene.policy.limits.approval
    waits = scene.state.phase is Phase.BLOCKED
    if approved is None or not waits or scene.now - approved < limit or scene.state.is_moved:
        return None
    sentence = (
        f"The approval is older than {words.duration(limit)} and void; nothing was moved,"
        f" because {scene.state.why}"
    )
    return tell(scene, end(scene, Phase.FAILED), Kind.EXPIRED, sentence)


def _stands(scene: Scene, event: Looked) -> bool:
    """Whether the reason for the plan still holds; an operator's order needs none."""
    plan = scene.plan
    return not plan.is_automatic or scene.opinion(event.box).cure is not Cure.NOTHING


# -- the check -------------------------------------------------------------------------------


def checking(scene: Scene, event: Looked) -> Transition:
    """Two looks at the side that is to get traffic, and the first step if it has passed."""
    if scene.pause is not None:
        # What was seen before the pause says nothing about the time after it.
        return stay(scene, baseline=Side(), speculative=Side(), watched=0.0)
    gone = None if scene.plan.is_back else _withdrawn(scene, event)
    return gone if gone is not None else _compare(scene, event)


def _compare(scene: Scene, event: Looked) -> Transition:
    s, plan = scene.state, scene.plan
    first, now = (
        (s.speculative, event.sight.speculative)
        if plan.is_back
        else (s.baseline, event.sight.baseline)
    )
    looked = {"baseline": event.sight.baseline, "speculative": event.sight.speculative}
    if not now.completions and not now.pulses:
        return _too_late(scene, event, "it could not be looked at")
    if not first.completions or _is_later(first, now):
        return stay(scene, **looked)
    precheck, model = scene.policy.precheck, plan.model
    if plan.is_back:
        # How much the speculative side bears is not configured: it has borne all of it. And
        # what a fix has put there may have another name.
        precheck, model = replace(precheck, max_running=None), None
    finding = check(first, now, _need(scene, event), model, precheck)
    if finding.ok:
        return _passed(scene, event, finding.sentence)
    if finding.ok is None:
        return _too_late(scene, event, finding.sentence)
    if finding.absent and scene.policy.start.can_start and not (plan.is_started or plan.is_back):
        return _start_baseline(scene, event, finding.sentence)
    return _too_late(scene, event, finding.sentence, **looked)


def _is_later(first: Side, now: Side) -> bool:
    """Whether a clock that was set back lies between two looks."""
    times = [side.completions[0].at for side in (first, now) if side.completions]
    return times != sorted(times)


def _need(scene: Scene, event: Looked) -> float | None:
    """Running requests that the baseline side will get by the end of the path."""
    sight, plan = event.sight, scene.plan
    giving = sight.baseline if plan.is_back else sight.speculative
    running = load(giving)
    if running is None and not plan.is_back:
        running = scene.opinion(event.box).running
    return None if running is None or not plan.path else running * plan.path[-1]


def _passed(scene: Scene, event: Looked, sentence: str) -> Transition:
    s, plan, sight = scene.state, scene.plan, event.sight
    if not plan.is_back and not s.is_moved:
        if not _stands(scene, event):
            # No traffic moves on windows of the past; the check is repeated until they speak.
            return _faded(scene, event)
        origin = sight.share if sight.share is not None else 0.0
        scene = scene.with_state(replace(s, share=origin, origin=origin))
    ahead = scene.policy.shift.tolerance
    shares = plan.path
    if not plan.is_back:
        shares = tuple(share for share in shares if share > scene.state.share + ahead)
    if not shares:
        where = sight.detail or words.percent(scene.state.share)
        said = f"Nothing to move: the baseline side already has its share ({where})"
        return tell(scene, end(scene, Phase.FAILED), Kind.FAILED, said)
    speed = tpot(s.speculative, sight.speculative, scene.policy.verify.least_tokens)
    ready = replace(plan, path=shares, leg=0, is_checked=True)
    kept = {} if plan.is_back or s.speed is not None else {"speed": speed}
    state = next_leg(scene, plan=ready, misses=0, fault="", why="", **kept)
    side = "speculative" if plan.is_back else "baseline"
    share = 1.0 - shares[0] if plan.is_back else shares[0]
    said = f"The {side} side has passed its check and gets {words.percent(share)}: {sentence}"
    return tell(scene, state, Kind.STEP, said, evidence=seen(event, scene.opinion(event.box)))


def _faded(scene: Scene, event: Looked) -> Transition:
    opinion, within = scene.opinion(event.box), scene.policy.voting.within
    if opinion.counted and scene.state.watched < within:
        return stay(scene)
    state = end(scene, Phase.ARMED, ended_at=scene.state.ended_at)
    said = f"Nothing was moved: no valid window of the last {words.duration(within)} asks for it"
    return tell(scene, state, Kind.WITHDRAWN, said)


def _too_late(scene: Scene, event: Looked, sentence: str, **looked: Side) -> Transition:
    """Lets the check go on until its deadline; then nothing is moved, and a person is told."""
    if scene.state.watched < scene.policy.precheck.deadline:
        return stay(scene, **looked)
    plan, evidence = scene.plan, seen(event)
    if plan.is_back:
        # The traffic stays where it is, and nobody is hurt.
        state = enter(scene, Phase.DONE, plan=replace(plan, is_back=False), why=sentence)
        said = f"No trial: the speculative side {sentence}"
        return tell(scene, state, Kind.REFUSED, said, evidence=evidence)
    if scene.state.is_moved:
        state = enter(scene, Phase.HELD, why=sentence)
        said = f"Held where it is: the baseline side cannot take more: {sentence}"
        return tell(scene, state, Kind.HELD, said, pages=True, evidence=evidence)
    state = enter(scene, Phase.BLOCKED, plan=replace(plan, is_blocked=True), why=sentence)
    if plan.is_blocked:
        return Transition(state)
    again = words.duration(scene.policy.precheck.again)
    said = f"Nothing was moved: no healthy baseline side: {sentence}; looked at again in {again}"
    return tell(scene, state, Kind.BLOCKED, said, pages=True, evidence=evidence)


# -- servers that load -----------------------------------------------------------------------


def _start_baseline(scene: Scene, event: Looked, sentence: str) -> Transition:
    plan = replace(scene.plan, is_started=True)
    state = act(scene, Phase.STARTING, Do.START, None, plan=plan)
    patience = words.duration(scene.policy.start.deadline)
    said = f"The baseline side is started and may load for {patience} without progress: {sentence}"
    return tell(scene, state, Kind.STEP, said, evidence=seen(event))


def starting(scene: Scene, event: Looked) -> Transition:
    """Waits until the baseline side answers, for as long as it makes progress."""
    gone = _withdrawn(scene, event)
    if gone is not None:
        return gone
    if scene.state.step is None and is_up(event.sight.baseline, scene.policy.precheck.slowest):
        return Transition(enter(scene, Phase.CHECKING))
    scene = _progress(scene, event)
    late = _overdue(scene)
    if late is None:
        return stay(scene)
    said = f"Nothing was moved: the baseline side does not come up: {late}"
    state = end(scene, Phase.FAILED, why=late)
    return tell(scene, state, Kind.FAILED, said, pages=True, evidence=seen(event))


def restarting(scene: Scene, event: Looked) -> Transition:
    """Restarts the speculative side and waits until another process answers."""
    s, sight, policy = scene.state, event.sight, scene.policy
    if s.steps == 0:
        unseen = not (sight.speculative.pulses or sight.speculative.completions)
        if scene.pause is not None or unseen:
            return stay(scene)
        # What is there now is what the restarted side must differ from.
        ordered = act(scene, Phase.RESTARTING, Do.RESTART, None, speculative=sight.speculative)
        said = "The speculative side is restarted"
        return tell(scene, ordered, Kind.STEP, said, evidence=seen(event))
    up = is_up(sight.speculative, policy.precheck.slowest)
    if s.step is None and up and has_restarted(s.speculative, sight.speculative):
        state = end(scene, Phase.ARMED, ended_at=s.ended_at, restarted_at=scene.now)
        said = (
            f"The speculative side serves again, {words.duration(scene.now - s.since)} after its"
            " restart; if it is bad again within a day, traffic is rolled back"
        )
        return tell(scene, state, Kind.DONE, said, evidence=seen(event))
    scene = _progress(scene, event)
    late = _overdue(scene)
    return stay(scene) if late is None else roll_back_instead(scene, late, event)


def roll_back_instead(scene: Scene, why: str, event: Looked | None = None) -> Transition:
    """The restart did not help: the same plan goes on as a rollback."""
    plan = replace(
        scene.plan,
        at=scene.now,
        cure=Cure.ROLL_BACK,
        path=scene.policy.shift.steps,
        approved_at=None,
        # Of a server that does not come up there will be no windows to vote.
        is_automatic=False,
    )
    evidence = {} if event is None else seen(event)
    said = f"The restart has failed ({why})"
    if plan.mode is Mode.ACT:
        state = enter(scene, Phase.CHECKING, plan=plan)
        said += ": traffic is rolled back instead"
        return tell(scene, state, Kind.STEP, said, pages=True, evidence=evidence)
    state = enter(scene, Phase.PROPOSED, plan=plan)
    said += f": {_intent(plan)} waits for 'monitor rollback approve {state.service}'"
    return tell(scene, state, Kind.PROPOSED, said, pages=True, evidence=evidence)


def _progress(scene: Scene, event: Looked) -> Scene:
    """Any change of what is seen of a loading server counts."""
    s, progress = scene.state, event.sight.progress
    if progress is None or progress.mark == s.mark:
        return scene
    return scene.with_state(replace(s, mark=progress.mark, stuck=0.0))


def _overdue(scene: Scene) -> str | None:
    s, start_ = scene.state, scene.policy.start
    if s.stuck >= start_.deadline:
        return f"no progress for {words.duration(s.stuck)}"
    if s.watched >= start_.at_most:
        return f"not ready after {words.duration(s.watched)}"
    return None
