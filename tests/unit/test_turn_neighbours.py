"""What replicas learn of each other."""

from __future__ import annotations

from dataclasses import replace

from monitor.health.peers import NO_PEERS, Peers
from monitor.model import Action, Assessment, Cause, Verdict
from monitor.settings import Role, TargetSettings
from monitor.turn.neighbours import SETTLE_SECONDS, Neighbours

LATER = SETTLE_SECONDS
A, B, C = (TargetSettings(name, "chat", f"{name}:8000") for name in "abc")
OTHER = TargetSettings("d", "search", "d:8000")
PLAIN = TargetSettings("e", "chat", "e:8000", role=Role.BASELINE)


def said(verdict: Verdict, cause: Cause | None = None) -> Assessment:
    return Assessment("a", 0.0, verdict, cause, Action.NONE, "a sentence")


FALLEN, STEADY, SILENT = (
    said(v) for v in (Verdict.DEGRADED, Verdict.HEALTHY, Verdict.INSUFFICIENT)
)


def test_a_replica_that_fell_hears_of_the_others_of_its_service_only() -> None:
    neighbours = Neighbours()
    for target, assessment in (
        (A, FALLEN), (B, FALLEN), (C, STEADY), (OTHER, FALLEN), (PLAIN, STEADY)
    ):  # fmt: skip
        neighbours.tell(target, assessment, 0.0)
    assert neighbours.around(A, LATER) == Peers(fallen=1, steady=1)
    assert neighbours.around(OTHER, LATER) == NO_PEERS
    assert neighbours.around(C, LATER) == NO_PEERS


def test_the_first_to_fall_waits_for_the_others() -> None:
    neighbours = Neighbours()
    neighbours.tell(B, STEADY, 0.0)
    neighbours.tell(A, FALLEN, 100.0)
    neighbours.tell(A, FALLEN, 115.0)
    assert neighbours.around(A, 99.0 + SETTLE_SECONDS) == NO_PEERS
    assert neighbours.around(A, 100.0 + SETTLE_SECONDS) == Peers(steady=1)


def test_who_no_longer_answers_or_is_no_longer_watched_has_no_say() -> None:
    neighbours = Neighbours()
    for target in (A, B, C):
        neighbours.tell(target, FALLEN, 0.0)
    neighbours.tell(B, SILENT, 15.0)
    assert neighbours.around(A, LATER) == Peers(fallen=1)
    neighbours.forget("c")
    neighbours.forget("c")
    assert neighbours.around(A, LATER) == NO_PEERS


def test_a_replica_that_moves_to_another_service_is_counted_there() -> None:
    neighbours = Neighbours()
    neighbours.tell(A, FALLEN, 0.0)
    neighbours.tell(B, STEADY, 0.0)
    neighbours.tell(replace(B, service="search"), STEADY, 15.0)
    assert neighbours.around(A, LATER) == NO_PEERS


def test_a_fall_for_another_reason_than_acceptance_says_nothing_to_the_peers() -> None:
    neighbours = Neighbours()
    neighbours.tell(A, FALLEN, 0.0)
    neighbours.tell(B, said(Verdict.HARMFUL, Cause.STEP_COST), 0.0)
    assert neighbours.around(A, LATER) == NO_PEERS
