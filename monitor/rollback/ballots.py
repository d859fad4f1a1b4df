"""Who votes for a rollback: the last valid windows of each target, and what they say together.

A window counts if it is valid: fresh, decided, and no warm-up. Nothing else counts, neither for
a rollback nor against one, so that a monitor that sees nothing moves nothing. A counted window
is a vote if an alert rule with a vote fires by it, if its interval (and not only its value)
proves a loss, and if its cause is one that moving traffic can cure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from monitor.health import words
from monitor.model import Assessment, Cause, Estimate, Identity, Verdict
from monitor.rollback.evidence import Look
from monitor.rollback.settings import Cure, Voting

VALID = frozenset({Verdict.HEALTHY, Verdict.NEUTRAL, Verdict.DEGRADED, Verdict.HARMFUL})
"""Verdicts that rest on enough traffic to say something about speed."""


@dataclass(frozen=True, slots=True)
class Ballot:
    """One valid window of one target."""

    at: float
    start: float
    """When the window began."""
    verdict: Verdict
    cause: Cause | None
    cure: Cure
    """``NOTHING`` where the window is no vote."""
    rules: tuple[str, ...]
    proof: str
    """What proves the loss, in words; or why the window is no vote."""
    speedup: Estimate | None
    acceptance_rate: Estimate | None
    running: float | None

    def document(self) -> dict[str, Any]:
        """JSON values for the audit."""
        return {
            "at": self.at,
            "window_start": self.start,
            "verdict": self.verdict.value,
            "cause": None if self.cause is None else self.cause.value,
            "vote": self.cure is not Cure.NOTHING,
            "rules": list(self.rules),
            "proof": self.proof,
            "speedup": _document(self.speedup),
            "acceptance_rate": _document(self.acceptance_rate),
            "running": self.running,
        }


def _document(estimate: Estimate | None) -> dict[str, float | None] | None:
    return None if estimate is None else estimate._asdict()


class Voter(NamedTuple):
    """What is remembered of one target."""

    ballots: tuple[Ballot, ...] = ()
    """Its last valid windows, the oldest first."""
    flapping: bool = False
    """Whether an alert of it with a vote comes and goes."""
    blind: bool = False
    """Whether its newest page is missing."""
    identity: Identity | None = None
    running: float | None = None
    """Running requests, as of its last page."""


class Box:
    """The last windows of the targets of one service.

    A look costs the same with one target and with a thousand. Not for two threads at a time.
    """

    def __init__(self, voters: Mapping[str, Voter] | None = None) -> None:
        self.voters: dict[str, Voter] = dict(voters or {})
        """By target."""

    def copy(self) -> Box:
        """What it holds now."""
        return Box(self.voters)

    def take(self, look: Look, voting: Voting) -> None:
        """Takes in one tick of one target."""
        name = look.assessment.target
        self.voters[name] = _hear(self.voters.get(name, _NOBODY), look, voting)

    def forget(self, target: str) -> None:
        """Drops a target that is no longer watched."""
        self.voters.pop(target, None)

    @property
    def fingerprint(self) -> str:
        """What the speculative side is: another one has not been rejected."""
        kinds = {fingerprint(identity) for identity in self._identities()}
        return "; ".join(sorted(kind for kind in kinds if kind))

    @property
    def model(self) -> str | None:
        """The model that all targets serve, if they agree."""
        models = {i.model for i in self._identities() if i.model is not None}
        return models.pop() if len(models) == 1 else None

    def _identities(self) -> Iterator[Identity]:
        return (v.identity for v in self.voters.values() if v.identity is not None)


_NOBODY = Voter()


def fingerprint(identity: Identity) -> str:
    """The known parts of an identity, in one line."""
    parts = zip(Identity._fields, identity, strict=True)
    return ", ".join(f"{name} {part}" for name, part in parts if part is not None)


def is_same_side(one: str, other: str) -> bool:
    """Whether two fingerprints may be of the same side: no known part tells them apart.

    A page does not always show all parts, such as that of a side without traffic. Of a side in
    mid-upgrade some servers are still the same.
    """
    return any(
        not any(a[name] != b[name] for name in a.keys() & b.keys())
        for a in _kinds(one)
        for b in _kinds(other)
    )


def _kinds(side: str) -> list[dict[str, str]]:
    kinds = [kind.split(", ") for kind in side.split("; ") if kind]
    return [dict(part.partition(" ")[::2] for part in parts) for parts in kinds]


def _hear(voter: Voter, look: Look, voting: Voting) -> Voter:
    """What is remembered of a target after one tick of it."""
    a = look.assessment
    if _is_another(voter, look):
        voter = _NOBODY
    ballots = voter.ballots
    if ballots and ballots[-1].at > a.at:
        # A clock that was set back has left ballots in the future; they are of no use to anybody.
        ballots = tuple(b for b in ballots if b.at <= a.at)
    if _is_valid(look) and (not ballots or a.at - ballots[-1].at >= voting.spacing):
        ballots = (*ballots, _ballot(look, voting))[-voting.of :]
    running = a.load.running if look.fresh else None
    return Voter(
        ballots=ballots,
        flapping=look.flapping,
        blind=not look.fresh,
        identity=a.identity if any(a.identity) else voter.identity,
        running=voter.running if running is None else running,
    )


def _is_another(voter: Voter, look: Look) -> bool:
    """Whether the windows are of a server that is no more: it has restarted, or is another."""
    a, known = look.assessment, voter.identity
    has_restarted = look.fresh and a.window is not None and a.window.warming_up
    return has_restarted or (known is not None and known.contradicts(a.identity))


def _is_valid(look: Look) -> bool:
    window = look.assessment.window
    return (
        look.fresh
        and look.assessment.verdict in VALID
        and window is not None
        and not window.warming_up
        and not window.lifetime
    )


def _ballot(look: Look, voting: Voting) -> Ballot:
    a = look.assessment
    cure, proof = _vote(look, voting)
    return Ballot(
        at=a.at,
        start=a.window.start if a.window is not None else a.at,
        verdict=a.verdict,
        cause=a.cause,
        cure=cure,
        rules=look.votes,
        proof=proof,
        speedup=a.speedup,
        acceptance_rate=a.acceptance_rate,
        running=a.load.running,
    )


def _vote(look: Look, voting: Voting) -> tuple[Cure, str]:
    heard = [rule for rule in look.votes if not voting.rules or rule in voting.rules]
    if not heard:
        return Cure.NOTHING, "no rule with a vote fires"
    cause = look.assessment.cause
    cure = voting.cures.get(cause, Cure.NOTHING)
    if cure is Cure.NOTHING:
        return cure, f"moving traffic does not cure {(cause or 'this').replace('_', ' ')}"
    proof = _proof(look.assessment, voting)
    return (cure, proof) if proof else (Cure.NOTHING, "the interval proves no loss")


def _proof(a: Assessment, voting: Voting) -> str:
    """What proves the loss by the far limit of an interval, or nothing."""
    speedup, rate, bound = a.speedup, a.acceptance_rate, voting.acceptance_below
    if speedup is not None and _is_below(speedup, voting.speedup_below):
        return f"{words.times(speedup)} of plain decoding{words.at_load(a.load)}"
    if a.cause is Cause.DRAFTER_DEAD and a.verdict is Verdict.HARMFUL:
        return "the drafter is dead"
    if rate is not None and bound is not None and _is_below(rate, bound):
        return f"{words.percent(rate.value)} of draft tokens accepted{words.at_load(a.load)}"
    return ""


def _is_below(estimate: Estimate, bound: float) -> bool:
    return estimate.high is not None and estimate.high < bound


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the windows of a service say together."""

    cure: Cure = Cure.NOTHING
    cause: Cause | None = None
    why: str = ""
    """One sentence with the numbers."""
    is_well: bool = False
    """Each judged target has had as many windows without a vote as a vote would need."""
    is_flapping: bool = False
    running: float | None = None
    """Running requests of all targets."""
    counted: Mapping[str, list[Ballot]] = field(default_factory=dict)
    """The ballots that were counted, by target."""

    @property
    def windows(self) -> dict[str, Any]:
        """They as JSON values, for the audit."""
        return {target: [b.document() for b in found] for target, found in self.counted.items()}


