"""What is remembered of the rollback of one service, and its JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from monitor.model import StoreError
from monitor.rollback.evidence import Completion, Pulse, Side
from monitor.rollback.model import Do, Phase, Step
from monitor.rollback.settings import Cure, Mode

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """One rollback, from the vote that asked for it until traffic is back or parked."""

    id: str
    at: float
    mode: Mode
    cure: Cure
    why: str
    """The windows that asked for it, in one sentence."""
    cause: str | None = None
    fingerprint: str = ""
    """Which speculative side was found to hurt; empty where none was."""
    model: str | None = None
    """The model that the baseline side must serve."""
    path: tuple[float, ...] = ()
    """Shares of the baseline side that this stage sets, one after the other."""
    leg: int = 0
    """How many of them have been set."""
    who: str | None = None
    """Who asked for it or approved of it."""
    approved_at: float | None = None
    """When they did."""
    is_automatic: bool = True
    """False where an operator asked for it without any votes."""
    is_exempt: bool = False
    """Whether neither a freeze nor a silence holds it up: an operator's order, or the way back
    from a trial."""
    is_checked: bool = False
    """Whether the side that is to get traffic has passed its check in this stage."""
    is_started: bool = False
    """Whether the baseline side was told to start."""
    is_blocked: bool = False
    """Whether a person has been told that there is no healthy baseline side."""
    is_back: bool = False
    """Whether this is the way back to the speculative side."""
    top: float = 1.0
    """Share of the baseline side that a trial falls back to."""
    trial_at: float | None = None
    """When the speculative side first got traffic again."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A speculative side that was rolled back from."""

    fingerprint: str
    at: float
    plan: str


@dataclass(frozen=True, slots=True)
class State:
    """Where the rollback of one service stands; everything that is remembered.

    Durations are watched seconds: neither the downtime of the daemon nor a step of the clock
    completes a hold or a deadline.
    """

    service: str
    phase: Phase = Phase.ARMED
    at: float = 0.0
    """When it was last stepped."""
    since: float = 0.0
    """When the phase began."""
    watched: float = 0.0
    """Watched seconds in this phase."""
    plan: Plan | None = None
    step: Step | None = None
    """The act that is outstanding."""
    steps: int = 0
    """Acts of this plan so far, for their ids."""
    tries: int = 0
    """Tries of the outstanding act."""
    share: float = 0.0
    """Share of the baseline side that was set last."""
    is_unsure: bool = False
    """Whether an act has failed since, and nobody knows what it did."""
    origin: float = 0.0
    """The share that it had before the first step."""
    why: str = ""
    """Why it is being undone, held or blocked."""
    ends: Phase = Phase.FAILED
    """Where undoing leads to."""
    is_cornered: bool = False
    """Undoing has failed: only a person can go on."""
    blind: float = 0.0
    """Watched seconds in which the figures did not tell."""
    stuck: float = 0.0
    """Watched seconds without progress of a server that loads."""
    mark: str = ""
    """What its progress was known by."""
    misses: int = 0
    """Looks in a row by which the baseline side served badly."""
    speculative_misses: int = 0
    """Looks in a row in which the speculative side did not answer."""
    fault: str = ""
    """What was wrong with the baseline side at the last of them."""
    baseline: Side = field(default_factory=Side)
    """The first look at the baseline side in this phase."""
    speculative: Side = field(default_factory=Side)
    """The same of the speculative side."""
    probed: tuple[float, float] = (0.0, 0.0)
    """Tokens that the monitor itself has asked for since then: of the baseline side, and of the
    speculative one."""
    speed: float | None = None
    """TPOT of the speculative side before the first step, in seconds."""
    fingerprint: str = ""
    """What the speculative side is by its newest pages."""
    model: str | None = None
    """The model that it serves, by the same."""
    serial: int = 0
    """Number of the last plan: seconds since the epoch, or one more where that was taken."""
    plans: tuple[float, ...] = ()
    """When plans began by themselves in the last day."""
    ended_at: float | None = None
    """When the last plan ended."""
    restarted_at: float | None = None
    """When the speculative side was last restarted."""
    rejected: tuple[Rejected, ...] = ()

    @property
    def is_moved(self) -> bool:
        """Whether the plan has moved traffic, or may have."""
        acts = self.step is not None and self.step.do in {Do.SHIFT, Do.RESTORE}
        differs = self.is_unsure or self.share != self.origin
        return acts or differs or self.phase in {Phase.TRIAL, Phase.HELD}

    def to_json(self) -> str:
        """JSON text; a few hundred bytes while nothing is planned."""
        default = State(self.service)
        kept = {
            f.name: _plain(getattr(self, f.name))
            for f in fields(self)
            if getattr(self, f.name) != getattr(default, f.name)
        }
        document = {"format": FORMAT, "service": self.service, **kept}
        return json.dumps(document, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> State:
        """Reads what ``to_json`` wrote; keys that are not known are passed over.

        Raises:
            StoreError: the text is something else, or of a later version.
        """
        try:
            document = json.loads(text)
            given, version = dict(document), document["format"]
        except (ValueError, TypeError, KeyError):
            raise StoreError("the stored state of a rollback cannot be read") from None
        if version != FORMAT:
            raise StoreError(
                f"the stored state of a rollback has format {version!r}, this monitor reads"
                f" {FORMAT}: run the version that wrote it"
            )
        try:
            return cls(**_known(cls, given | _parts(given)))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise StoreError("the stored state of a rollback cannot be read") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Plan | Step | Side):
        return asdict(value)
    if isinstance(value, tuple):
        return [asdict(item) if isinstance(item, Rejected) else item for item in value]
    return value


def _known(cls: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    return {f.name: given[f.name] for f in fields(cls) if f.name in given}


def _parts(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are more than JSON."""
    read: dict[str, Callable[[Any], Any]] = {
        "phase": Phase,
        "ends": Phase,
        "plan": _plan,
        "step": _step,
        "baseline": _side,
        "speculative": _side,
        "plans": tuple,
        "probed": tuple,
        "rejected": lambda rows: tuple(Rejected(**_known(Rejected, row)) for row in rows),
    }
    return {name: of(given[name]) for name, of in read.items() if name in given}


def _plan(document: Mapping[str, Any]) -> Plan:
    given = {
        **document,
        "mode": Mode(document["mode"]),
        "cure": Cure(document["cure"]),
        "path": tuple(document["path"]),
    }
    return Plan(**_known(Plan, given))


def _step(document: Mapping[str, Any]) -> Step:
    return Step(**_known(Step, {**document, "do": Do(document["do"])}))


def _side(document: Mapping[str, Any]) -> Side:
    return Side(
        tuple(Completion(**_known(Completion, row)) for row in document["completions"]),
        tuple(Pulse(**_known(Pulse, row)) for row in document["pulses"]),
    )
