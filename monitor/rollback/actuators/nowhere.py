"""Stands in where nothing is configured that moves traffic."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.model import ActuatorError
from monitor.rollback.actuators.base import Act, Traffic

_WHY = "no actuator is configured, so that nothing can be moved"


class Nowhere:
    """Moves nothing, and says so; an ``Actuator``."""

    def observe(self, timeout: float) -> Traffic:  # noqa: ARG002 - the protocol's signature
        """Nothing is known of the traffic."""
        return Traffic(None, "no actuator is configured")

    def shift(self, share: float, act: Act) -> None:  # noqa: ARG002 - the protocol's signature
        """Fails for good."""
        raise ActuatorError(_WHY, stage="shift", safe_to_retry=False)

    def restore(self, act: Act) -> None:  # noqa: ARG002 - the protocol's signature
        """Fails for good."""
        raise ActuatorError(_WHY, stage="restore", safe_to_retry=False)

    def would(self, share: float) -> str:
        """What cannot be done."""
        return f"would move {100.0 * share:.4g} % to the baseline, but no actuator is configured"

    def reachable(self, shares: Sequence[float]) -> tuple[float, ...]:
        """All of them: it is for saying what would be done."""
        return tuple(sorted(set(shares)))