def opine(
    box: Box, voting: Voting, now: float, *, since: float = 0.0, good: int | None = None
) -> Opinion:
    """What the ballots say at ``now``.

    Args:
        box: the ballots.
        voting: how they are counted.
        now: windows older than ``voting.within`` count no more.
        since: only windows that began later count.
        good: how many windows without a vote make a target well; None: as many as hurt it.
    """
    counted = {
        target: recent
        for target, voter in sorted(box.voters.items())
        if (recent := _recent(voter.ballots, voting, now, since))
    }
    hurt = {target: found for target, found in counted.items() if _is_hurt(found, voting)}
    # Who cannot be seen may be well: a few that can be seen do not speak for all.
    judged = len(counted.keys() | {name for name, voter in box.voters.items() if voter.blind})
    flapping = sum(voter.flapping for voter in box.voters.values())
    known = [v.running for v in box.voters.values() if v.running is not None]
    needed = voting.needed if good is None else good
    opinion = Opinion(
        is_well=bool(counted) and all(_is_well(found, needed) for found in counted.values()),
        is_flapping=flapping > 0 and flapping >= voting.quorum * judged,
        running=sum(known) if known else None,
        counted=counted,
    )
    if not hurt or len(hurt) < voting.quorum * judged:
        return opinion
    newest = [found[-1] for found in hurt.values()]
    # The most frequent one decides; of equals, the first target by name.
    cause, cure = Counter((b.cause, b.cure) for b in newest).most_common(1)[0][0]
    return replace(opinion, cure=cure, cause=cause, why=_why(hurt, judged, cause), is_well=False)


def _recent(ballots: tuple[Ballot, ...], voting: Voting, now: float, since: float) -> list[Ballot]:
    return [b for b in ballots if b.start >= since and 0.0 <= now - b.at <= voting.within]


def _is_hurt(ballots: list[Ballot], voting: Voting) -> bool:
    # What hurt some windows ago and does no more is no reason to move anything.
    votes = sum(b.cure is not Cure.NOTHING for b in ballots)
    return votes >= voting.needed and ballots[-1].cure is not Cure.NOTHING


def _is_well(ballots: list[Ballot], needed: int) -> bool:
    newest = ballots[-needed:]
    return len(newest) == needed and all(b.cure is Cure.NOTHING for b in newest)


def _why(hurt: Mapping[str, list[Ballot]], judged: int, cause: Cause | None) -> str:
    target, ballots = min(hurt.items())
    votes = sum(b.cure is not Cure.NOTHING for b in ballots)
    others = f" and {len(hurt) - 1} more of {judged} targets" if len(hurt) > 1 else ""
    reason = f" ({cause.replace('_', ' ')})" if cause is not None else ""
    return (
        f"{votes} of the last {len(ballots)} windows of {target}{others} show a loss:"
        f" {ballots[-1].proof}{reason}"
    )
