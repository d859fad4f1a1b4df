"""What a look leads to while a server comes up: a large model loads for half an hour and more."""

from __future__ import annotations

from dataclasses import replace

from monitor.health import words
from monitor.rollback.judge import has_restarted, is_up
from monitor.rollback.model import Do, Kind, Phase
from monitor.rollback.scene import (
    Looked,
    Scene,
    Transition,
    act,
    end,
    enter,
    hold,
    seen,
    stay,
    tell,
)
from monitor.rollback.settings import Cure, Mode
from monitor.rollback.waiting import intent, withdrawn


def start_baseline(scene: Scene, event: Looked, sentence: str) -> Transition:
    """Tells the baseline side to start; ``sentence`` says why it must."""
    plan = replace(scene.plan, is_started=True)
    state = act(scene, Phase.STARTING, Do.START, None, plan=plan)
    patience = words.duration(scene.policy.start.deadline)
    said = f"The baseline side is started and may load for {patience} without progress: {sentence}"
    return tell(scene, state, Kind.STEP, said, evidence=seen(event))


def starting(scene: Scene, event: Looked) -> Transition:
    """Waits until the baseline side answers, for as long as it makes progress."""
    gone = withdrawn(scene, event)
    if gone is not None:
        return gone
    if scene.state.step is None and is_up(event.sight.baseline, scene.policy.precheck.slowest):
        return Transition(enter(scene, Phase.CHECKING))
    scene = _progress(scene, event)
    late = _overdue(scene)
    if late is None:
        return stay(scene)
    return not_started(scene, f"the baseline side does not come up: {late}", event)


def not_started(scene: Scene, why: str, event: Looked | None = None) -> Transition:
    """Gives up what has moved nothing yet; what has stays where it is, for a person to decide."""
    evidence = {} if event is None else seen(event)
    if scene.state.is_moved:
        said = f"Held where it is: {why}"
        return tell(scene, hold(scene, why), Kind.HELD, said, pages=True, evidence=evidence)
    state = end(scene, Phase.FAILED, why=why)
    said = f"Nothing was moved: {why}"
    return tell(scene, state, Kind.FAILED, said, pages=True, evidence=evidence)


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
        who=None,
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
    said += f": {intent(plan)} waits for 'monitor rollback approve {state.service}'"
    return tell(scene, state, Kind.PROPOSED, said, pages=True, evidence=evidence)


def _progress(scene: Scene, event: Looked) -> Scene:
    """Any change of what is seen of a loading server counts."""
    s, progress = scene.state, event.sight.progress
    if s.step is not None:
        # Nothing can be late of what was not ordered yet.
        return scene.with_state(replace(s, watched=0.0, stuck=0.0))
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
