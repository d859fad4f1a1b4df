"""Several actuators, used one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from monitor.clock import Clock, SystemClock
from monitor.model import ActuatorError
from monitor.rollback.actuators.base import Act, Actuator, Traffic
from monitor.rollback.actuators.shares import CLOSE


class SeveralActuator:
    """Does everything with each of its parts, in their order.

    A part that fails ends the act, and the error says what was already done. The next try begins
    with the first part again, which changes nothing where its part is done.
    """

    def __init__(self, parts: Sequence[Actuator], *, clock: Clock | None = None) -> None:
        self._parts = tuple(parts)
        self._clock = clock or SystemClock()

    def observe(self, timeout: float) -> Traffic:
        """The share, if all parts that can tell agree on it."""
        end = self._clock.monotonic() + timeout
        found = [part.observe(self._left(end, "observe")) for part in self._parts]
        shares = [traffic.share for traffic in found if traffic.share is not None]
        agreed = bool(shares) and max(shares) - min(shares) <= CLOSE
        detail = "; ".join(traffic.detail for traffic in found)
        return Traffic(shares[0] if agreed else None, detail)

    def shift(self, share: float, act: Act) -> None:
        """Shifts each part."""
        self._each("shift", act, lambda part, own: part.shift(share, own))

    def restore(self, act: Act) -> None:
        """Restores each part, the last one first."""
        self._each("restore", act, lambda part, own: part.restore(own))

    def would(self, share: float) -> str:
        """What each part would do."""
        return "; then ".join(part.would(share) for part in self._parts)

    def reachable(self, shares: Sequence[float]) -> tuple[float, ...]:
        """What the parts can set, each bound to those before it."""
        possible = tuple(shares)
        for part in self._parts:
            possible = part.reachable(possible)
        return possible

    def _each(self, stage: str, act: Act, do: Callable[[Actuator, Act], None]) -> None:
        end = self._clock.monotonic() + act.timeout
        order = list(enumerate(self._parts, 1))
        for done, (number, part) in enumerate(reversed(order) if stage == "restore" else order):
            try:
                # An id of its own for each part, as two of them may lead to the same peer.
                own = replace(act, id=f"{act.id}/{number}", timeout=self._left(end, stage))
                do(part, own)
            except ActuatorError as error:
                raise ActuatorError(
                    f"part {number} of {len(order)}: {error} ({done} done before it)",
                    stage=stage,
                    safe_to_retry=error.safe_to_retry,
                ) from None

    def _left(self, end: float, stage: str) -> float:
        left = end - self._clock.monotonic()
        if left <= 0:
            raise ActuatorError("there was no time left for it", stage=stage)
        return left
