"""The state machine of alerts: one target's alerts and one assessment in, what to tell out.

    inactive → pending → firing → resolved → pending …
                  ↓
               inactive

Pure: ``now`` is an argument. Only time that was watched counts, so the downtime of the daemon
neither completes a ``for`` nor ends an alert. Taking in the same assessment twice changes
nothing the second time, and a step repeated from older states after a crash gives messages
with the same names, by which receivers drop doubles.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from monitor.alerting import wording
from monitor.alerting.model import Notification, Reason, Severity, State
from monitor.alerting.rules import DECIDED, EVERYTHING, Facts, Rule, enters, leaves, may_enter
from monitor.model import Action, StoreError

GAP_INTERVALS = 2.5
"""Most intervals that may count as watched between two steps."""
FLAP_HALF_LIFE = 7200.0
"""Seconds in which the score of changes halves."""
FLAP_SCORE = 2.5
"""From this score on an alert that fires is flapping: the third change within about an hour."""
SETTLE_SECONDS = 3600.0
"""How long a flapping alert must stay one way before it counts as settled."""
_FORGOTTEN_SCORE = 0.1
_LEAST_CAUSE_WINDOWS = 2
_INCIDENTS = uuid.UUID("6f0c2f0e-3b0a-5c0d-9a53-5ad0b6a1f3c7")
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class AlertState(NamedTuple):
    """Where the alert of one rule about one target stands; everything that is remembered."""

    rule: str
    at: float
    """When it was last stepped."""
    state: State = State.INACTIVE
    started_at: float | None = None
    """When the condition began to hold, for the alert that is pending, firing or resolved."""
    ended_at: float | None = None
    held: float = 0.0
    """Watched seconds for which the condition has held."""
    windows: int = 0
    """Fresh windows in which it has."""
    leaving: bool = False
    over: float = 0.0
    """Watched seconds for which the alert has been ready to end."""
    steady: float = 0.0
    """Watched seconds for which a firing alert has not been ready to end."""
    unknown: float = 0.0
    """Watched seconds for which nothing has been known."""
    incident: str | None = None
    sequence: int = 0
    """Messages sent about the incident."""
    told_at: float | None = None
    reminders: int = 0
    no_data_told: bool = False
    title: str = ""
    severity: Severity = Severity.INFO
    """As it was told."""
    cause: str = ""
    """As it was told."""
    causes: tuple[str, ...] = ()
    """All that were told, so that two that alternate are told once each."""
    new_cause: str = ""
    new_cause_windows: int = 0
    flapping: bool = False
    """Comes and goes: silent, and without a vote for rollback, until it settles."""
    score: float = 0.0
    """Changes between firing and resolved, older ones counting less."""
    score_at: float = 0.0

    def to_json(self) -> str:
        """JSON text of what differs from the defaults (about 300 bytes)."""
        usual = self._field_defaults
        kept = {
            name: value
            for name, value in self._asdict().items()
            if name not in usual or value != usual[name]
        }
        return _encode(kept)

    @classmethod
    def from_json(cls, text: str) -> AlertState:
        """Reads what ``to_json`` wrote; keys of a later version are passed over.

        Raises:
            StoreError: the text is something else.
        """
        try:
            given = json.loads(text)
            known = {name: given[name] for name in cls._fields if name in given}
            known["state"] = State(known.get("state", State.INACTIVE))
            known["severity"] = Severity(known.get("severity", Severity.INFO))
            known["causes"] = tuple(str(cause) for cause in known.get("causes", ()))
            known["at"] = float(known["at"])
            return cls(**known)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise StoreError("the stored state of an alert cannot be read") from None


States = Mapping[str, AlertState]


def applying(rules: Iterable[Rule], facts: Facts) -> dict[str, Rule]:
    """The rules about the target of ``facts``, by name: the same ones for all its facts."""
    return {rule.id: rule for rule in rules if rule.only.matches(facts)}


def step(
    own: Mapping[str, Rule], states: States, facts: Facts, now: float, interval: float
) -> tuple[dict[str, AlertState], tuple[Notification, ...]]:
    """Takes in one assessment of one target.

    Args:
        own: the rules about this target, see ``applying``.
        states: by rule, as the step before returned them for this target.
        facts: the assessment and what surrounds it.
        now: the time of the assessment.
        interval: nominal seconds between two looks at the target.

    Returns:
        The states to keep instead of ``states``, and what to tell, in the order of the rules.
    """
    after = {}
    for name, rule in own.items():
        before = states.get(name)
        if before is None:
            # Nearly all rules are about nothing nearly all the time, and need no state for that.
            if facts.fresh and may_enter(rule, facts) and enters(rule, facts):
                after[name] = _advance(rule, AlertState(name, now), facts, now, interval)
        else:
            # Where it was stepped to ``now``, this look was taken in already.
            done = before.at == now
            after[name] = before if done else _advance(rule, before, facts, now, interval)
    if not (after or states):
        return after, ()
    messages = []
    for name, state in after.items():
        muted = _muted_by(name, own, after)
        if muted is None and facts.moving:
            muted = _spoken_for(name, own)
        after[name], message = _tell(own[name], states.get(name), state, facts, muted)
        messages += [message] if message is not None else []
    gone = {name: state for name, state in states.items() if name not in own}
    why = "its rule is no longer in force for this target"
    closed, farewells = close(gone, facts.service, facts.assessment.target, now, why)
    kept = {name: state for name, state in (after | closed).items() if _is_worth_keeping(state)}
    return kept, (*messages, *farewells)


def close(
    states: States, service: str, target: str, now: float, why: str
) -> tuple[dict[str, AlertState], tuple[Notification, ...]]:
    """Ends all alerts of a target because nobody watches for them any more; says ``why``."""
    closed, messages = {}, []
    for name, state in states.items():
        if state.state is not State.FIRING:
            # What has ended before is remembered by its score alone, and needs that no more.
            continue
        ended = state._replace(at=now, state=State.RESOLVED, ended_at=now)
        if state.told_at is not None:
            ended = ended._replace(sequence=state.sequence + 1, told_at=now)
            messages.append(_farewell(ended, service, target, why))
        closed[name] = ended
    return closed, tuple(messages)


def votes(rules: Iterable[Rule], states: States, facts: Facts) -> tuple[str, ...]:
    """The rules that vote for a rollback now: firing, not flapping, on a valid window."""
    if not states:
        return ()
    return tuple(
        rule.id
        for rule in rules
        if (state := states.get(rule.id)) is not None and _votes(rule, state, facts)
    )


def _votes(rule: Rule, state: AlertState, facts: Facts) -> bool:
    return (
        rule.votes_for_rollback
        and state.state is State.FIRING
        and not state.flapping
        and not state.leaving
        and facts.fresh
        and facts.assessment.verdict in DECIDED
    )


# -- transitions ---------------------------------------------------------------------------


def _advance(
    rule: Rule, state: AlertState, facts: Facts, now: float, interval: float
) -> AlertState:
    watched = min(max(now - state.at, 0.0), GAP_INTERVALS * interval)
    state = state._replace(at=now)
    if state.state is State.FIRING:
        return _go_on(rule, state, facts, now, watched)
    answer = enters(rule, facts) if facts.fresh else None
    if state.state is State.PENDING:
        state = _wait(rule, state, answer, watched)
    elif answer:
        state = AlertState(
            rule.id, now, State.PENDING, started_at=now, windows=1,
            score=state.score, score_at=state.score_at,
        )  # fmt: skip
    ready = state.held >= rule.hold_seconds and state.windows >= rule.hold_windows
    if state.state is State.PENDING and answer and ready:
        return _fire(rule, state, facts, now)
    return state


def _wait(rule: Rule, state: AlertState, answer: bool | None, watched: float) -> AlertState:  # noqa: FBT001
    """A pending alert: what it has gathered is kept while nothing is known, for a while."""
    if answer is None:
        unknown = state.unknown + watched
        return _give_up(state) if unknown > rule.no_data_after else state._replace(unknown=unknown)
    if not answer:
        return _give_up(state)
    # Time that began with nothing known is not time in which the condition held.
    held = state.held if state.unknown > 0.0 else state.held + watched
    return state._replace(held=held, windows=state.windows + (watched > 0.0), unknown=0.0)


def _give_up(state: AlertState) -> AlertState:
    return AlertState(state.rule, state.at, score=state.score, score_at=state.score_at)


def _fire(rule: Rule, state: AlertState, facts: Facts, now: float) -> AlertState:
    started = now if state.started_at is None else state.started_at
    score = _score(state, now) + 1.0
    cause = _cause(facts)
    return state._replace(
        state=State.FIRING,
        incident=incident_id(rule.id, facts.assessment.target, started),
        severity=rule.severity,
        cause=cause,
        causes=(cause,),
        flapping=score >= FLAP_SCORE,
        score=score,
        score_at=now,
    )


def incident_id(rule: str, target: str, started_at: float) -> str:
    """Names an incident by what it is about, never by thresholds or text."""
    return str(uuid.uuid5(_INCIDENTS, f"{rule}\n{target}\n{started_at:.3f}"))


def _go_on(rule: Rule, state: AlertState, facts: Facts, now: float, watched: float) -> AlertState:
    """A firing alert: goes on, gets ready to end, or ends."""
    answer = leaves(rule, facts) if facts.fresh else None
    if answer and enters(rule, facts):
        # A way out that leads back in is none.
        answer = False
    if answer is None:
        return state._replace(unknown=state.unknown + watched)
    if not answer:
        steady = state.steady + watched
        settled = steady >= SETTLE_SECONDS
        state = state._replace(
            leaving=False,
            over=0.0,
            unknown=0.0,
            steady=steady,
            flapping=state.flapping and not settled,
        )
        return _note_cause(rule, state, facts, fresh=watched > 0.0)
    # The time up to the first look that finds it over was no time in which it was over.
    counted = state.leaving and state.unknown <= 0.0
    over = state.over + watched if counted else state.over if state.leaving else 0.0
    state = state._replace(leaving=True, over=over, steady=0.0, unknown=0.0)
    patience = max(rule.keep_firing, SETTLE_SECONDS) if state.flapping else rule.keep_firing
    if over < patience:
        return state
    return state._replace(
        state=State.RESOLVED,
        ended_at=now,
        flapping=False,
        score=_score(state, now) + 1.0,
        score_at=now,
    )


def _note_cause(rule: Rule, state: AlertState, facts: Facts, *, fresh: bool) -> AlertState:
    """Counts for how long the cause has been another one than was told."""
    cause = _cause(facts)
    if not fresh or enters(rule, facts) is not True:
        return state
    # That no cause is named any more is no news.
    if not cause or cause in state.causes:
        return state._replace(new_cause="", new_cause_windows=0)
    again = state.new_cause_windows if cause == state.new_cause else 0
    return state._replace(new_cause=cause, new_cause_windows=again + 1)


def _cause(facts: Facts) -> str:
    cause = facts.assessment.cause
    return cause.value if cause is not None else ""


def _score(state: AlertState, now: float) -> float:
    """The score as of ``now``; the passing of time, watched or not, calms."""
    return float(state.score * 0.5 ** (max(now - state.score_at, 0.0) / FLAP_HALF_LIFE))


def _is_worth_keeping(state: AlertState) -> bool:
    if state.state in (State.PENDING, State.FIRING):
        return True
    return _score(state, state.at) >= _FORGOTTEN_SCORE


# -- telling -------------------------------------------------------------------------------


def _muted_by(name: str, rules: Mapping[str, Rule], states: States) -> Rule | None:
    """The firing rule that speaks for ``name`` as well."""
    for other, state in states.items():
        mutes = rules[other].mutes
        named = name in mutes or EVERYTHING in mutes
        if named and other != name and state.state is State.FIRING:
            return rules[other]
    return None


def _spoken_for(name: str, rules: Mapping[str, Rule]) -> Rule | None:
    """The rule with a vote that asked, or could have asked, for a rollback for this reason.

    While one is under way it tells of itself, and figures change because traffic moves.
    """
    for rule in rules.values():
        if rule.votes_for_rollback and (rule.id == name or name in rule.mutes):
            return rule
    return None


def _tell(
    rule: Rule,
    before: AlertState | None,
    state: AlertState,
    facts: Facts,
    muted: Rule | None,
) -> tuple[AlertState, Notification | None]:
    ended = before is not None and before.state is State.FIRING
    if state.state is State.RESOLVED:
        # Who was told that it fires is told that it ended, muted or not.
        reason = Reason.RESOLVED if ended and state.told_at is not None else None
    elif state.state is State.FIRING:
        reason = _first(state, muted) if state.told_at is None else _again(rule, state, muted)
    else:
        reason = None
    if reason is None:
        return state, None
    old = state
    changed = reason is Reason.SEVERITY
    cause = state.new_cause if changed and _has_new_cause(rule, state) else state.cause
    begun_anew = changed or state.told_at is None
    if state.told_at is None:
        cause = _cause(facts) or cause
    fresh_title = reason in (Reason.FIRST, Reason.FLAPPING, Reason.REPEAT, Reason.SEVERITY)
    state = state._replace(
        sequence=state.sequence + 1,
        told_at=state.at,
        reminders=state.reminders + (reason is Reason.REPEAT),
        no_data_told=state.no_data_told or reason is Reason.NO_DATA,
        title=wording.title(rule, facts) if fresh_title else state.title,
        severity=rule.severity,
        cause=cause,
        causes=tuple(dict.fromkeys((*state.causes, cause))),
        new_cause="" if begun_anew else state.new_cause,
        new_cause_windows=0 if begun_anew else state.new_cause_windows,
    )
    return state, _message(rule, reason, old, state, facts)


def _first(state: AlertState, muted: Rule | None) -> Reason | None:
    """Why to tell now of an alert that fires and that nobody was told of."""
    # What was muted is not told any more once it may be over.
    if muted is not None or state.leaving or state.unknown > 0.0:
        return None
    return Reason.FLAPPING if state.flapping else Reason.FIRST


def _again(rule: Rule, state: AlertState, muted: Rule | None) -> Reason | None:
    """Why to tell once more of an alert that fires."""
    if state.flapping:
        return None
    lost = state.unknown >= rule.no_data_after > 0.0
    if lost and not state.no_data_told:
        # What mutes everything is a server that is down, the very reason to say that the
        # alert stays open; what mutes single rules speaks for them in this as well.
        return Reason.NO_DATA if muted is None or EVERYTHING in muted.mutes else None
    if muted is not None:
        return None
    if rule.severity is not state.severity or _has_new_cause(rule, state):
        return Reason.SEVERITY
    return Reason.REPEAT if _is_repeat_due(rule, state) and not (lost or state.leaving) else None


def _has_new_cause(rule: Rule, state: AlertState) -> bool:
    return state.new_cause_windows >= max(rule.hold_windows, _LEAST_CAUSE_WINDOWS)


def _is_repeat_due(rule: Rule, state: AlertState) -> bool:
    if rule.repeat is None or state.told_at is None:
        return False
    # Beyond this the ceiling has long been reached, and the power would not be a number.
    doubled = rule.repeat.every * 2.0 ** min(state.reminders, 40)
    return state.at - state.told_at >= min(doubled, rule.repeat.at_most)


def _message(
    rule: Rule, reason: Reason, old: AlertState, state: AlertState, facts: Facts
) -> Notification:
    a = facts.assessment
    ended = reason is Reason.RESOLVED
    return Notification(
        incident=state.incident or "",
        sequence=state.sequence,
        at=state.at,
        reason=reason,
        state=state.state,
        rule=rule.id,
        # That nothing is known is less urgent than what was known.
        severity=Severity.INFO if reason is Reason.NO_DATA else rule.severity,
        service=facts.service,
        target=a.target,
        started_at=_start(state),
        ended_at=state.ended_at,
        title=state.title,
        sentence=_sentence(rule, reason, old, state, facts),
        cause=state.cause or None,
        action=Action.NONE.value if ended else a.action.value,
        labels={**facts.labels, **dict(rule.labels)},
        assessment=facts.document(),
        runbook=rule.runbook,
        votes_for_rollback=_votes(rule, state, facts),
    )


def _sentence(rule: Rule, reason: Reason, old: AlertState, state: AlertState, facts: Facts) -> str:
    said, lasted = wording.sentence(facts), wording.duration(state.at - _start(state))
    if reason is Reason.RESOLVED:
        return f"over after {lasted}: {said}"
    if reason is Reason.REPEAT:
        return f"still so after {lasted}: {said}"
    if reason is Reason.NO_DATA:
        silence = wording.duration(state.unknown)
        return f"nothing has been known for {silence}, so it stays open: {said}"
    if reason is Reason.FLAPPING:
        settled = wording.duration(SETTLE_SECONDS)
        return f"keeps coming and going; silence until it has settled for {settled}: {said}"
    if reason is Reason.SEVERITY:
        return f"{_what_changed(rule, old, state)}: {said}"
    return said


def _what_changed(rule: Rule, old: AlertState, state: AlertState) -> str:
    changes = []
    if rule.severity is not old.severity:
        changes.append(f"now {rule.severity.value}, before {old.severity.value}")
    if state.cause != old.cause:
        before, now = old.cause or "unknown", state.cause or "unknown"
        changes.append(f"the cause is now {now}, before {before}")
    return "; ".join(changes)


def _farewell(state: AlertState, service: str, target: str, why: str) -> Notification:
    lasted = wording.duration(state.at - _start(state))
    return Notification(
        incident=state.incident or "",
        sequence=state.sequence,
        at=state.at,
        reason=Reason.RESOLVED,
        state=State.RESOLVED,
        rule=state.rule,
        severity=state.severity,
        service=service,
        target=target,
        started_at=_start(state),
        ended_at=state.ended_at,
        title=state.title,
        sentence=f"closed after {lasted}: {why}",
        cause=state.cause or None,
        action=Action.NONE.value,
    )


def _start(state: AlertState) -> float:
    return state.at if state.started_at is None else state.started_at
