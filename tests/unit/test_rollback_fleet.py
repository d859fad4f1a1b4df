"""Many services that are hurt at once freeze everything, once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rollback_values import NOON

from monitor.model import StoreError
from monitor.rollback.fleet import FLEET, Fleet, answer, survey
from monitor.rollback.model import Command, Kind, Order
from monitor.rollback.settings import FleetPolicy

POLICY = FleetPolicy()


def services(hurt: int, of: int) -> dict[str, bool]:
    return {f"s{n}": n < hurt for n in range(of)}


@pytest.mark.parametrize(
    ("hurt", "of", "freezes"), [(3, 6, True), (2, 6, False), (2, 2, False), (3, 20, False)]
)
def test_many_at_once_freeze(hurt: int, of: int, freezes: bool) -> None:
    fleet, news = survey(Fleet(), services(hurt, of), POLICY, NOON)
    assert (fleet.frozen_at is not None) is freezes
    assert [n.kind for n in news] == ([Kind.FROZEN] if freezes else [])


def test_a_person_is_called_once_and_lifts_it() -> None:
    fleet, news = survey(Fleet(), services(5, 6), POLICY, NOON)
    assert news[0].pages
    assert news[0].sentence.startswith("All rollbacks are frozen: 5 of 6 services became bad")
    for n in range(100):
        fleet, news = survey(fleet, services(5, 6), POLICY, NOON + 60.0 * n)
        assert not news
    earlier = Command("o1", FLEET, Order.REARM, "anna", NOON, "all-1")
    fleet, (refusal,) = answer(fleet, earlier, NOON + 6000.0)
    assert (fleet.frozen_at, refusal.kind) == (NOON, Kind.REFUSED)
    assert refusal.sentence == (
        f"The order is about an earlier freeze, all-1: look at this one, all-{NOON:.0f}"
    )
    fleet, news = answer(fleet, replace(earlier, plan=fleet.plan), NOON + 6000.0)
    assert fleet.frozen_at is None
    # Those that were hurt when it was lifted do not freeze it again.
    fleet, news = survey(fleet, services(5, 6), POLICY, NOON + 6060.0)
    assert fleet.frozen_at is None


def test_those_that_have_been_bad_for_long_are_not_at_once() -> None:
    fleet, _ = survey(Fleet(), services(2, 6), POLICY, NOON)
    fleet, news = survey(fleet, services(4, 6), POLICY, NOON + 7200.0)
    assert not news


def test_it_survives_as_text() -> None:
    fleet, _ = survey(Fleet(), services(5, 6), POLICY, NOON)
    assert Fleet.from_json(fleet.to_json()) == fleet
    with pytest.raises(StoreError, match="cannot be read"):
        Fleet.from_json("[]")
