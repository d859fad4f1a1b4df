"""The past, played again, gives the decisions that were written when it was the present."""

from __future__ import annotations

from dataclasses import replace

from rollback_stage import POLICY, Stage
from rollback_values import NOON, bad, good, nothing

from monitor.rollback.evidence import Circumstances, Look
from monitor.rollback.model import Kind
from monitor.rollback.replay import would_have
from monitor.rollback.settings import Limits, Mode, Voting

OBSERVE = replace(POLICY, mode=Mode.OBSERVE)


def past() -> list[Look]:
    """Twelve hours: bad for two, nothing known for one, well for three, bad again."""
    looks = []
    for n in range(12 * 60):
        at, hour = NOON + 60.0 * n, n // 60
        make = bad if hour in {1, 2, 7, 8, 9, 10, 11} else nothing if hour == 3 else good
        looks.append(make(at))
    return looks


def test_the_past_played_again_decides_as_the_present_did() -> None:
    stage = Stage(OBSERVE)
    stage.is_watched = False
    for look in past():
        stage.executor.take(look)
        stage.clock.set_utc(look.assessment.at)
        stage.clock.advance(5.0)
        stage.executor.turn()
        stage.executor.turn()
    replayed = list(would_have("chat", past(), POLICY))
    live = stage.book.news
    assert [(n.kind, n.sentence) for n in replayed] == [(n.kind, n.sentence) for n in live]
    assert all(abs(a.at - b.at) <= 60.0 for a, b in zip(replayed, live, strict=True))
    assert [n.kind for n in replayed][:2] == [Kind.PROPOSED, Kind.EXPIRED]


def test_another_policy_can_be_tried_on_it() -> None:
    strict = replace(POLICY, voting=Voting(speedup_below=0.7))
    assert not list(would_have("chat", past(), strict))
    calm = replace(POLICY, limits=Limits(per_day=1))
    proposals = [n for n in would_have("chat", past(), calm) if n.kind is Kind.PROPOSED]
    assert len(proposals) == 1


def test_a_silence_of_the_time_holds_it_back() -> None:
    held = Circumstances(held="silence 3 of anna")
    assert not list(would_have("chat", past(), POLICY, lambda _at: held))
