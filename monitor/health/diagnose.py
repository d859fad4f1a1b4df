"""Why: the cause behind low acceptance or a loss, with one action for it.

The ordered rules of docs/statistics.md. On clearly separated faults they are right in over
90 % of cases, on overlapping ones in 81–85 %: so they say "suspect" and show their figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from monitor.health import words
from monitor.health.past import Past
from monitor.health.peers import Peers
from monitor.model import Action, Cause, Position

DEAD_TAIL_RATE = 0.05
HEALTHY_FIRST = 0.30
BAD_FIRST = 0.40
"""Acceptance of the first draft token below which not even the easy guess is right."""
LOST_FIRST = 0.6
"""Share of its normal that the first position keeps unless the integration is at fault."""
LOST_LATER = 0.7
"""The same for the mean of the second and third position, conditional on those before."""
LOAD_GROWN = 1.5
_TRAFFIC_OR_SERVER = frozenset({Cause.DOMAIN_SHIFT, Cause.WEAK_DRAFTER})
"""Causes that the figures of one replica alone cannot tell apart for certain."""


class Diagnosis(NamedTuple):
    """A cause, what to do about it and the clause that says what points to it."""

    cause: Cause
    action: Action
    because: str


def diagnose(table: Sequence[Position], past: Past) -> Diagnosis:
    """The most likely cause of acceptance that is too low."""
    return _beside_peers(_alone(table, past), past.peers)


def _beside_peers(found: Diagnosis, peers: Peers) -> Diagnosis:
    """What the other replicas add: if all fell together it was the traffic."""
    if found.cause not in _TRAFFIC_OR_SERVER or peers.fallen + peers.steady == 0:
        return found
    if peers.steady == 0:
        return Diagnosis(
            Cause.DOMAIN_SHIFT,
            Action.CHECK_LOAD,
            f"all {peers.fallen + 1} replicas fell together: the traffic has changed",
        )
    if peers.fallen == 0:
        return Diagnosis(
            Cause.REPLICA_OUTLIER,
            Action.RESTART,
            f"this replica alone fell, {peers.steady} others did not: it is not the traffic",
        )
    return found


def _alone(table: Sequence[Position], past: Past) -> Diagnosis:
    """The cause as far as this target's own figures tell."""
    rate = past.changes.rate
    if past.slides and rate is not None:
        return Diagnosis(
            Cause.UPTIME_DECAY,
            Action.RESTART,
            f"acceptance has been sliding from {words.percent(rate.before)} since"
            f" {words.clock(rate.at)} while the server ran; a restart cures that",
        )
    if past.came_with_restart:
        cause = Cause.VERSION_CHANGE if past.version_changed else Cause.SPECULATOR_CHANGED
        what = "another release" if past.version_changed else "another build or drafter"
        return Diagnosis(
            cause, Action.CHECK_CONFIG, f"it fell at a restart, which may have brought {what}"
        )
    if has_dead_tail(table):
        tail = dead_tail_start(table)
        return Diagnosis(
            Cause.DEAD_TAIL,
            Action.LOWER_K,
            f"draft positions from {tail} on are hardly ever accepted:"
            f" draft {words.number(tail, 'token')} instead of {len(table)}",
        )
    return _by_positions(table, past.expected_rates, past)


def _by_positions(table: Sequence[Position], normal: Sequence[float], past: Past) -> Diagnosis:
    fallen = past.expected_rate is not None
    if not table or not normal:
        if fallen:
            return _domain_shift()
        return Diagnosis(
            Cause.WEAK_DRAFTER, Action.CHECK_CONFIG, "check that drafter and model belong together"
        )
    first, later, was_later = table[0].rate, _later(table), _later_of(normal)
    if first < BAD_FIRST and first < LOST_FIRST * normal[0]:
        return Diagnosis(
            Cause.INTEGRATION_SUSPECT,
            Action.ROLL_BACK,
            f"even the first draft token is accepted only {words.percent(first)} of the time"
            f" ({words.percent(normal[0])} before): suspect the integration",
        )
    if later is not None and was_later is not None and later < LOST_LATER * was_later:
        return Diagnosis(
            Cause.WEAK_DRAFTER,
            Action.LOWER_K,
            "the first draft token is as good as before and the later ones are not:"
            " suspect a drafter that has lost its context",
        )
    return _domain_shift()


def _domain_shift() -> Diagnosis:
    return Diagnosis(
        Cause.DOMAIN_SHIFT,
        Action.CHECK_LOAD,
        "all positions are weaker alike: suspect other prompts than before",
    )


def cause_of_loss(table: Sequence[Position], past: Past, *, accepts_enough: bool) -> Diagnosis:
    """The most likely cause of decoding slower than without speculation."""
    if not accepts_enough:
        return diagnose(table, past)
    load, before = past.changes.load, past.changes.speedup_before
    paid = before is not None and before > 1.0
    if load is not None and paid and load.after > LOAD_GROWN * load.before:
        return Diagnosis(
            Cause.LOAD_CROSSOVER,
            Action.CHECK_LOAD,
            f"it paid at {load.before:.0f} running requests and does not at {load.after:.0f}",
        )
    return Diagnosis(
        Cause.STEP_COST,
        Action.ROLL_BACK,
        "enough is accepted, a step with drafts costs too much",
    )


def dead_tail_start(table: Sequence[Position]) -> int:
    """The first position from which on nothing worth the work is accepted."""
    alive = [p.position for p in table if p.rate >= DEAD_TAIL_RATE]
    return max(alive, default=-1) + 1


def has_dead_tail(table: Sequence[Position]) -> bool:
    """Whether half of the draft tokens or more are never accepted behind a healthy first."""
    if len(table) < 2 or table[0].rate < HEALTHY_FIRST:  # noqa: PLR2004
        return False
    return len(table) - dead_tail_start(table) >= len(table) / 2.0


def _later(table: Sequence[Position]) -> float | None:
    """Mean conditional acceptance of the second and third position."""
    return _later_of([p.rate for p in table])


def _later_of(rates: Sequence[float]) -> float | None:
    pairs = [(rates[i], rates[i - 1]) for i in (1, 2) if i < len(rates) and rates[i - 1] > 0.0]
    return sum(a / b for a, b in pairs) / len(pairs) if pairs else None
