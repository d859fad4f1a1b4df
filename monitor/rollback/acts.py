"""What the outcome of an act leads to."""

from __future__ import annotations

from dataclasses import replace

from monitor.health import words
from monitor.rollback.ballots import is_same_side
from monitor.rollback.loading import not_started, roll_back_instead
from monitor.rollback.model import Do, Kind, Phase
from monitor.rollback.scene import (
    Acted,
    Scene,
    Transition,
    end,
    enter,
    hold,
    stay,
    tell,
)
from monitor.rollback.state import State


def acted(scene: Scene, event: Acted) -> Transition:
    """The outcome of the outstanding act; of any other, nothing follows."""
    s = scene.state
    if s.step is None or s.step.id != event.step:
        return stay(scene)
    if event.ok:
        return _SUCCEEDED[s.step.do](scene, event)
    tried = scene.with_state(replace(s, tries=s.tries + 1))
    if event.may_retry and s.tries + 1 < scene.policy.shift.attempts:
        return stay(tried)
    return _FAILED[s.step.do](tried, event)


def _ordered(scene: Scene, event: Acted) -> Transition:
    """The order to start or restart was taken; whether a server then serves is to be seen."""
    del event
    return stay(scene, step=None, tries=0, watched=0.0, stuck=0.0, mark="")


def _shifted(scene: Scene, event: Acted) -> Transition:
    s, plan = scene.state, scene.plan
    share = s.step.share if s.step is not None and s.step.share is not None else s.share
    went = replace(plan, leg=plan.leg + 1)
    detail = f" ({event.detail})" if event.detail else ""
    if plan.is_back:
        trial_at = scene.now if plan.trial_at is None else plan.trial_at
        went = replace(went, trial_at=trial_at)
        state = enter(scene, Phase.TRIAL, plan=went, share=share, is_unsure=False)
        hold_for = scene.policy.trial.hold if went.leg == 1 else scene.policy.shift.hold
        said = (
            f"The speculative side has {words.percent(1.0 - share)} of the traffic again{detail};"
            f" it is watched for {words.duration(hold_for)}"
        )
        return tell(scene, state, Kind.TRIAL, said)
    is_last = went.leg >= len(went.path)
    watched = Phase.VERIFYING if is_last else Phase.HOLDING
    state = enter(scene, watched, plan=went, share=share, is_unsure=False)
    seconds = scene.policy.verify.seconds if is_last else scene.policy.shift.hold
    said = (
        f"The baseline side has {words.percent(share)} of the traffic{detail};"
        f" it is watched for {words.duration(seconds)}"
    )
    return tell(scene, state, Kind.STEP, said)


def _restored(scene: Scene, event: Acted) -> Transition:
    s, detail = scene.state, f" ({event.detail})" if event.detail else ""
    if s.phase is Phase.UNDOING:
        ends = s.ends
        kind = Kind.ABORTED if ends is Phase.ABORTED else Kind.FAILED
        said = f"Traffic is where it was before the plan{detail}: {s.why}"
        if ends is Phase.ABORTED:
            said += f"; nothing more happens until 'monitor rollback rearm {s.service}'"
        return tell(scene, end(scene, ends), kind, said, pages=kind is Kind.FAILED)
    rejected = tuple(r for r in s.rejected if not is_same_side(r.fingerprint, s.fingerprint))
    state: State = end(scene, Phase.ARMED, rejected=rejected)
    said = f"The speculative side has all its traffic again{detail}, and is watched as before"
    return tell(scene, state, Kind.RESTORED, said)


def _not_started(scene: Scene, event: Acted) -> Transition:
    return not_started(scene, f"the baseline side could not be started: {event.detail}")


def _not_restarted(scene: Scene, event: Acted) -> Transition:
    return roll_back_instead(scene, event.detail)


def _not_moved(scene: Scene, event: Acted) -> Transition:
    s = scene.state
    tries = words.number(float(max(s.tries, 1)), "try").replace("trys", "tries")
    why = f"the act has failed after {tries}: {event.detail}"
    at_origin = s.share == s.origin
    unmoved = event.share is not None and abs(event.share - s.origin) <= 1e-6  # noqa: PLR2004
    if s.phase is Phase.SHIFTING and at_origin and unmoved:
        state = end(scene, Phase.FAILED, why=why)
        return tell(scene, state, Kind.FAILED, f"Nothing was moved: {why}", pages=True)
    share = s.share if event.share is None else event.share
    changes = {"share": share, "is_unsure": event.share is None}
    state = hold(scene, why, **changes, is_cornered=s.phase is Phase.UNDOING)
    where = "where nobody knows" if event.share is None else f"at {words.percent(event.share)}"
    said = f"Held {where} on the baseline side: {why}"
    return tell(scene, state, Kind.HELD, said, pages=True)


_SUCCEEDED = {
    Do.START: _ordered,
    Do.RESTART: _ordered,
    Do.SHIFT: _shifted,
    Do.RESTORE: _restored,
}
_FAILED = {
    Do.START: _not_started,
    Do.RESTART: _not_restarted,
    Do.SHIFT: _not_moved,
    Do.RESTORE: _not_moved,
}
