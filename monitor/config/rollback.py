"""The keys ``rollback`` of a service and ``rollback_freeze``: their shape, and the policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, BeforeValidator, Field

from monitor.config.problems import KeyPath, Problem, did_you_mean
from monitor.config.section import Duration, Name, Section
from monitor.model import Cause
from monitor.rollback.actuators.settings import Actuator, Starter
from monitor.rollback.settings import (
    CURES,
    Cure,
    FleetPolicy,
    Limits,
    Mode,
    Policy,
    Precheck,
    Shift,
    Start,
    Trial,
    Verify,
    Voting,
)
from monitor.weekly import parse_weekly

_VOTING, _LIMITS, _PRECHECK, _START = Voting(), Limits(), Precheck(), Start()
_LEASE_FOR_ACTS = 0.75
"""Share of the lease that is surely left at any time, less a margin."""
_NO_CURES: dict[Cause | None, Cure] = {}
_SHIFT, _VERIFY, _TRIAL, _FLEET = Shift(), Verify(), Trial(), FleetPolicy()

Count = Annotated[int, Field(ge=1, le=100)]
Part = Annotated[float, Field(gt=0, le=1)]
Speedup = Annotated[float, Field(gt=0, le=10)]
Number = Annotated[float, Field(gt=0, le=1e9)]


def _check_weekly(text: str) -> str:
    parse_weekly(text)
    return text


def _check_causes(cures: object) -> object:
    for cause in cures if isinstance(cures, dict) else ():
        if cause not in list(Cause):
            raise ValueError(f"has an unknown cause; {did_you_mean(str(cause), list(Cause))}")
    return cures


def _ascending(steps: tuple[float, ...]) -> tuple[float, ...]:
    if any(a >= b for a, b in pairwise(steps)):
        raise ValueError("must ascend, each share once, such as [0.1, 0.5, 1.0]")
    return steps


class Votes(Section):
    """When a service counts as hurt."""

    rules: tuple[Name, ...] = Field(
        _VOTING.rules, description="Alert rules that are heard. Default: all with a vote."
    )
    needed: Count = Field(_VOTING.needed, description="So many of the last windows must vote …")
    of: Count = Field(_VOTING.of, description="… of so many valid ones of a target.")
    spacing: Duration = Field(
        _VOTING.spacing, description="Least time from one counted window to the next."
    )
    within: Duration = Field(_VOTING.within, description="Older windows count no more.")
    quorum: Part = Field(
        _VOTING.quorum, description="Share of the speculative side's targets that must be hurt."
    )
    speedup_below: Speedup = Field(
        _VOTING.speedup_below, description="Limit for the upper end of the speedup's interval."
    )
    acceptance_below: Part | None = Field(
        _VOTING.acceptance_below,
        description="Limit for the upper end of the acceptance rate's interval, if it may vote.",
    )
    cures: Annotated[dict[Cause | None, Cure], BeforeValidator(_check_causes)] = Field(
        _NO_CURES,
        description="What is done about a cause, where not the default.",
    )
    running_limit: Number | None = Field(
        _VOTING.running_limit,
        description="Running requests that shift_above leaves on the speculative side.",
    )

    def voting(self) -> Voting:
        """The settings."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return Voting(**{**given, "cures": {**CURES, **self.cures}})


class PrecheckSection(Section):
    """What the baseline side must show before it gets traffic."""

    pause: Duration = Field(_PRECHECK.pause, description="Least time between two completions.")
    deadline: Duration = Field(_PRECHECK.deadline, description="Time in which both must come.")
    slowest: Duration = Field(_PRECHECK.slowest, description="A slower completion is no answer.")
    model: Name | None = Field(
        _PRECHECK.model, description="Model that must answer. Default: that of the other side."
    )
    max_running: Number | None = Field(
        _PRECHECK.max_running, description="Running requests that one plain server can bear."
    )
    margin: Annotated[float, Field(ge=1, le=10)] = Field(
        _PRECHECK.margin, description="How much more room than load there must be."
    )
    healthy: Part = Field(
        _PRECHECK.healthy, description="Share of the plain servers that must pass."
    )
    again: Duration = Field(_PRECHECK.again, description="Time until it is looked at again.")


