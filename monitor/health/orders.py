"""What an operator may order about the learnt normal of a target."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.health.pace import Pace
from monitor.health.target import TargetState
from monitor.health.watch import Watch, fingerprint


class OrderKind(StrEnum):
    """What to do with the reference of the server that is watched now."""

    PIN = "pin"
    """Let this rate count as normal; nothing is learnt meanwhile."""
    UNPIN = "unpin"
    """Go back to what was learnt."""
    RESET = "reset"
    """Forget what was learnt and begin anew."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order; ``rate`` belongs to a pin."""

    kind: OrderKind
    rate: float | None = None


def apply_order(state: TargetState, order: Order) -> bool:
    """Carries an order out; False while it is not known which server it is about.

    Evidence that was collected against another normal says nothing about the new one, so the
    detectors begin at zero. References of other kinds of servers are left alone.
    """
    if state.identity.engine is None:
        return False
    watch = state.memory.watch
    if order.kind is OrderKind.RESET:
        own = fingerprint(state.identity)
        kept = {key: found for key, found in watch.references.items() if key != own}
        pace = Pace()
    else:
        reference = watch.reference(state.identity)
        reference.pin(order.rate if order.kind is OrderKind.PIN else None)
        kept, pace = watch.references, watch.pace
    state.memory.watch = Watch(references=kept, k=watch.k, pace=pace)
    return True
