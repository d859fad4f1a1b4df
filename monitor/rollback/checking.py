"""What a look leads to while the side that is to get traffic must prove that it can serve it."""

from __future__ import annotations

from dataclasses import replace

from monitor.health import words
from monitor.rollback.evidence import Side
from monitor.rollback.judge import check, load, tpot
from monitor.rollback.loading import start_baseline
from monitor.rollback.model import Kind, Phase
from monitor.rollback.scene import (
    Looked,
    Scene,
    Transition,
    end,
    enter,
    hold,
    next_leg,
    seen,
    stay,
    tell,
)
from monitor.rollback.waiting import stands, void, withdrawn


def checking(scene: Scene, event: Looked) -> Transition:
    """Two looks at the side that is to get traffic, and the first step if it has passed."""
    if scene.pause is not None:
        # What was seen before the pause says nothing about the time after it.
        unseen = stay(scene, baseline=Side(), speculative=Side(), watched=0.0)
        return void(scene) or unseen
    gone = None if scene.plan.is_back else withdrawn(scene, event)
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
    precheck, model = scene.policy.precheck, plan.model or _named(event.sight.speculative)
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
        return start_baseline(scene, event, finding.sentence)
    return _too_late(scene, event, finding.sentence, **looked)


def _named(side: Side) -> str | None:
    """The model that a side names in its answers, where its pages do not tell; if it is one."""
    named = {completion.model for completion in side.completions} - {None}
    return named.pop() if len(named) == 1 else None


def _is_later(first: Side, now: Side) -> bool:
    """Whether a clock that was set back lies between two looks."""
    times = [side.completions[0].at for side in (first, now) if side.completions]
    return times != sorted(times)


def _need(scene: Scene, event: Looked) -> float | None:
    """Running requests that the baseline side will get by the end of the path."""
    running, path = load(event.sight.speculative), scene.plan.path
    if running is None:
        running = scene.opinion(event.box).running
    return None if running is None or not path else running * path[-1]


def _passed(scene: Scene, event: Looked, sentence: str) -> Transition:
    s, plan, sight = scene.state, scene.plan, event.sight
    if not plan.is_back and not s.is_moved:
        if not stands(scene, event):
            # No traffic moves on windows of the past; the check is repeated until they speak.
            return _faded(scene, event)
        origin = sight.share if sight.share is not None else 0.0
        scene = scene.with_state(replace(s, share=origin, origin=origin))
    ahead = scene.policy.shift.tolerance
    shares = plan.path
    if not plan.is_back:
        shares = tuple(share for share in shares if share > scene.state.share + ahead)
    if not shares and scene.state.is_moved:
        said = f"The baseline side has all that it is to get already: {sentence}"
        state = enter(scene, Phase.VERIFYING, plan=replace(plan, leg=len(plan.path)), misses=0)
        return tell(scene, state, Kind.STEP, said, evidence=seen(event))
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
    opinion, voting = scene.opinion(event.box), scene.policy.voting
    # A process that has just begun has no windows yet, and that says nothing.
    within = voting.within if opinion.counted else 2.0 * voting.needed * voting.spacing
    if scene.state.watched < within:
        return stay(scene)
    state = end(scene, Phase.ARMED, ended_at=scene.state.ended_at)
    hour = words.duration(voting.within)
    said = f"Nothing was moved: no valid window of the last {hour} asks for it"
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
        # Whoever asked for it may count on it by now.
        asked = plan.who is not None
        return tell(scene, state, Kind.REFUSED, said, pages=asked, evidence=evidence)
    if scene.state.is_moved:
        state = hold(scene, sentence)
        said = f"Held where it is: the baseline side cannot take more: {sentence}"
        return tell(scene, state, Kind.HELD, said, pages=True, evidence=evidence)
    state = enter(scene, Phase.BLOCKED, plan=replace(plan, is_blocked=True), why=sentence)
    if plan.is_blocked:
        return Transition(state)
    again = words.duration(scene.policy.precheck.again)
    said = f"Nothing was moved: no healthy baseline side: {sentence}; looked at again in {again}"
    return tell(scene, state, Kind.BLOCKED, said, pages=True, evidence=evidence)