class StartSection(Section):
    """Bringing a server up."""

    deadline: Duration = Field(_START.deadline, description="Time without any progress.")
    at_most: Duration = Field(_START.at_most, description="Time in any case.")


class ShiftSection(Section):
    """Moving traffic in steps."""

    steps: Annotated[
        tuple[Part, ...], Field(min_length=1, max_length=20), AfterValidator(_ascending)
    ] = Field(_SHIFT.steps, description="Shares of the baseline side, ascending.")
    hold: Duration = Field(_SHIFT.hold, description="How long each step is watched.")
    blind: Duration = Field(
        _SHIFT.blind, description="Time without figures after which a person is called."
    )
    act_timeout: Duration = Field(_SHIFT.act_timeout, description="Deadline of one act.")
    attempts: Count = Field(_SHIFT.attempts, description="Tries of an act.")
    retry: Duration = Field(_SHIFT.retry, description="Time between two tries.")
    tolerance: Annotated[float, Field(gt=0, le=0.5)] = Field(
        _SHIFT.tolerance, description="How far an observed share may lie from the one set."
    )


class VerifySection(Section):
    """What the figures must show while traffic is moved and after it."""

    seconds: Duration = Field(_VERIFY.seconds, description="How long after the last step.")
    max_errors: Part = Field(_VERIFY.max_errors, description="Share of requests that may fail.")
    max_tpot: Duration | None = Field(
        _VERIFY.max_tpot, description="Time per output token that is borne."
    )
    max_slower: Annotated[float, Field(ge=1, le=100)] = Field(
        _VERIFY.max_slower, description="The same, by that of the other side before."
    )
    max_waiting: Number = Field(
        _VERIFY.max_waiting, description="Waiting by running requests that are borne."
    )
    misses: Count = Field(
        _VERIFY.misses, description="Failed completions in a row that make a side dead."
    )
    least_tokens: Number = Field(
        _VERIFY.least_tokens, description="Output tokens without which nothing is verified."
    )


class TrialSection(Section):
    """The way back after a fix."""

    share: Part = Field(_TRIAL.share, description="Share that the speculative side gets first.")
    hold: Duration = Field(_TRIAL.hold, description="How long it must look well.")
    good_windows: Count = Field(
        _TRIAL.good_windows, description="Valid windows without a vote that are needed."
    )
    auto: bool = Field(
        default=_TRIAL.auto,
        description="Whether it begins by itself once the speculative side is another one.",
    )


class Rollback(Section):
    """Whether traffic may be moved to the baseline side, when, how, and how far."""

    mode: Mode = Field(Mode.OBSERVE, description="observe, propose or act.")
    votes: Votes = Votes()
    cooldown: Duration = Field(_LIMITS.cooldown, description="From the end of one to the next.")
    per_day: Annotated[int, Field(ge=0, le=100)] = Field(
        _LIMITS.per_day, description="How many may start by themselves in 24 hours."
    )
    quiet_hours: tuple[Annotated[str, AfterValidator(_check_weekly)], ...] = Field(
        (), description="Weekly hours in which acting becomes proposing."
    )
    approval: Duration = Field(
        _LIMITS.approval, description="Time after which a proposal is void."
    )
    precheck: PrecheckSection = PrecheckSection()
    start: StartSection = StartSection()
    shift: ShiftSection = ShiftSection()
    verify: VerifySection = VerifySection()
    trial: TrialSection = TrialSection()
    actuator: Actuator | None = Field(None, description="What moves traffic.")
    starter: Starter | None = Field(
        None, description="What starts the baseline side, or restarts the speculative one."
    )

    def policy(self) -> Policy:
        """The settings of the state machine."""
        starts, restarts = _can(self.starter)
        return Policy(
            mode=self.mode,
            voting=self.votes.voting(),
            limits=Limits(
                cooldown=self.cooldown,
                per_day=self.per_day,
                quiet=tuple(map(parse_weekly, self.quiet_hours)),
                approval=self.approval,
            ),
            precheck=Precheck(**_values(self.precheck)),
            start=Start(can_start=starts, can_restart=restarts, **_values(self.start)),
            shift=Shift(**_values(self.shift)),
            verify=Verify(**_values(self.verify)),
            trial=Trial(**_values(self.trial)),
        )


