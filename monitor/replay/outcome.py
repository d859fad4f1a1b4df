"""What a replay has found, and the sentences that say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from monitor.alerting.model import Notification, Reason
from monitor.health import words

BRIEF = 600.0
"""Seconds within which an alert that ended was hardly worth being told of."""


@dataclass(slots=True)
class Fired:
    """One incident, from its first message to its last."""

    rule: str
    target: str
    severity: str
    at: float
    ended_at: float | None = None

    @property
    def was_brief(self) -> bool:
        """Whether it recovered within ten minutes."""
        return self.ended_at is not None and self.ended_at - self.at <= BRIEF


@dataclass(frozen=True, slots=True)
class Move:
    """One time at which traffic would have been moved."""

    at: float
    cure: str
    sentence: str
    noticed_at: float | None
    """When somebody was first told of it, or acted on it, as it is stored; or as was said."""
    ended_at: float | None
    """When the loss ended; None where it had not at the end of the past."""
    gpu_hours: float | None
    """What was lost from then until it ended; None where no baseline tells."""


@dataclass(slots=True)
class Found:
    """What one variant would have done about one service."""

    service: str
    looks: int = 0
    incidents: dict[str, Fired] = field(default_factory=dict)
    """By id, in the order in which they were told."""
    told: list[Notification] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)

    @property
    def fired(self) -> list[Fired]:
        """The incidents."""
        return [*self.incidents.values()]

    @property
    def brief(self) -> int:
        """How many of them recovered within ten minutes."""
        return sum(incident.was_brief for incident in self.incidents.values())

    @property
    def gpu_hours(self) -> float | None:
        """What all moves together would have saved."""
        known = [move.gpu_hours for move in self.moves if move.gpu_hours is not None]
        return sum(known) if known else None

    def tell(self, told: Sequence[Notification]) -> None:
        """Takes in what would have been told after one look."""
        for message in told:
            self.told.append(message)
            incident = self.incidents.get(message.incident)
            if incident is None and message.reason is not Reason.RESOLVED:
                self.incidents[message.incident] = Fired(
                    message.rule, message.target, message.severity.value, message.at
                )
            elif incident is not None and message.reason is Reason.RESOLVED:
                incident.ended_at = message.at


def sentences(found: Found) -> list[str]:
    """What would have happened, one sentence for each rule and each move."""
    rules: dict[str, list[Fired]] = {}
    for incident in found.fired:
        rules.setdefault(incident.rule, []).append(incident)
    said = [_rule(rule, incidents) for rule, incidents in rules.items()]
    return [*(said or ["no alert would have been told"]), *_moves(found)]


def _rule(rule: str, incidents: Sequence[Fired]) -> str:
    targets = {incident.target for incident in incidents}
    where = f" ({next(iter(targets))})" if len(targets) == 1 else f" ({len(targets)} targets)"
    text = f"rule {rule} would have fired {_times(len(incidents))}{where}"
    brief = sum(incident.was_brief for incident in incidents)
    still = sum(incident.ended_at is None for incident in incidents)
    if brief:
        text += f", {brief} recovered within 10 minutes"
    return f"{text}, {still} had not ended" if still else text


def _moves(found: Found) -> list[str]:
    if not found.moves:
        return ["rollback would have moved no traffic"]
    head = f"rollback would have moved traffic {_times(len(found.moves))}"
    if len(found.moves) == 1:
        return [f"{head}: {_move(found.moves[0])}"]
    return [f"{head}:", *(f"  {_move(move)}" for move in found.moves)]


def _move(move: Move) -> str:
    text = f"on {_moment(move.at)} ({move.cure.replace('_', ' ')})"
    if move.noticed_at is not None:
        lead = move.noticed_at - move.at
        when = "before" if lead >= 0.0 else "after"
        text += f", {words.duration(abs(lead))} {when} it was noticed"
    if move.gpu_hours is not None:
        text += f"; saved {move.gpu_hours:.3g} GPU-hours"
    return text


def _moment(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    return f"{moment.day} {moment:%B %Y at %H:%M} UTC"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
