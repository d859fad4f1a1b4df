"""What the speculative replicas of each service say of their acceptance at this moment."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from typing import NamedTuple

from monitor.health.peers import NO_PEERS, Peers, Sign, sign_of
from monitor.model import Assessment
from monitor.settings import Role, TargetSettings

SETTLE_SECONDS = 120.0
"""How long a replica must have fallen before its peers are asked.

Where the traffic changes, all replicas fall, but not in the same second; the first of them is
not to be restarted for being the first.
"""


class _Said(NamedTuple):
    service: str
    sign: Sign
    since: float


class Neighbours:
    """Tells a replica that fell how many of its peers fell too and how many did not.

    The signs are counted as they change, so that a service of hundreds of replicas costs each
    of them no more than a service of two. Times are UTC seconds. Any thread may call any method.
    """

    def __init__(self) -> None:
        self._said: dict[str, _Said] = {}
        self._counts: defaultdict[str, Counter[Sign]] = defaultdict(Counter)
        self._lock = threading.Lock()

    def tell(self, target: TargetSettings, assessment: Assessment, now: float) -> None:
        """Takes in the newest assessment of a replica; plain servers have no say."""
        sign = sign_of(assessment) if target.role is Role.SPECULATIVE else None
        with self._lock:
            before = self._said.get(target.name)
            if before is not None and before[:2] == (target.service, sign):
                return
            self._remove(target.name)
            if sign is not None:
                self._put(target, sign, now)

    def sign(self, name: str) -> tuple[Sign, float] | None:
        """What a replica says of its acceptance, and since when."""
        with self._lock:
            said = self._said.get(name)
            return None if said is None else (said.sign, said.since)

    def restore(self, target: TargetSettings, sign: Sign, since: float) -> None:
        """Takes in what a replica said when the looks at it were last interrupted."""
        with self._lock:
            self._remove(target.name)
            self._put(target, sign, since)

    def forget(self, name: str) -> None:
        """Leaves out a target that is no longer watched."""
        with self._lock:
            self._remove(name)

    def around(self, target: TargetSettings, now: float) -> Peers:
        """How the others of its service do; ``NO_PEERS`` for one that has not clearly fallen."""
        with self._lock:
            own = self._said.get(target.name)
            if own is None or own.sign is not Sign.FALLEN or now - own.since < SETTLE_SECONDS:
                return NO_PEERS
            counts = self._counts[own.service]
            return Peers(fallen=counts[Sign.FALLEN] - 1, steady=counts[Sign.STEADY])

    def _put(self, target: TargetSettings, sign: Sign, since: float) -> None:
        self._said[target.name] = _Said(target.service, sign, since)
        self._counts[target.service][sign] += 1

    def _remove(self, name: str) -> None:
        known = self._said.pop(name, None)
        if known is not None:
            self._counts[known.service][known.sign] -= 1
