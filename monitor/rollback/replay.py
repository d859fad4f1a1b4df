"""What would have been decided over a stored past: the same votes, the same table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from monitor.rollback.ballots import Box
from monitor.rollback.evidence import Circumstances, Look, Sight
from monitor.rollback.machine import step
from monitor.rollback.model import News
from monitor.rollback.scene import Looked
from monitor.rollback.settings import Mode, Policy
from monitor.rollback.state import State


def would_have(
    service: str,
    looks: Iterable[Look],
    policy: Policy,
    around: Callable[[float], Circumstances] = lambda _at: Circumstances(),
) -> Iterator[News]:
    """Every decision that mode ``observe`` would have written, in the order of time.

    What would have followed is not known: of a past without traffic on the baseline side nobody
    can say how it would have served. So in any mode each plan ends with its proposal.

    Args:
        service: its name.
        looks: ticks of all its targets on the speculative side, in the order of time.
        policy: the policy to try.
        around: what else held at a time, such as silences.
    """
    observing = replace(policy, mode=Mode.OBSERVE)
    state, box = State(service), Box()
    for look in looks:
        now = look.assessment.at
        box.take(look, policy.voting)
        known = replace(around(now), fingerprint=box.fingerprint, model=box.model)
        transition = step(state, Looked(box, Sight(now)), observing, known, now)
        state = transition.state
        yield from transition.news
