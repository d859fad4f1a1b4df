"""What is tried: thresholds, alert rules and policies, other ones or those in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from monitor.alerting.rules import Rule
from monitor.rollback.settings import Policy
from monitor.settings import TargetSettings


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to decide."""

    name: str
    rules: Sequence[Rule]
    policies: Mapping[str, Policy] = field(default_factory=dict)
    """By service, as far as they differ from ``policy``."""
    policy: Policy = field(default_factory=Policy)
    """When traffic of all other services would be moved."""
    threshold: float | None = None
    """Acceptance rate, in place of the configured one. Set like this it raises its alert always,
    as one does that is set for a service."""
    dead_band: float | None = None

    def settings(self, target: TargetSettings) -> TargetSettings:
        """How a target is judged by this variant."""
        judge = target.judge
        if self.threshold is not None:
            judge = replace(judge, threshold=self.threshold)
        if self.dead_band is not None:
            judge = replace(judge, dead_band=self.dead_band)
        is_set = target.threshold_is_set or self.threshold is not None
        return replace(target, judge=judge, threshold_is_set=is_set)

    def policy_of(self, service: str) -> Policy:
        """When traffic of a service would be moved."""
        return self.policies.get(service, self.policy)

    def with_policies(self, change: Callable[[Policy], Policy]) -> Variant:
        """The same with each policy changed."""
        changed = {service: change(policy) for service, policy in self.policies.items()}
        return replace(self, policies=changed, policy=change(self.policy))
