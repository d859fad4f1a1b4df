"""What a look leads to once traffic has been moved: the next step, the end, or the way back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from monitor.health import words
from monitor.rollback.ballots import is_same_side
from monitor.rollback.evidence import Finding, Side
from monitor.rollback.judge import arrived, failure, load, room_left, serves, strike
from monitor.rollback.model import Kind, Phase
from monitor.rollback.scene import (
    Looked,
    Scene,
    Transition,
    end,
    enter,
    hold,
    next_leg,
    retreat,
    seen,
    stay,
    tell,
    undo,
)
from monitor.rollback.settings import Cure
from monitor.rollback.state import Plan, Rejected, State

PATIENCE = 4.0
"""Holds of a trial after which it ends for want of windows."""


# -- what holds in each phase ----------------------------------------------------------------


def count_misses(scene: Scene, event: Looked) -> State:
    """The state after a look: how often in a row either side has served badly."""
    s, sight, policy = scene.state, event.sight, scene.policy
    changes: dict[str, Any] = {}
    if s.is_moved and (sight.baseline.completions or sight.baseline.pulses):
        first = s.baseline if s.baseline.pulses else sight.baseline
        fault = strike(first, sight.baseline, s.speed, policy.precheck, policy.verify)
        changes |= {"misses": s.misses + 1 if fault else 0, "fault": fault}
    if sight.speculative.completions:
        found = sight.speculative.completions
        silent = all(failure(completion, policy.precheck.slowest) for completion in found)
        changes["speculative_misses"] = s.speculative_misses + 1 if silent else 0
    probed = (s.probed[0] + _asked(sight.baseline), s.probed[1] + _asked(sight.speculative))
    return replace(s, probed=probed, **changes)


def _asked(side: Side) -> float:
    return float(sum(completion.tokens for completion in side.completions))


def stop_loss(scene: Scene, event: Looked) -> Transition | None:
    """The one rule that holds in each phase: nobody is left on a side that serves badly."""
    s, limit = scene.state, scene.policy.verify.misses
    if not s.is_moved or s.is_cornered or s.phase is Phase.UNDOING:
        return None
    evidence = seen(event)
    if s.misses >= limit:
        if scene.is_speculative_alive:
            said = f"Stopped, and traffic is taken back: the baseline side {s.fault}"
            state = undo(scene, s.fault)
            return tell(scene, state, Kind.STEP, said, pages=True, evidence=evidence)
        if s.phase is Phase.HELD:
            return None
        said = f"Held where it is: the baseline side {s.fault}, and the speculative side is dead"
        return tell(scene, hold(scene, s.fault), Kind.HELD, said, pages=True, evidence=evidence)
    if s.phase in {Phase.TRIAL, Phase.RETURNING} and not scene.is_speculative_alive:
        return _end_trial(scene, "the speculative side does not answer", evidence)
    return None


def _displaced(scene: Scene, event: Looked) -> Transition | None:
    """Stops where somebody else moves the same traffic: two hands would fight over it."""
    s, observed = scene.state, event.sight.share
    if observed is None or abs(observed - s.share) <= scene.policy.shift.tolerance:
        return None
    why = (
        f"the baseline side was given {words.percent(s.share)} and has"
        f" {words.percent(observed)}: somebody else moves the same traffic"
    )
    state = hold(scene, why, share=observed)
    return tell(
        scene, state, Kind.HELD, f"Held where it is: {why}", pages=True, evidence=seen(event)
    )


# -- on the way out --------------------------------------------------------------------------


def outstanding(scene: Scene, event: Looked) -> Transition:
    """An act is outstanding: what becomes of it is another event."""
    del event
    return stay(scene)


def shifting(scene: Scene, event: Looked) -> Transition:
    """Waits for the act; one that may not be done now needs another check when it may."""
    s, observed = scene.state, event.sight.share
    if scene.pause is None or observed is None:
        return stay(scene)
    if abs(observed - s.share) > scene.policy.shift.tolerance:
        return stay(scene)
    return Transition(enter(scene, Phase.CHECKING, plan=replace(scene.plan, is_checked=False)))


def holding(scene: Scene, event: Looked) -> Transition:
    """Watches a step; goes on once it has looked well for long enough."""
    other = _displaced(scene, event) or _not_yet(scene, event)
    if other is not None:
        return other
    verifies = scene.state.phase is Phase.VERIFYING
    wanted = scene.policy.verify.seconds if verifies else scene.policy.shift.hold
    finding = _arrived(scene, event)
    if not finding.ok or scene.state.misses > 0:
        return _unclear(scene, event, finding)
    if scene.state.watched < wanted:
        return stay(scene, blind=0.0)
    if verifies:
        return _done(scene, event, finding)
    room = _room(scene, event)
    if not room.ok:
        return _unclear(scene, event, room)
    share = words.percent(scene.plan.path[scene.plan.leg])
    said = f"The step looks well, and the baseline side gets {share}: {finding.sentence}"
    return tell(scene, next_leg(scene), Kind.STEP, said, evidence=seen(event))


def _not_yet(scene: Scene, event: Looked) -> Transition | None:
    """While nothing may move, or there is no look yet that others can be compared with."""
    s, sight = scene.state, event.sight
    if scene.pause is not None:
        return stay(scene, watched=0.0, blind=0.0)
    if s.baseline.pulses:
        return None
    pulses = sight.baseline.pulses
    if scene.is_speculative_alive:
        pulses = (*pulses, *sight.speculative.pulses)
    if sight.baseline.pulses and all(pulse.error is None for pulse in pulses):
        looked = {"baseline": sight.baseline, "speculative": sight.speculative}
        return stay(scene, **looked, watched=0.0, blind=0.0, probed=(0.0, 0.0))
    return _unclear(scene, event, Finding(None, "the metrics cannot be read"))


def _arrived(scene: Scene, event: Looked) -> Finding:
    s, sight = scene.state, event.sight
    if not scene.is_speculative_alive:
        return serves((s.baseline, sight.baseline), s.probed[0], scene.policy.verify)
    return arrived(
        (s.baseline, sight.baseline),
        (s.speculative, sight.speculative),
        s.share,
        s.probed,
        scene.policy.verify,
    )


def _room(scene: Scene, event: Looked) -> Finding:
    """Whether the baseline side can still take all that is to come."""
    s, stays = scene.state, 1.0 - scene.state.share
    ahead = (scene.plan.path[-1] - s.share) / stays if stays > 0.0 else 0.0
    running = load(event.sight.speculative) if scene.is_speculative_alive else 0.0
    need = None if running is None else running * ahead
    return room_left(event.sight.baseline, need, scene.policy.precheck)


def _unclear(scene: Scene, event: Looked, finding: Finding) -> Transition:
    """Takes no further step, and calls a person when it lasts. A dead monitor moves nothing."""
    s = scene.state
    if finding.idle or s.blind < scene.policy.shift.blind:
        # Without any traffic nobody is hurt, and nothing can be said.
        return stay(scene, blind=0.0) if finding.idle else stay(scene)
    why = f"{finding.sentence}, for {words.duration(s.blind)}"
    said = f"Held where it is, at {words.percent(s.share)} on the baseline side: {why}"
    return tell(scene, hold(scene, why), Kind.HELD, said, pages=True, evidence=seen(event))


def _done(scene: Scene, event: Looked, finding: Finding) -> Transition:
    s, plan = scene.state, scene.plan
    known = {r.fingerprint for r in s.rejected}
    rejected = s.rejected
    if plan.cure is Cure.ROLL_BACK and plan.fingerprint and plan.fingerprint not in known:
        rejected = (*rejected, Rejected(plan.fingerprint, scene.now, plan.id))[-20:]
    # How fast the other side was holds for the load of then, and not for that of other days.
    state = enter(
        scene, Phase.DONE, plan=replace(plan, is_exempt=False), rejected=rejected,
        ended_at=scene.now, speed=None, why="",
    )  # fmt: skip
    said = (
        f"{finding.sentence}; the speculative side is parked, not torn down;"
        f" 'monitor rollback rearm {s.service}' tries it again after a fix"
    )
    return tell(scene, state, Kind.DONE, said, evidence=seen(event))


def done(scene: Scene, event: Looked) -> Transition:
    """Traffic stays on the baseline side, which is watched on."""
    s, observed = scene.state, event.sight.share
    if observed is not None and abs(observed - s.origin) <= scene.policy.shift.tolerance:
        said = f"Traffic was put back by hand ({event.sight.detail}): armed again"
        return tell(scene, end(scene, Phase.ARMED), Kind.RESTORED, said, evidence=seen(event))
    displaced = _displaced(scene, event)
    if displaced is not None:
        return displaced
    cooled = s.watched >= scene.policy.limits.cooldown
    if scene.policy.trial.auto and cooled and scene.pause is None and _is_another(scene):
        said = f"The speculative side is another one now ({s.fingerprint}): it is tried again"
        return tell(scene, begin_trial(scene, None), Kind.REARMED, said, evidence=seen(event))
    fresh = event.sight.baseline
    if not (fresh.completions or fresh.pulses):
        return _unclear(scene, event, Finding(None, "there is no baseline side to look at"))
    # Errors and TPOT are of the time since the last look, not of all the days since the step.
    return stay(scene, blind=0.0, baseline=fresh if fresh.pulses else s.baseline)


def _is_another(scene: Scene) -> bool:
    """Whether the speculative side is surely none of those that were found to hurt.

    Where the traffic was moved by an order, nothing was found, and a person ends it.
    """
    now, past = scene.state.fingerprint, [r.fingerprint for r in scene.state.rejected]
    is_known = bool(now and past and scene.plan.fingerprint)
    return is_known and not any(is_same_side(now, other) for other in past)


def held(scene: Scene, event: Looked) -> Transition:
    """Waits for a person; meanwhile it may become known again where traffic goes."""
    observed = event.sight.share
    if scene.state.is_unsure and observed is not None:
        known = replace(scene.state, share=observed, is_unsure=False)
        return held(scene.with_state(known), event)
    fresh = event.sight.baseline
    return stay(scene, baseline=fresh) if fresh.pulses else stay(scene)


# -- on the way back -------------------------------------------------------------------------


def begin_trial(scene: Scene, who: str | None) -> State:
    """The state in which the speculative side is checked before it gets a small share again."""
    s, policy = scene.state, scene.policy
    shares = {*policy.shift.steps, 1.0 - policy.trial.share}
    between = [share for share in sorted(shares, reverse=True) if s.origin < share < s.share]
    # The first of them is the trial, even where the router only knows all or nothing.
    path = (*(between or [s.origin]), s.origin)
    plan: Plan = replace(
        scene.plan,
        is_back=True,
        is_exempt=False,
        is_checked=False,
        path=path,
        leg=0,
        top=s.share,
        who=who,
        fingerprint=s.fingerprint,
        trial_at=None,
    )
    return enter(scene, Phase.CHECKING, plan=plan)


def trial(scene: Scene, event: Looked) -> Transition:
    """Watches the speculative side with some of the traffic; goes on, or gives it up."""
    displaced = _displaced(scene, event)
    if displaced is not None:
        return displaced
    if scene.pause is not None:
        return stay(scene, watched=0.0, blind=0.0)
    s, plan, policy = scene.state, scene.plan, scene.policy
    opinion = scene.opinion(event.box)
    evidence = seen(event, opinion)
    if opinion.cure is not Cure.NOTHING:
        return _end_trial(scene, opinion.why, evidence)
    is_first = plan.leg == 1
    wanted = policy.trial.hold if is_first else policy.shift.hold
    # What went well with less of the load says nothing about this share of it.
    if s.watched >= wanted and scene.opinion(event.box, since=s.since).is_well:
        share = words.percent(1.0 - plan.path[plan.leg])
        windows = words.number(policy.trial.good_windows, "window")
        said = f"The last {windows} of the speculative side show no loss: it gets {share}"
        return tell(scene, next_leg(scene), Kind.TRIAL, said, evidence=evidence)
    if s.watched >= PATIENCE * max(policy.trial.hold, policy.voting.within):
        return _end_trial(scene, "its traffic gave too few valid windows", evidence)
    fresh = event.sight.baseline
    return stay(scene, baseline=fresh) if fresh.pulses else stay(scene)


def _end_trial(scene: Scene, why: str, evidence: dict[str, Any]) -> Transition:
    share = words.percent(scene.plan.top)
    said = f"The trial has failed, and the baseline side gets {share} again: {why}"
    return tell(scene, retreat(scene, why), Kind.STEP, said, pages=True, evidence=evidence)
