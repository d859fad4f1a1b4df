"""Causes behind low acceptance, from figures like those of published faults."""

from __future__ import annotations

import pytest

from monitor.health.diagnose import cause_of_loss, diagnose
from monitor.health.past import Changes, Past
from monitor.health.peers import Peers, Sign, sign_of
from monitor.health.reference import Normal
from monitor.health.shape import Change, Kind
from monitor.model import Action, Assessment, Cause, Position, Verdict

HEALTHY = (0.74, 0.54, 0.40, 0.29)
NORMAL = Past(normal=Normal(0.49, 1, 1000.0), normal_rates=HEALTHY, drop_alarm=5.0, drop_since=3.0)
FELL = Change(Kind.STEP, 1000.0, 30.0, 0.70, 0.50)
SLID = Change(Kind.SLIDE, 1000.0, 600.0, 0.85, 0.25)


def table(*rates: float) -> tuple[Position, ...]:
    return tuple(Position(i, rate, None) for i, rate in enumerate(rates))


@pytest.mark.parametrize(
    ("rates", "past", "cause", "action"),
    [
        # Llama-4 EAGLE-3 with one token per draft: even the first position is never right.
        ((0.010, 0.0, 0.0, 0.0), NORMAL, Cause.INTEGRATION_SUSPECT, Action.ROLL_BACK),
        # A missing residual in the norm of the drafter: 0.306 instead of 0.525.
        (
            (0.306, 0.09),
            NORMAL._replace(normal_rates=(0.525, 0.27)),
            Cause.INTEGRATION_SUSPECT,
            Action.ROLL_BACK,
        ),
        ((0.72, 0.25, 0.08, 0.06), NORMAL, Cause.WEAK_DRAFTER, Action.LOWER_K),
        ((0.58, 0.38, 0.25, 0.17), NORMAL, Cause.DOMAIN_SHIFT, Action.CHECK_LOAD),
        ((0.67, 0.03, 0.01, 0.0), NORMAL, Cause.DEAD_TAIL, Action.LOWER_K),
        ((0.30, 0.10), Past(), Cause.WEAK_DRAFTER, Action.CHECK_CONFIG),
        ((), Past(changes=Changes(rate=FELL)), Cause.DOMAIN_SHIFT, Action.CHECK_LOAD),
        ((), Past(changes=Changes(rate=SLID)), Cause.UPTIME_DECAY, Action.RESTART),
        (
            (),
            Past(changes=Changes(rate=FELL), restarted_at=1010.0),
            Cause.SPECULATOR_CHANGED,
            Action.CHECK_CONFIG,
        ),
        (
            (),
            Past(changes=Changes(rate=FELL), restarted_at=1010.0, version_changed=True),
            Cause.VERSION_CHANGE,
            Action.CHECK_CONFIG,
        ),
    ],
)
def test_cause(rates: tuple[float, ...], past: Past, cause: Cause, action: Action) -> None:
    found = diagnose(table(*rates), past)
    assert (found.cause, found.action) == (cause, action)
    assert found.because


def test_a_flat_and_healthy_drafter_is_not_taken_for_a_weak_one() -> None:
    """Flat conditional acceptance is normal: easy requests reach the later positions."""
    flat = (0.74, 0.54, 0.41, 0.30, 0.22, 0.16, 0.12)
    past = NORMAL._replace(normal_rates=flat)
    assert diagnose(table(*flat), past).cause is Cause.DOMAIN_SHIFT


def test_a_slide_that_a_restart_ended_is_no_decay() -> None:
    past = Past(changes=Changes(rate=SLID), restarted_at=20_000.0)
    assert diagnose((), past).cause is not Cause.UPTIME_DECAY


def test_replicas_that_fall_together_point_at_the_traffic() -> None:
    shifted = table(0.58, 0.38, 0.25, 0.17)
    together = diagnose(shifted, NORMAL._replace(peers=Peers(fallen=3)))
    assert (together.cause, together.action) == (Cause.DOMAIN_SHIFT, Action.CHECK_LOAD)
    assert "all 4 replicas fell together" in together.because
    alone = diagnose(shifted, NORMAL._replace(peers=Peers(steady=3)))
    assert (alone.cause, alone.action) == (Cause.REPLICA_OUTLIER, Action.RESTART)
    mixed = diagnose(shifted, NORMAL._replace(peers=Peers(fallen=1, steady=2)))
    assert mixed.cause is Cause.DOMAIN_SHIFT


def test_peers_do_not_overrule_what_one_replica_shows_for_certain() -> None:
    dead_tail = table(0.67, 0.03, 0.01, 0.0)
    found = diagnose(dead_tail, NORMAL._replace(peers=Peers(steady=3)))
    assert found.cause is Cause.DEAD_TAIL


def test_loss_with_enough_accepted_is_a_matter_of_cost_or_load() -> None:
    rose = Change(Kind.STEP, 1000.0, 30.0, 4.0, 64.0)
    crossed = Past(changes=Changes(load=rose, speedup_before=1.35))
    assert cause_of_loss((), crossed, accepts_enough=True).cause is Cause.LOAD_CROSSOVER
    never_paid = Past(changes=Changes(load=rose, speedup_before=0.9))
    assert cause_of_loss((), never_paid, accepts_enough=True).cause is Cause.STEP_COST
    assert cause_of_loss((), crossed, accepts_enough=False).cause is Cause.WEAK_DRAFTER


@pytest.mark.parametrize(
    ("verdict", "cause", "sign"),
    [
        (Verdict.HEALTHY, None, Sign.STEADY),
        (Verdict.UNPROVEN, None, Sign.STEADY),
        (Verdict.DEGRADED, Cause.DOMAIN_SHIFT, Sign.FALLEN),
        (Verdict.HARMFUL, Cause.DRAFTER_DEAD, Sign.FALLEN),
        (Verdict.HARMFUL, Cause.STEP_COST, None),
        (Verdict.IDLE, None, None),
        (Verdict.DOWN, None, None),
    ],
)
def test_sign_to_peers(verdict: Verdict, cause: Cause | None, sign: Sign | None) -> None:
    assert sign_of(Assessment("t", 0.0, verdict, cause, Action.NONE, "s")) is sign
