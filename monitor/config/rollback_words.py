"""What the monitor would do about a service that is hurt, in words, for ``config check``."""

from __future__ import annotations

from monitor.alerting.wording import duration
from monitor.rollback.asks import attainable
from monitor.rollback.settings import Limits, Mode, Policy, Voting
from monitor.settings import RollbackSettings

_CHANGES_NOTHING = {
    Mode.OBSERVE: "the monitor would say so in the audit, and move nothing",
    Mode.PROPOSE: "the monitor proposes to move its traffic, waits {approval} for approval,",
    Mode.ACT: "the monitor moves its traffic",
}


def rollback_sentence(settings: RollbackSettings) -> str:
    """When it would act, what it would do, and what holds it back."""
    policy = settings.policy
    when = f"rollback {policy.mode.value}: when {_when(policy.voting)}, "
    if policy.mode is Mode.OBSERVE or settings.actuator is None:
        return when + _CHANGES_NOTHING[Mode.OBSERVE]
    policy = attainable(policy, settings.actuator.reachable)
    does = _CHANGES_NOTHING[policy.mode].format(approval=duration(policy.limits.approval))
    return f"{when}{does} {_how(policy)}; {_limits(policy.limits)}; {_servers(policy)}"


def _when(voting: Voting) -> str:
    rules = f" ({', '.join(voting.rules)})" if voting.rules else ""
    return (
        f"{voting.needed} of the last {voting.of} windows of {_percent(voting.quorum)} of the "
        f"targets vote for it{rules}"
    )


def _how(policy: Policy) -> str:
    hold = duration(policy.shift.hold)
    if policy.shift.steps == (1.0,):
        return "to the plain servers at once"
    steps = ", ".join(map(_percent, policy.shift.steps))
    return f"to the plain servers in steps of {steps}, each watched for {hold}"


def _limits(limits: Limits) -> str:
    text = f"at most {limits.per_day} a day, {duration(limits.cooldown)} apart"
    if limits.quiet:
        text += f"; it only proposes in {' and '.join(map(str, limits.quiet))}"
    return text


def _servers(policy: Policy) -> str:
    start = policy.start
    if start.can_start:
        return f"plain servers that do not run are started, up to {duration(start.at_most)}"
    return "plain servers must be running already: no starter is configured"


def _percent(share: float) -> str:
    return f"{100.0 * share:.4g} %"
