"""The rules as they are explained, and what would change their answer."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.explain.ladder import RULES, Case, climb
from monitor.explain.outlook import outlook
from monitor.health.baseline import Baseline, BaselinePoint
from monitor.health.judging import JudgeSettings
from monitor.health.ledger import Block
from monitor.health.past import Changes, Past
from monitor.health.reference import Normal
from monitor.health.shape import Change, Kind
from monitor.health.verdict import _RULES, Facts, decide, gather, trace
from monitor.model import Action, Cause, Counts, Speculation, Verdict, Window

PLAIN = Baseline("plain", (BaselinePoint(1.0, 0.010), BaselinePoint(64.0, 0.020)))
BUSY = Counts(
    seconds=600.0,
    output_tokens=60_000.0,
    requests=200.0,
    drafts=20_000.0,
    draft_tokens=60_000.0,
    accepted_tokens=36_000.0,
    decode_seconds=2400.0,
    decode_tokens=56_000.0,
    decode_steps=20_000.0,
)


def accepting(rate: float, counts: Counts = BUSY) -> Counts:
    """The same work with another share accepted; a step gives that many tokens more or fewer."""
    accepted = rate * counts.draft_tokens
    return counts._replace(accepted_tokens=accepted, decode_tokens=counts.drafts + accepted)


def part(share: float) -> Counts:
    return Counts._make((*(share * figure for figure in BUSY[:-1]), ()))


def facts(
    counts: Counts = BUSY,
    *,
    speedup: float | None = None,
    speculation: Speculation = Speculation.CONFIGURED,
    past: Past | None = None,
    warming_up: bool = False,
    stalled: float = 0.0,
) -> Facts:
    blocks: list[Block] = []
    if speedup is not None:
        blocks = [Block(speedup * 240.0 * (1.0 + sign * 0.01), 240.0) for sign in (-1, 1) * 5]
        counts = counts._replace(
            baseline_seconds=sum(b.baseline_seconds for b in blocks), compared_seconds=2400.0
        )
    window = Window(
        0.0, 600.0, counts, warming_up=warming_up, stalled_seconds=stalled, running_now=2.0
    )
    return gather(
        window,
        blocks,
        speculation,
        JudgeSettings(baseline=PLAIN if speedup is not None else None),
        past=past,
    )


NORMAL = Past(normal=Normal(0.6, 24, 500.0))
FALLEN = Past(normal=Normal(0.9, 24, 500.0), drop_alarm=500.0, drop_since=400.0)
SLOWER = Past(changes=Changes(step=Change(Kind.STEP, 300.0, 30.0, 0.02, 0.05)))

CASES: dict[str, tuple[Facts, Verdict, str]] = {
    "unproven": (facts(), Verdict.UNPROVEN, "unproven"),
    "low": (facts(accepting(0.2)), Verdict.DEGRADED, "below_threshold"),
    "dead": (facts(accepting(0.01)), Verdict.HARMFUL, "dead"),
    "fallen": (facts(past=FALLEN), Verdict.DEGRADED, "below_normal"),
    "slower": (facts(past=SLOWER), Verdict.DEGRADED, "slower_steps"),
    "as always": (facts(past=NORMAL), Verdict.HEALTHY, "in_line"),
    "gain": (facts(speedup=1.6), Verdict.HEALTHY, "by_speedup"),
    "loss": (facts(speedup=0.6), Verdict.HARMFUL, "by_speedup"),
    "even": (facts(speedup=1.0), Verdict.UNPROVEN, "unproven"),
    "few requests": (
        facts(part(0.01)),
        Verdict.INSUFFICIENT,
        "too_little",
    ),
    "warm-up": (facts(warming_up=True), Verdict.INSUFFICIENT, "warming_up"),
    "idle": (facts(Counts(seconds=600.0)), Verdict.INSUFFICIENT, "no_traffic"),
    "stalled": (facts(Counts(seconds=600.0), stalled=300.0), Verdict.STALLED, "no_traffic"),
    "off": (facts(speculation=Speculation.ABSENT), Verdict.OFF, "no_traffic"),
    "bypass": (facts(speculation=Speculation.DISABLED), Verdict.NOT_DRAFTING, "not_drafting"),
    "unknown": (
        facts(speculation=Speculation.UNKNOWN_NAMES),
        Verdict.UNRECOGNISED,
        "unknown_names",
    ),
    "impossible": (facts(accepting(1.5)), Verdict.MISREPORTED, "misreported"),
}


def test_each_rule_has_an_explanation() -> None:
    assert [rule.__name__.removeprefix("_") for rule in _RULES] == list(RULES)[:-1]
    assert list(RULES)[-1] == "unproven"


@pytest.mark.parametrize("name", CASES)
def test_the_ladder_ends_with_the_rule_that_decided(name: str) -> None:
    given_facts, verdict, rule = CASES[name]
    found = decide(given_facts)
    assert found.verdict is verdict
    assert [*trace(given_facts)][-1] == (rule, found)
    *before, last = climb(Case(given_facts))
    assert (last.rule, last.decided, last.because) == (rule, True, found.sentence)
    assert [rung.rule for rung in before] == list(RULES)[: len(before)]
    for rung in before:
        assert not rung.decided
        assert 0 < len(rung.because) < 120, rung
        assert not rung.because.endswith(".")


@pytest.mark.parametrize("name", CASES)
def test_there_is_always_something_that_would_change_a_verdict(name: str) -> None:
    given_facts, verdict, _ = CASES[name]
    turns = outlook(Case(given_facts))
    assert turns
    for turn in turns:
        assert turn.sentence.startswith(f"{verdict} → ")
        assert turn.verdict is not verdict


def sentences(given_facts: Facts) -> list[str]:
    return [turn.sentence for turn in outlook(Case(given_facts))]


def test_a_threshold_is_named_with_the_limit_that_has_to_meet_it() -> None:
    first, *_ = outlook(Case(facts(accepting(0.2))))
    assert (first.verdict, first.quantity, first.direction) == (
        Verdict.UNPROVEN,
        "acceptance_rate",
        "above",
    )
    assert (first.limit, first.bound) == ("high", 0.4)
    assert first.needed is not None
    assert first.needed.high == pytest.approx(0.4, abs=1e-4)
    assert first.sentence.startswith(
        "degraded → unproven if the upper limit of the acceptance rate rose above 40.0 % (now"
    )


def test_a_gain_needs_the_lower_limit_above_the_dead_band() -> None:
    turn = next(t for t in outlook(Case(facts(speedup=1.0))) if t.verdict is Verdict.HEALTHY)
    assert (turn.quantity, turn.limit, turn.bound) == ("acceptance_rate", None, None)
    assert "the lower limit of the speedup would then be 1.05 (now 0.9" in turn.sentence
    by_itself = [t for t in outlook(Case(facts(speedup=1.0))) if t.quantity == "speedup"]
    healthy = next(t for t in by_itself if t.verdict is Verdict.HEALTHY)
    assert healthy.limit == "low"
    assert healthy.bound == pytest.approx(1.05)


def test_the_turn_of_acceptance_under_a_loss_is_where_the_steps_pay_again() -> None:
    """At the same cost of a step the speedup grows with the tokens of a step."""
    given_facts = facts(accepting(0.2), speedup=0.7)
    turns = [t for t in outlook(Case(given_facts)) if t.quantity == "acceptance_rate"]
    healthy = next(t for t in turns if t.verdict is Verdict.HEALTHY)
    even = given_facts.break_even
    assert even is not None
    assert even.acceptance_rate is not None
    assert healthy.needed is not None
    assert even.acceptance_rate < healthy.needed.value < 1.4 * even.acceptance_rate


def test_missing_requests_are_counted() -> None:
    (turn,) = outlook(Case(CASES["few requests"][0]))
    assert (turn.quantity, turn.verdict) == ("requests", Verdict.UNPROVEN)
    assert turn.sentence == "insufficient → unproven with 4 more requests like those seen"


def test_without_anything_to_judge_by_it_says_what_there_would_have_to_be() -> None:
    said = sentences(facts())
    assert "unproven → healthy, neutral or harmful with a baseline to compare with" in said
    assert any("once a normal is learnt" in sentence for sentence in said)


@given(
    rate=st.floats(0.0, 1.0),
    speedup=st.none() | st.floats(0.2, 3.0),
    share=st.floats(1e-3, 1.0),
    past=st.sampled_from([None, NORMAL, FALLEN, SLOWER]),
)
def test_any_figures_are_explained(
    rate: float,
    speedup: float | None,
    share: float,
    past: Past | None,
) -> None:
    counts = part(share)
    given_facts = facts(accepting(rate, counts), speedup=speedup, past=past)
    found = decide(given_facts)
    rungs = climb(Case(given_facts))
    assert [rung.decided for rung in rungs] == [False] * (len(rungs) - 1) + [True]
    assert rungs[-1].because == found.sentence
    for turn in outlook(Case(given_facts)):
        assert turn.verdict is not found.verdict
        assert turn.sentence


def test_positions_do_not_keep_the_rate_from_being_moved() -> None:
    counts = BUSY._replace(
        accepted_tokens=12_000.0,
        position_drafts=20_000.0,
        positions=(9_000.0, 2_500.0, 500.0),
    )
    given_facts = facts(counts)
    assert decide(given_facts).verdict is Verdict.DEGRADED
    turns = outlook(Case(given_facts))
    assert any(turn.verdict is Verdict.UNPROVEN for turn in turns)
    assert all(turn.verdict is not Verdict.MISREPORTED for turn in turns)


def test_facts_are_left_as_they_were() -> None:
    given_facts = facts(accepting(0.2), speedup=0.7, past=FALLEN)
    copy = deepcopy(given_facts)
    outlook(Case(given_facts))
    assert given_facts == copy


def test_a_drafter_that_was_dead_is_held_against_the_higher_limit() -> None:
    alive = facts(accepting(0.3))
    was_dead = alive._replace(previous=(Verdict.HARMFUL, Cause.DRAFTER_DEAD, Action.ROLL_BACK))
    for given_facts, limit in ((alive, 1.05), (was_dead, 1.10)):
        rung = next(rung for rung in climb(Case(given_facts)) if rung.rule == "dead")
        assert f"a dead drafter has less than {limit:.2f}" in rung.because
        assert rung.figures["dead_below"] == limit
