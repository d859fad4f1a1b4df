"""Replicas of one model beside each other: did the traffic change, or one server?"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from monitor.model import Assessment, Cause, Verdict


class Sign(StrEnum):
    """What a replica's figures say about its acceptance."""

    FALLEN = "fallen"
    STEADY = "steady"


class Peers(NamedTuple):
    """How the other replicas of a service do in the same window."""

    fallen: int = 0
    steady: int = 0


NO_PEERS = Peers()

_STEADY = frozenset({Verdict.HEALTHY, Verdict.NEUTRAL, Verdict.UNPROVEN})
_NOT_BY_ACCEPTANCE = frozenset({Cause.STEP_COST, Cause.LOAD_CROSSOVER, Cause.ENGINE_OUTLIER})


def sign_of(assessment: Assessment) -> Sign | None:
    """The sign a replica gives its peers; None where it has no say, as when it is idle."""
    if assessment.verdict in _STEADY:
        return Sign.STEADY
    sick = assessment.verdict in (Verdict.DEGRADED, Verdict.HARMFUL)
    return Sign.FALLEN if sick and assessment.cause not in _NOT_BY_ACCEPTANCE else None
