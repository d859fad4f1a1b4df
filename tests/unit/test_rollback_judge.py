"""A side gets traffic only when tokens prove it, and keeps it only while it serves well."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rollback_values import MODEL, NOON, side

from monitor.rollback.evidence import Side, tidy
from monitor.rollback.judge import arrived, check, has_restarted, is_up, strike, tpot
from monitor.rollback.settings import Precheck, Verify

LATER = NOON + 15.0
HANGS = "timed out after 30 s"
CHECK = Precheck(max_running=64.0)
VERIFY = Verify()
FIRST, SECOND = side(NOON, 1000.0), side(LATER, 1008.0)


def two(first: Side = FIRST, second: Side = SECOND) -> Side:
    return Side((*first.completions, *second.completions), (*first.pulses, *second.pulses))


def test_a_side_that_generates_twice_and_has_room_passes() -> None:
    finding = check(FIRST, SECOND, 8.0, MODEL, CHECK)
    assert finding.ok
    assert finding.sentence == (
        "1 server answered twice with tokens, 10 s apart;"
        " room for 62 running requests where 10 are needed"
    )


@pytest.mark.parametrize(
    ("first", "second", "need", "said"),
    [
        (FIRST, side(LATER, 1008.0, error=HANGS), 8.0, "no server answers: timed out"),
        (side(NOON, 1000.0, error=HANGS), SECOND, 8.0, "plain-1 does not answer: timed out"),
        (FIRST, side(LATER, 1000.0), 8.0, "its counters do not move"),
        (FIRST, side(LATER, 8.0, birth=2.0), 8.0, "has restarted"),
        (FIRST, side(LATER, 500.0), 8.0, "has restarted"),
        (FIRST, side(LATER, None), 8.0, "counts no tokens"),
        (FIRST, side(LATER, 1008.0, page="refused"), 8.0, "has no metrics page: refused"),
        (FIRST, side(LATER, 1008.0, model="other/model"), 8.0, "serves other/model instead of"),
        (FIRST, side(LATER, 1008.0, seconds=45.0), 8.0, "took 45 s for 8 tokens"),
        (FIRST, side(LATER, 1008.0, waiting=3.0), 8.0, "3 requests already wait there"),
        (FIRST, side(LATER, 1008.0, running=60.0), 8.0, "too small: room for 4 running"),
        (FIRST, SECOND, 55.0, "too small: room for 62 running requests where 66 are needed"),
        (FIRST, SECOND, None, "the load to come is not known"),
        (FIRST, Side(), 8.0, "no server of the side is known"),
    ],
)
def test_what_a_health_page_would_have_let_pass(
    first: Side, second: Side, need: float | None, said: str
) -> None:
    finding = check(first, second, need, MODEL, CHECK)
    assert finding.ok is False
    assert said in finding.sentence


def test_the_second_completion_must_come_some_time_after_the_first() -> None:
    assert check(FIRST, side(NOON + 1.0, 1008.0), 8.0, MODEL, CHECK).ok is None


def test_a_start_may_help_only_where_nothing_answers_at_all() -> None:
    dead = side(LATER, 1.0, error="refused", page="refused")
    hanging = side(LATER, 1.0, error=HANGS)
    assert check(dead, dead, 8.0, MODEL, CHECK).absent
    assert not check(hanging, hanging, 8.0, MODEL, CHECK).absent


def test_without_a_known_capacity_only_a_queue_says_that_it_is_full() -> None:
    unknown = replace(CHECK, max_running=None)
    assert check(FIRST, SECOND, 500.0, MODEL, unknown).ok
    assert not check(FIRST, side(LATER, 1008.0, waiting=1.0), 1.0, MODEL, unknown).ok


def test_one_dead_server_of_two_fails_the_side_unless_that_is_allowed() -> None:
    dead = [side(at, 1.0, name="plain-2", error="refused", page="refused") for at in (NOON, LATER)]
    first, second = two(FIRST, dead[0]), two(SECOND, dead[1])
    assert check(first, second, 8.0, MODEL, CHECK).ok is False
    assert check(first, second, 8.0, MODEL, replace(CHECK, healthy=0.5)).ok


SERVED = side(LATER + 100.0, 21_000.0)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (SERVED, ""),
        (side(LATER, 2000.0, page="refused"), ""),
        (side(LATER, 21_000.0, failures=30.0), "15 % of its requests fail"),
        (side(LATER, 21_000.0, tpot=0.09), "a token takes 93.5 ms, the bound is 45.0"),
        (side(LATER, 21_000.0, waiting=9.0, running=4.0), "9 requests wait beside 4 running"),
        (side(LATER, 21_000.0, error=HANGS), "plain-1 does not answer: timed out after 30 s"),
        (side(LATER, 900.0, error=HANGS, page="refused"), "plain-1 does not answer"),
    ],
)
def test_what_counts_against_a_side_that_serves(now: Side, said: str) -> None:
    found = strike(FIRST, now, 0.03, CHECK, VERIFY)
    assert said in found
    assert bool(found) is bool(said)


def test_an_absolute_bound_stands_before_that_of_the_past() -> None:
    assert not strike(FIRST, SERVED, 0.001, CHECK, replace(VERIFY, max_tpot=0.05))
    assert strike(FIRST, SERVED, 1.0, CHECK, replace(VERIFY, max_tpot=0.01))


SPECULATIVE = side(NOON, 70_000.0, name="chat-1")


@pytest.mark.parametrize(
    ("baseline", "speculative", "share", "ok"),
    [
        (side(LATER, 3000.0), side(LATER, 72_000.0, name="chat-1"), 0.5, True),
        (side(LATER, 1010.0), side(LATER, 72_000.0, name="chat-1"), 0.5, None),
        (side(LATER, 3000.0), side(LATER, 70_000.0, name="chat-1"), 1.0, True),
        (side(LATER, 3000.0), side(LATER, 71_000.0, name="chat-1"), 1.0, None),
        (side(LATER, 1008.0), side(LATER, 70_008.0, name="chat-1"), 1.0, None),
        (side(LATER, 1.0, page="refused"), side(LATER, 70_000.0, name="chat-1"), 1.0, None),
        (side(LATER, 3000.0), side(LATER, 1.0, name="chat-1", page="refused"), 1.0, None),
    ],
)
def test_traffic_has_arrived_where_tokens_say_so(
    baseline: Side, speculative: Side, share: float, ok: bool | None
) -> None:
    finding = arrived((FIRST, baseline), (SPECULATIVE, speculative), share, (8.0, 8.0), VERIFY)
    assert finding.ok is ok


def test_what_the_monitor_asked_for_itself_is_no_traffic() -> None:
    finding = arrived(
        (FIRST, side(LATER, 1040.0)), (SPECULATIVE, SPECULATIVE), 1.0, (40.0, 0.0), VERIFY
    )
    assert finding.ok is None
    assert finding.idle


def test_a_restart_between_two_looks_is_counted_from_its_start() -> None:
    assert tpot(FIRST, side(LATER, 200.0, birth=2.0), 20.0) == pytest.approx(0.02)


def test_another_process_is_told_from_the_same_one() -> None:
    assert not has_restarted(FIRST, SECOND)
    assert has_restarted(FIRST, side(LATER, 8.0, birth=9.0))
    assert has_restarted(FIRST, side(LATER, 8.0))
    assert has_restarted(side(NOON, 1.0, page="refused"), SECOND)
    assert not has_restarted(FIRST, side(LATER, 1.0, page="refused"))
    assert is_up(SECOND, 30.0)
    assert not is_up(side(LATER, 8.0, error=HANGS), 30.0)
    assert not is_up(Side(), 30.0)


def test_what_is_no_number_counts_as_not_told() -> None:
    odd = side(NOON, float("nan"), running=float("inf"), error="x" * 10_000)
    clean = tidy(odd)
    assert clean.pulses[0].output_tokens is None
    assert clean.pulses[0].running is None
    assert len(clean.completions[0].error or "") == 300