class RollbackFreeze(Section):
    """When so many services are hurt at once that the monitor itself is suspect."""

    share: Part = Field(_FLEET.share, description="Share of all watched services.")
    least: Annotated[int, Field(ge=2, le=1000)] = Field(
        _FLEET.least, description="Fewer hurt services never freeze anything."
    )
    within: Duration = Field(_FLEET.within, description="Time in which they became hurt.")

    def policy(self) -> FleetPolicy:
        """The settings."""
        return FleetPolicy(**_values(self))


class _Side(Protocol):
    @property
    def targets(self) -> Sequence[object]: ...


class _Service(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def rollback(self) -> Rollback | None: ...
    @property
    def baseline(self) -> _Side | None: ...


def misfits(services: Sequence[_Service], lease: float) -> Iterator[Problem]:
    """What does not fit together, also with the time of the daemon's lease."""
    for index, service in enumerate(services):
        if service.rollback is not None:
            at = ("services", index, "rollback")
            yield from _misfits(at, service.rollback, service)
            if service.rollback.shift.act_timeout > _LEASE_FOR_ACTS * lease:
                message = "is too long for the lease: an act must be over before that can run out"
                yield Problem((*at, "shift", "act_timeout"), message, depends=(("lease",),))
    yield from _shared(services)


def _shared(services: Sequence[_Service]) -> Iterator[Problem]:
    """Actuators of two services: each would move the traffic of the other, and undo its steps."""
    owners: list[tuple[Actuator, str]] = []
    for index, service in enumerate(services):
        given = service.rollback.actuator if service.rollback is not None else None
        own = [] if given is None else given.several.actuators if given.several else [given]
        for owner in (name for known, name in owners for actuator in own if known == actuator):
            message = (
                f"moves the same traffic as that of the service {owner!r}: two hands would fight"
                " over it; give each service its own, or make them one service"
            )
            yield Problem(("services", index, "rollback", "actuator"), message)
        owners += [(actuator, service.name) for actuator in own]


def unknown_rules(
    services: Sequence[_Service], known: Sequence[str]
) -> Iterator[tuple[KeyPath, str]]:
    """Names of alert rules that are not in force, and what is wrong with them."""
    for index, service in enumerate(services):
        rules = service.rollback.votes.rules if service.rollback is not None else ()
        for number, name in enumerate(rules):
            if name not in known:
                at = ("services", index, "rollback", "votes", "rules", number)
                yield at, f"is not an alert rule in force; {did_you_mean(name, known)}"


def _misfits(at: KeyPath, rollback: Rollback, service: _Service) -> Iterator[Problem]:
    votes, mode = rollback.votes, rollback.mode
    if votes.needed > votes.of:
        message = f"must not be more than of, which is {votes.of}"
        yield Problem((*at, "votes", "needed"), message, depends=((*at, "votes", "of"),))
    if (votes.needed - 1) * votes.spacing >= votes.within:
        message = "is too short for so many windows with that spacing: nothing would ever vote"
        yield Problem((*at, "votes", "within"), message)
    if Cure.SHIFT_ABOVE in votes.cures.values() and votes.running_limit is None:
        message = "has shift_above, which needs votes.running_limit: how much load may stay"
        yield Problem((*at, "votes", "cures"), message)
    if mode is Mode.OBSERVE:
        return
    if rollback.actuator is None:
        message = (
            f"is {mode.value}, which needs actuator: say there how traffic is moved, or write "
            "mode: observe"
        )
        yield Problem((*at, "mode"), message, depends=((*at, "actuator"),))
    if service.baseline is None or not service.baseline.targets:
        message = (
            f"is {mode.value}, which needs baseline.targets: the plain servers that take over; "
            "or write mode: observe"
        )
        yield Problem((*at, "mode"), message, depends=((*at[:2], "baseline"),))


def _can(starter: Starter | None) -> tuple[bool, bool]:
    """Whether something starts the baseline side, and restarts the speculative side."""
    if starter is None:
        return False, False
    if starter.http is not None:
        return True, True
    section = starter.command or starter.systemd or starter.kubernetes_deployment
    return bool(section and section.start), bool(section and section.restart)


def _values(section: Section) -> dict[str, Any]:
    return {name: getattr(section, name) for name in type(section).model_fields}
