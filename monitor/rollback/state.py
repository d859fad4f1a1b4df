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
    """Which speculative side was judged."""
    model: str | None = None
    """The model that the baseline side must serve."""
    path: tuple[float, ...] = ()
    """Shares of the baseline side that this stage sets, one after the other."""
    leg: int = 0
    """How many of them have been set."""
    who: str | None = None
    """Who asked for it or approved of it."""
    approved_at: float | None = None
    automatic: bool = True
    """False where an operator asked for it without any votes."""
    checked: bool = False
    """Whether the baseline side has passed its check in this stage."""


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
    why: str = ""
    """Why it is being undone, held or blocked."""
    ends: Phase = Phase.FAILED
    """Where undoing leads to."""
    blind: float = 0.0
    """Watched seconds in which the figures did not tell."""
    stuck: float = 0.0
    """Watched seconds without progress of a server that loads."""
    mark: str = ""
    """What its progress was known by."""
    misses: int = 0
    """Completions of the baseline side that failed in a row."""
    before: Side = field(default_factory=Side)
    """The speculative side as it was before the first step, and what it is compared with."""
    baseline: Side = field(default_factory=Side)
    """The first look at the baseline side in this phase."""
    speculative: Side = field(default_factory=Side)
    """The same of the speculative side."""
    speed: float | None = None
    """TPOT of the speculative side before the first step, in seconds."""
    rate: float | None = None
    """Its output tokens per second before the first step."""
    plans: tuple[float, ...] = ()
    """When plans began by themselves in the last day."""
    ended_at: float | None = None
    """When the last plan ended."""
    restarted_at: float | None = None
    """When the speculative side was last restarted."""
    rejected: tuple[Rejected, ...] = ()

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
        "before": _side,
        "baseline": _side,
        "speculative": _side,
        "plans": tuple,
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
