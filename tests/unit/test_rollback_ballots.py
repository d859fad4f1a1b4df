"""Only what is known, proven by an interval and curable votes for a rollback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from rollback_values import LOSS, NOON, assessment, bad, box, good, nothing

from monitor.model import Cause, Estimate, Verdict
from monitor.rollback.ballots import is_same_side, opine
from monitor.rollback.evidence import Look
from monitor.rollback.settings import CURES, Cure, Voting

VOTING = Voting()


def series(kinds: str, target: str = "chat-1") -> list[Look]:
    """A look a minute: ``b``ad, ``g``ood, ``n``othing known; the last one at noon."""
    start = NOON - 60.0 * (len(kinds) - 1)
    make: dict[str, Callable[[float, str], Look]] = {
        "b": bad,
        "g": good,
        "n": lambda at, _target: nothing(at),
    }
    return [make[kind](start + 60.0 * n, target) for n, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("kinds", "cure", "is_well"),
    [
        ("bbb", Cure.ROLL_BACK, False),
        ("bb", Cure.NOTHING, False),
        ("bgbgb", Cure.ROLL_BACK, False),
        ("bbbbg", Cure.NOTHING, False),
        ("bbbgg", Cure.NOTHING, False),
        ("bbggg", Cure.NOTHING, True),
        ("bnnbnnb", Cure.ROLL_BACK, False),
        ("nnnnnnnn", Cure.NOTHING, False),
        ("bbbnnnnnnnn", Cure.ROLL_BACK, False),
        ("bbggbgg", Cure.NOTHING, False),
        ("", Cure.NOTHING, False),
    ],
)
def test_so_many_of_the_last_valid_windows_decide(kinds: str, cure: Cure, is_well: bool) -> None:
    opinion = opine(box(*series(kinds)), VOTING, NOON)
    assert (opinion.cure, opinion.is_well) == (cure, is_well)


def test_the_reason_names_windows_numbers_and_cause() -> None:
    assert opine(box(*series("gbbbb")), VOTING, NOON).why == (
        "4 of the last 5 windows of chat-1 show a loss:"
        " 0.66x (0.60–0.73) of plain decoding at 8 running requests (weak drafter)"
    )


def test_windows_that_overlap_are_counted_once() -> None:
    looks = [bad(NOON + 15.0 * n) for n in range(8)]
    assert opine(box(*looks), VOTING, NOON + 105.0).cure is Cure.NOTHING
    assert opine(box(*looks, bad(NOON + 120.0)), VOTING, NOON + 120.0).cure is Cure.ROLL_BACK


def test_old_windows_and_those_before_a_change_do_not_count() -> None:
    filled = box(*series("bbbb"))
    assert opine(filled, VOTING, NOON + 3500.0).cure is Cure.NOTHING
    assert opine(filled, VOTING, NOON, since=NOON - 100.0).cure is Cure.NOTHING


def test_a_clock_set_back_leaves_no_votes_of_the_future() -> None:
    filled = box(*series("bbbb"), bad(NOON - 7200.0))
    assert [b.at for b in filled.voters["chat-1"].ballots] == [NOON - 7200.0]


@pytest.mark.parametrize(
    ("changes", "cure"),
    [
        ({}, Cure.ROLL_BACK),
        ({"speedup": Estimate(0.7, 0.45, 1.02)}, Cure.NOTHING),
        ({"speedup": Estimate(0.7)}, Cure.NOTHING),
        ({"speedup": None}, Cure.NOTHING),
        ({"speedup": None, "cause": Cause.DRAFTER_DEAD}, Cure.ROLL_BACK),
        ({"speedup": None, "rate": Estimate(0.2, 0.15, 0.25)}, Cure.ROLL_BACK),
        ({"speedup": None, "rate": Estimate(0.2, 0.15, 0.45)}, Cure.NOTHING),
        ({"cause": Cause.UPTIME_DECAY}, Cure.RESTART),
        ({"cause": None}, Cure.ROLL_BACK),
        ({"cause": Cause.DEAD_TAIL}, Cure.NOTHING),
        ({"cause": Cause.ENGINE_OUTLIER}, Cure.NOTHING),
        ({"cause": Cause.REPLICA_OUTLIER}, Cure.NOTHING),
    ],
)
def test_the_interval_must_prove_it_and_the_cause_must_be_curable(
    changes: dict[str, object], cure: Cure
) -> None:
    voting = replace(VOTING, acceptance_below=0.3)
    looks = [bad(NOON - 60.0 * n, **changes) for n in range(4, -1, -1)]  # type: ignore[arg-type]
    assert opine(box(*looks, voting=voting), voting, NOON).cure is cure


def test_each_cause_is_either_curable_or_left_out_on_purpose() -> None:
    left_out = set(Cause) - {cause for cause in CURES if cause is not None}
    assert left_out == {
        Cause.DEAD_TAIL, Cause.ENGINE_OUTLIER, Cause.REPLICA_OUTLIER, Cause.ENGINE_BYPASS,
        Cause.SUSPICIOUS_OUTPUT, Cause.CONTRADICTION, Cause.MIXED_WORKERS, Cause.NAMES_CHANGED,
        Cause.WARMING_UP,
    }  # fmt: skip


def test_only_the_rules_that_are_named_are_heard() -> None:
    looks, other = series("bbbb"), replace(VOTING, rules=("drafter_dead",))
    assert opine(box(*looks, voting=other), other, NOON).cure is Cure.NOTHING


@pytest.mark.parametrize("verdict", [v for v in Verdict if v not in {
    Verdict.HEALTHY, Verdict.NEUTRAL, Verdict.DEGRADED, Verdict.HARMFUL}])  # fmt: skip
def test_a_verdict_without_information_is_no_ballot(verdict: Verdict) -> None:
    looks = [
        Look(assessment(NOON - 60.0 * n, verdict=verdict, speedup=LOSS), fresh=True, votes=("r",))
        for n in range(9, -1, -1)
    ]
    assert not box(*looks).voters["chat-1"].ballots


@pytest.mark.parametrize("spoilt", ["stale", "warming_up", "lifetime"])
def test_a_window_that_is_not_valid_is_no_ballot(spoilt: str) -> None:
    look = bad()
    window = look.assessment.window
    assert window is not None
    if spoilt == "stale":
        look = look._replace(fresh=False)
    else:
        window = window._replace(**{spoilt: True})  # type: ignore[arg-type]
        look = look._replace(assessment=look.assessment._replace(window=window))
    assert not box(look).voters["chat-1"].ballots


@pytest.mark.parametrize(
    ("hurt", "well", "cure"),
    [(1, 0, Cure.ROLL_BACK), (1, 1, Cure.ROLL_BACK), (1, 2, Cure.NOTHING), (2, 2, Cure.ROLL_BACK)],
)
def test_one_sick_replica_of_many_moves_nothing(hurt: int, well: int, cure: Cure) -> None:
    looks = [look for n in range(hurt) for look in series("bbbb", f"bad-{n}")]
    looks += [look for n in range(well) for look in series("gggg", f"good-{n}")]
    assert opine(box(*looks), VOTING, NOON).cure is cure


def test_one_target_that_flaps_disarms_only_a_small_service() -> None:
    looks = [look for n in range(5) for look in series("bbbb", f"chat-{n}")]
    flapping = bad(NOON + 1.0, "chat-0")._replace(flapping=True)
    assert not opine(box(*looks, flapping), VOTING, NOON + 1.0).is_flapping
    assert opine(box(*looks[:4], flapping), VOTING, NOON + 1.0).is_flapping


def test_a_target_that_is_no_longer_watched_has_no_vote() -> None:
    filled = box(*series("bbbb"))
    filled.forget("chat-1")
    assert opine(filled, VOTING, NOON).cure is Cure.NOTHING
    assert not filled.fingerprint


@pytest.mark.parametrize(("blind", "cure"), [(1, Cure.ROLL_BACK), (2, Cure.NOTHING)])
def test_the_few_that_are_seen_do_not_speak_for_those_that_are_not(blind: int, cure: Cure) -> None:
    looks = series("bbbb", "seen")
    looks += [nothing(NOON, Verdict.DOWN, fresh=False, target=f"b-{n}") for n in range(blind)]
    filled = box(*looks)
    assert opine(filled, VOTING, NOON).cure is cure
    # A server without traffic is seen, and takes no part.
    for n in range(blind):
        filled.take(nothing(NOON, target=f"b-{n}"), VOTING)
    assert opine(filled, VOTING, NOON).cure is Cure.ROLL_BACK


@pytest.mark.parametrize(
    ("now", "is_same"),
    [
        ("engine vllm, engine_version 1, draft_size 5", True),
        ("engine vllm, engine_version 1", True),
        ("engine vllm, engine_version 2, draft_size 5", False),
        ("engine vllm, engine_version 1, draft_size 3", False),
        ("engine vllm, engine_version 2; engine vllm, engine_version 1", True),
        ("", False),
    ],
)
def test_a_side_is_the_same_unless_something_tells_it_apart(now: str, is_same: bool) -> None:
    assert is_same_side(now, "engine vllm, engine_version 1, draft_size 5") is is_same
