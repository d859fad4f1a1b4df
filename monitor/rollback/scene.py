"""What the rules of the state machine work with: the events, the scene, and the usual moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from monitor.rollback.ballots import Box, Opinion, opine
from monitor.rollback.evidence import Circumstances, Side, Sight
from monitor.rollback.model import Command, Do, Kind, News, Phase, Step
from monitor.rollback.settings import Policy
from monitor.rollback.state import Plan, State


@dataclass(frozen=True, slots=True)
class Looked:
    """A look at the service: its windows, and whatever the phase asks for."""

    box: Box
    sight: Sight


@dataclass(frozen=True, slots=True)
class Acted:
    """What became of the act that was outstanding."""

    step: str
    """Its id."""
    ok: bool
    detail: str = ""
    may_retry: bool = True
    share: float | None = None
    """Share of the baseline side that was observed after it."""


Event = Looked | Acted | Command


@dataclass(frozen=True, slots=True)
class Transition:
    """What follows from an event. The step to carry out, if any, is in the state."""

    state: State
    news: tuple[News, ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything a rule may look at beside the event; ``state`` is already at ``now``."""

    state: State
    policy: Policy
    around: Circumstances
    now: float

    @property
    def plan(self) -> Plan:
        """The plan in progress."""
        if self.state.plan is None:
            raise AssertionError(f"{self.state.phase} without a plan")
        return self.state.plan

    @property
    def pause(self) -> str | None:
        """Why no further step may be taken now."""
        is_exempt = self.state.plan is not None and self.state.plan.is_exempt
        return None if is_exempt else self.brake

    @property
    def brake(self) -> str | None:
        """Why nothing may begin by itself now."""
        return self.around.frozen or self.around.held

    @property
    def is_speculative_alive(self) -> bool:
        """Whether traffic may be taken back: the last looks got tokens from that side."""
        return self.state.speculative_misses < self.policy.verify.misses

    def opinion(self, box: Box, *, since: float = 0.0) -> Opinion:
        """What the windows say that count in this phase, and began after ``since``."""
        s, voting = self.state, self.policy.voting
        if s.plan is not None and s.plan.trial_at is not None:
            good = min(self.policy.trial.good_windows, voting.of)
            return opine(box, voting, self.now, since=max(s.plan.trial_at, since), good=good)
        # What was seen before a restart, or while another plan moved traffic, is of the past.
        since = max(s.restarted_at or 0.0, s.ended_at or 0.0, since)
        return opine(box, voting, self.now, since=since)

    def with_state(self, state: State) -> Scene:
        """The same scene after a change of the state."""
        return replace(self, state=state)


def stay(scene: Scene, **changes: Any) -> Transition:
    """Nothing to tell."""
    return Transition(replace(scene.state, **changes) if changes else scene.state)


def enter(scene: Scene, phase: Phase, **changes: Any) -> State:
    """The state at the beginning of ``phase``: what was gathered in the one before is dropped."""
    fresh: dict[str, Any] = {
        "step": None,
        "tries": 0,
        "watched": 0.0,
        "blind": 0.0,
        "stuck": 0.0,
        "mark": "",
        "baseline": Side(),
        "speculative": Side(),
        "probed": (0.0, 0.0),
    }
    return replace(scene.state, phase=phase, since=scene.now, **{**fresh, **changes})


def tell(
    scene: Scene,
    state: State,
    kind: Kind,
    sentence: str,
    *,
    who: str | None = None,
    pages: bool = False,
    evidence: Mapping[str, Any] | None = None,
) -> Transition:
    """The new state with one piece of news about it."""
    plan = state.plan or scene.state.plan
    news = News(
        service=state.service,
        at=scene.now,
        kind=kind,
        mode=plan.mode if plan is not None else scene.policy.mode,
        phase=state.phase,
        sentence=sentence,
        plan=None if plan is None else plan.id,
        cure=None if plan is None else plan.cure,
        share=state.share,
        who=who,
        pages=pages,
        evidence={**(evidence or {}), **scene.around.annex},
    )
    return Transition(state, (news,))


def seen(event: Looked, opinion: Opinion | None = None) -> dict[str, Any]:
    """What a decision rests on, as JSON values."""
    document: dict[str, Any] = {} if opinion is None else {"windows": opinion.windows}
    for name in ("baseline", "speculative"):
        side: Side = getattr(event.sight, name)
        if side.completions or side.pulses:
            document[name] = asdict(side)
    if event.sight.detail:
        document["traffic"] = event.sight.detail
    return document


def act(scene: Scene, phase: Phase, do: Do, share: float | None, **changes: Any) -> State:
    """The state in which an act is outstanding, under a new id."""
    number = scene.state.steps + 1
    plan: Plan = changes.get("plan") or scene.plan
    step = Step(f"{plan.id}-{number}", do, share)
    return enter(scene, phase, step=step, steps=number, **changes)


def next_leg(scene: Scene, **changes: Any) -> State:
    """The state in which the next share of the path is being set."""
    plan: Plan = changes.get("plan") or scene.plan
    share = plan.path[plan.leg]
    phase = Phase.RETURNING if plan.is_back else Phase.SHIFTING
    restores = plan.is_back and plan.leg == len(plan.path) - 1
    return act(scene, phase, Do.RESTORE if restores else Do.SHIFT, share, **changes)


def end(scene: Scene, phase: Phase, **changes: Any) -> State:
    """The state after a plan: all of it is forgotten but for what holds the next one back."""
    s = scene.state
    fresh: dict[str, Any] = {
        "ended_at": scene.now,
        "plan": None,
        "share": 0.0,
        "is_unsure": False,
        "origin": 0.0,
        "why": "",
        "ends": Phase.FAILED,
        "is_cornered": False,
        "misses": 0,
        "fault": "",
        "speed": None,
    }
    if phase in {Phase.FAILED, Phase.ABORTED}:
        fresh |= {"why": s.why}
    return enter(scene, phase, **{**fresh, **changes})


def undo(scene: Scene, why: str, *, ends: Phase = Phase.FAILED) -> State:
    """The state in which all traffic is put where it was before the plan."""
    plan, origin = _ahead(scene.plan), scene.state.origin
    return act(scene, Phase.UNDOING, Do.RESTORE, origin, plan=plan, why=why, ends=ends)


def retreat(scene: Scene, why: str) -> State:
    """The state in which a trial ends: the baseline side gets back what it had before."""
    plan = replace(_ahead(scene.plan), path=(scene.plan.top,), leg=0, is_exempt=True)
    return next_leg(scene, plan=plan, why=why)


def hold(scene: Scene, why: str, **changes: Any) -> State:
    """The state in which everything stays where it is until a person decides."""
    return enter(scene, Phase.HELD, plan=_ahead(scene.plan), why=why, **changes)


def _ahead(plan: Plan) -> Plan:
    """The plan when its way back is given up."""
    return replace(plan, is_back=False, trial_at=None)
