"""What is remembered of a rollback survives as text, or is refused in one line."""

from __future__ import annotations

import json

import pytest

from monitor.model import StoreError
from monitor.rollback.evidence import Completion, Pulse, Side
from monitor.rollback.model import Do, Phase, Step
from monitor.rollback.settings import Cure, Mode
from monitor.rollback.state import Plan, Rejected, State

FULL = State(
    "chat",
    phase=Phase.HOLDING,
    at=1000.5,
    plan=Plan("chat-1000", 1000.0, Mode.ACT, Cure.ROLL_BACK, "why", path=(0.1, 1.0), leg=1),
    step=Step("chat-1000-2", Do.SHIFT, 0.1),
    baseline=Side((Completion("b", 1.0, 0.5, tokens=8),), (Pulse("b", 1.0, running=3.0),)),
    plans=(1.0, 2.0),
    rejected=(Rejected("vllm 0.9", 5.0, "chat-5"),),
)


@pytest.mark.parametrize("state", [State("chat"), FULL], ids=["new", "full"])
def test_a_state_survives_as_text(state: State) -> None:
    assert State.from_json(state.to_json()) == state


def test_a_state_of_nothing_is_short() -> None:
    assert State("chat").to_json() == '{"format":1,"service":"chat"}'


def test_keys_of_a_later_version_are_passed_over() -> None:
    document = json.loads(FULL.to_json())
    document["later"] = 1
    document["plan"]["later"] = 1
    assert State.from_json(json.dumps(document)) == FULL


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{}", '{"format":1}', '{"format":1,"service":"a","phase":"dancing"}'],
)
def test_what_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        State.from_json(text)


def test_another_format_is_refused_with_what_to_do() -> None:
    with pytest.raises(StoreError, match="has format 2, this monitor reads 1: run the version"):
        State.from_json('{"format":2,"service":"chat"}')
