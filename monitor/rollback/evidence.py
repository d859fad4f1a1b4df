"""What is seen of both sides of a service: values that the probes fill and pure rules judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from typing import Any, NamedTuple, TypeVar

from monitor.model import Assessment


class Look(NamedTuple):
    """One tick of one target of the speculative side, as the policy takes it in."""

    assessment: Assessment
    fresh: bool
    """False where the assessment only repeats an earlier one because a page is missing."""
    votes: tuple[str, ...] = ()
    """Alert rules that vote for a rollback by this tick (``alerting.machine.votes``)."""
    flapping: bool = False
    """Whether an alert of a rule with a vote comes and goes."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What else holds while a service is judged."""

    frozen: str | None = None
    """Why nothing may move because so many services are hurt at once."""
    held: str | None = None
    """Why nothing may move by somebody's wish, such as a silence that holds rollbacks."""
    lacks: str = ""
    """What is not configured, without which nothing can be moved."""
    fingerprint: str = ""
    """What the speculative side is by its newest pages; empty where none has told."""
    model: str | None = None
    """The model that it serves, by the same."""
    annex: Mapping[str, Any] = field(default_factory=dict)
    """JSON values for the audit: hash of the configuration, row of the baseline, excerpt."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What one short completion of one server gave."""

    target: str
    at: float
    """When it was asked for."""
    seconds: float
    """How long the whole answer took."""
    tokens: int = 0
    model: str | None = None
    """The model that the answer names."""
    error: str | None = None
    """Why there is no answer, in one line; a time-out among others."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """What the metrics page of one server said at one moment; None is not told."""

    target: str
    at: float
    running: float | None = None
    waiting: float | None = None
    output_tokens: float | None = None
    """Cumulative."""
    decode_seconds: float | None = None
    """Cumulative seconds between output tokens, summed over requests."""
    decode_tokens: float | None = None
    """Cumulative; with ``decode_seconds`` it gives the TPOT between two looks."""
    requests: float | None = None
    """Cumulative requests that ended, whichever way."""
    failures: float | None = None
    """Cumulative; those of ``requests`` that ended by an error."""
    model: str | None = None
    birth: float | None = None
    """When the counters began."""
    error: str | None = None
    """Why there is no page, in one line."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A sign of life of a server that loads: any change counts as progress."""

    at: float
    mark: str
    """Whatever may change while it loads: answers of its addresses, a count of log lines."""


@dataclass(frozen=True, slots=True)
class Side:
    """One look at all servers of one side."""

    completions: tuple[Completion, ...] = ()
    pulses: tuple[Pulse, ...] = ()


TEXT_LIMIT = 300
"""Characters kept of a text that a server wrote."""


def tidy(side: Side) -> Side:
    """The same look, fit to be stored: no number that is none, no endless text."""
    return Side(
        tuple(_tidy(completion) for completion in side.completions),
        tuple(_tidy(pulse) for pulse in side.pulses),
    )


_Seen = TypeVar("_Seen", Completion, Pulse)


def _tidy(seen: _Seen) -> _Seen:
    changes: dict[str, Any] = {}
    for f in fields(seen):
        value = getattr(seen, f.name)
        if isinstance(value, float) and not isfinite(value):
            changes[f.name] = None
        elif isinstance(value, str) and len(value) > TEXT_LIMIT:
            changes[f.name] = value[: TEXT_LIMIT - 1] + "…"
    return replace(seen, **changes) if changes else seen


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at whatever the phase of a plan asks for; what was not looked at is empty."""

    at: float
    baseline: Side = field(default_factory=Side)
    speculative: Side = field(default_factory=Side)
    progress: Progress | None = None
    share: float | None = None
    """Share of the traffic that the baseline side gets, as observed."""
    detail: str = ""
    """Where traffic goes, in one line for people; or why that is not known."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a judgement found; ``ok`` is None where the figures do not tell."""

    ok: bool | None
    sentence: str
    absent: bool = False
    """Nothing answers at all: a start may help."""
    idle: bool = False
    """There is no traffic to judge by, on either side."""


def tidy_sight(sight: Sight) -> Sight:
    """The same look with sides that are fit to be stored, and a share that is one."""
    return replace(
        sight,
        baseline=tidy(sight.baseline),
        speculative=tidy(sight.speculative),
        share=known_share(sight.share),
    )


def known_share(share: float | None) -> float | None:
    """A share between none and all; anything else is not known."""
    return share if share is not None and 0.0 <= share <= 1.0 else None
