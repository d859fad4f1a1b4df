"""When many services are hurt at once, the monitor is suspect, and nothing moves any more.

A new version of an engine renames a counter, a clock is wrong, a baseline is mistaken: then all
services look hurt, and a rollback of all of them would be the harm. So that freezes everything
that is not on its way back, calls a person once, and stays until that person lifts it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from monitor.health import words
from monitor.model import StoreError
from monitor.rollback.model import Command, Kind, News, Order, Phase
from monitor.rollback.settings import FleetPolicy, Mode

FLEET = "*"
"""Stands for all services, where otherwise one is named."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is remembered of all services together."""

    since: Mapping[str, float] = field(default_factory=dict)
    """When each service that is hurt became so."""
    frozen_at: float | None = None
    why: str = ""
    at: float = 0.0
    """When it was last looked at."""

    @property
    def plan(self) -> str | None:
        """What the freeze is called, where otherwise a plan is named."""
        return None if self.frozen_at is None else f"all-{self.frozen_at:.0f}"

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(asdict(self), separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Fleet:
        """Reads what ``to_json`` wrote; raises ``StoreError`` where it is something else."""
        try:
            given = json.loads(text)
            since = {str(name): float(at) for name, at in given["since"].items()}
            return cls(since, given["frozen_at"], str(given["why"]), float(given["at"]))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise StoreError("the stored state of the fleet cannot be read") from None


def survey(
    fleet: Fleet, hurt: Mapping[str, bool | None], policy: FleetPolicy, now: float
) -> tuple[Fleet, tuple[News, ...]]:
    """The fleet after a look at all services.

    Args:
        fleet: as it was.
        hurt: for each watched service, whether its windows ask for a rollback; None where
            they do not tell, so that what was known of it still holds.
        policy: how many are too many.
        now: the time, UTC.
    """
    bad = [name for name, is_hurt in hurt.items() if is_hurt]
    since = {name: at for name, at in fleet.since.items() if hurt.get(name, False) is None}
    since |= {name: min(fleet.since.get(name, now), now) for name in bad}
    fleet = replace(fleet, since=since, at=now)
    fresh = [name for name, at in since.items() if now - at <= policy.within]
    if fleet.frozen_at is not None or len(fresh) < max(policy.least, policy.share * len(hurt)):
        return fleet, ()
    why = (
        f"{len(fresh)} of {len(hurt)} services became bad within {words.duration(policy.within)}:"
        " the monitor itself may be wrong"
    )
    frozen = replace(fleet, frozen_at=now, why=why)
    said = f"All rollbacks are frozen: {why}; 'monitor rollback rearm --all' goes on"
    news = _news(frozen, Kind.FROZEN, said)
    return frozen, (replace(news, pages=True, evidence={"services": sorted(fresh)}),)


def answer(fleet: Fleet, command: Command, now: float) -> tuple[Fleet, tuple[News, ...]]:
    """Lifts the freeze where that is ordered; those that are hurt now do not count again."""
    fleet, who = replace(fleet, at=now), command.who
    if why := _refusal(fleet, command):
        return fleet, (replace(_news(fleet, Kind.REFUSED, why), who=who),)
    news = _news(fleet, Kind.REARMED, f"{who} lets rollbacks go on")
    return Fleet(dict.fromkeys(fleet.since, 0.0), at=now), (replace(news, who=who),)


def _refusal(fleet: Fleet, command: Command) -> str:
    if command.order is not Order.REARM:
        return "All services together can only be re-armed"
    if fleet.frozen_at is None:
        return "Nothing is frozen"
    if command.plan not in {None, fleet.plan}:
        return (
            f"The order is about an earlier freeze, {command.plan}: look at this one, {fleet.plan}"
        )
    return ""


def _news(fleet: Fleet, kind: Kind, sentence: str) -> News:
    return News(
        service=FLEET,
        at=fleet.at,
        kind=kind,
        mode=Mode.ACT,
        phase=Phase.HELD if kind is Kind.FROZEN else Phase.ARMED,
        sentence=sentence,
        plan=fleet.plan,
    )
