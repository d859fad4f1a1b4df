"""What the owner of a service decides about rollbacks: when, how fast, and within which bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from monitor.model import Cause
from monitor.weekly import Weekly


class Mode(StrEnum):
    """How far the monitor may go by itself."""

    OBSERVE = "observe"
    """Only says what it would have done."""
    PROPOSE = "propose"
    """Asks, and waits for ``monitor rollback approve``."""
    ACT = "act"


class Cure(StrEnum):
    """What is done about a cause."""

    NOTHING = "nothing"
    """Moving traffic cannot cure it; such a window counts as no vote."""
    ROLL_BACK = "roll_back"
    RESTART = "restart"
    """Restart the speculative side first; roll back if it is bad again within a day."""
    SHIFT_ABOVE = "shift_above"
    """Move as much traffic as leaves the speculative side at ``Voting.running_limit``."""


CURES: Mapping[Cause | None, Cure] = MappingProxyType(
    {
        None: Cure.ROLL_BACK,
        Cause.DRAFTER_DEAD: Cure.ROLL_BACK,
        Cause.INTEGRATION_SUSPECT: Cure.ROLL_BACK,
        Cause.WEAK_DRAFTER: Cure.ROLL_BACK,
        Cause.DOMAIN_SHIFT: Cure.ROLL_BACK,
        Cause.VERSION_CHANGE: Cure.ROLL_BACK,
        Cause.SPECULATOR_CHANGED: Cure.ROLL_BACK,
        Cause.STEP_COST: Cure.ROLL_BACK,
        Cause.LOAD_CROSSOVER: Cure.ROLL_BACK,
        Cause.UPTIME_DECAY: Cure.RESTART,
    }
)
"""By cause; None is a loss whose cause is unknown. Causes that are left out cannot be cured."""


@dataclass(frozen=True, slots=True)
class Voting:
    """When a service counts as hurt."""

    rules: tuple[str, ...] = ()
    """Alert rules that are heard; empty: all that vote for a rollback."""
    needed: int = 3
    """M: so many of the last ``of`` valid windows of a target must vote."""
    of: int = 5
    spacing: float = 60.0
    """Seconds from one counted window of a target to the next: windows overlap."""
    within: float = 3600.0
    """Seconds after which a window counts no more."""
    quorum: float = 0.5
    """Share of the judged targets of the speculative side that must be hurt."""
    speedup_below: float = 0.95
    """A vote stands if the upper limit of the speedup lies below, or the drafter is dead."""
    acceptance_below: float | None = None
    """A vote also stands if the upper limit of the acceptance rate lies below."""
    cures: Mapping[Cause | None, Cure] = field(default_factory=lambda: CURES)
    running_limit: float | None = None
    """Running requests of the speculative side that ``Cure.SHIFT_ABOVE`` leaves there."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds a rollback back."""

    cooldown: float = 7200.0
    """Seconds from the end of a plan to the next that starts by itself."""
    per_day: int = 2
    """Plans that may start by themselves in 24 hours, proposals among them."""
    quiet: tuple[Weekly, ...] = ()
    """Hours in which nothing moves by itself: acting becomes proposing."""
    approval: float = 3600.0
    """Seconds after which a proposal, and an approval that nothing came of, is void."""


@dataclass(frozen=True, slots=True)
class Precheck:
    """What the baseline side must show before it gets traffic."""

    pause: float = 10.0
    """Least seconds between the two completions."""
    deadline: float = 60.0
    """Seconds after which a check that has not been passed counts as failed."""
    slowest: float = 30.0
    """A completion that took longer is no answer."""
    model: str | None = None
    """The model that must answer; None: the one the speculative side says it serves."""
    max_running: float | None = None
    """Running requests that one server of the baseline side can bear; None: unknown, then only
    a queue says that it is full."""
    margin: float = 1.2
    """How much more room than load there must be."""
    healthy: float = 1.0
    """Share of the servers of the side that must pass: a router may ask any of them."""
    again: float = 300.0
    """Seconds until a baseline that has failed is looked at again."""


@dataclass(frozen=True, slots=True)
class Start:
    """Bringing a server up: a large model loads for half an hour and more."""

    can_start: bool = False
    """Whether something is configured that starts the baseline side."""
    can_restart: bool = False
    """The same for a restart of the speculative side."""
    deadline: float = 2700.0
    """Seconds without any sign of progress after which it has failed."""
    at_most: float = 10_800.0
    """Seconds after which it has failed in any case."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Moving traffic in steps."""

    steps: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0)
    """Shares of the baseline side, ascending, each once; the last is where it ends."""
    hold: float = 120.0
    """Seconds for which each step must look well before the next."""
    blind: float = 600.0
    """Seconds without the figures to judge by after which a person is called."""
    act_timeout: float = 30.0
    attempts: int = 3
    retry: float = 10.0
    """Seconds between two tries of an act."""
    tolerance: float = 0.02
    """How far an observed share may lie from the one that was set."""


@dataclass(frozen=True, slots=True)
class Verify:
    """What the figures must show while traffic is being moved and once it has moved."""

    seconds: float = 300.0
    """For how long it is verified after the last step."""
    max_errors: float = 0.02
    """Share of the baseline side's requests that may fail."""
    max_tpot: float | None = None
    """Seconds per output token of the baseline side that are borne."""
    max_slower: float = 1.5
    """Bound on its TPOT by that of the speculative side before the first step, if no
    ``max_tpot`` is given."""
    max_waiting: float = 0.5
    """Waiting requests by running ones of the baseline side that are borne."""
    misses: int = 2
    """Completions in a row that must fail before a side counts as dead."""
    least_tokens: float = 20.0
    """Output tokens without which nothing is verified."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The way back after a fix."""

    share: float = 0.05
    """Share of the traffic that the speculative side gets at first."""
    hold: float = 900.0
    """Seconds for which it must look well."""
    good_windows: int = 3
    """Valid windows without a vote that are needed."""
    auto: bool = False
    """Whether it begins by itself once the speculative side is another one than was rejected."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything about the rollbacks of one service."""

    mode: Mode = Mode.OBSERVE
    voting: Voting = field(default_factory=Voting)
    limits: Limits = field(default_factory=Limits)
    precheck: Precheck = field(default_factory=Precheck)
    start: Start = field(default_factory=Start)
    shift: Shift = field(default_factory=Shift)
    verify: Verify = field(default_factory=Verify)
    trial: Trial = field(default_factory=Trial)


@dataclass(frozen=True, slots=True)
class FleetPolicy:
    """When so many services are hurt at once that the monitor itself is suspect."""

    share: float = 0.5
    """Share of all watched services."""
    least: int = 3
    """Fewer than so many hurt services never freeze anything."""
    within: float = 3600.0
    """Seconds in which they must have become hurt."""
