"""What is remembered of a target is written out wholly."""

from __future__ import annotations

import orjson
import pytest

from monitor.health import memory
from monitor.health.detect import Cusum, Freshness
from monitor.health.judging import JudgeSettings
from monitor.health.pace import Pace, Pending
from monitor.health.pace import Run as PaceRun
from monitor.health.past import Changes
from monitor.health.target import TargetState
from monitor.health.turns import Turns
from monitor.health.watch import Run, Watch
from monitor.health.window import Track

NOT_WORTH_KEEPING = {"waiting"}
"""What a pace has yet to learn."""
ELSEWHERE = {"references", "_last"}
"""References stand beside the watch, and which one was used last follows from the identity."""


def document() -> dict[str, object]:
    state = TargetState("t", 15.0, JudgeSettings())
    state.memory.tracks["0"] = Track(waiting={7, 3})
    return memory.to_document(state, orjson.dumps, orjson.Fragment)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("changes", Changes._fields),
        ("watch", set(Watch.__slots__) - ELSEWHERE),
        ("watch drop", Cusum.__slots__),
        ("watch rise", Cusum.__slots__),
        ("watch run", Run.__slots__),
        ("watch freshness", Freshness.__slots__),
        ("watch pace", set(Pace.__slots__) - NOT_WORTH_KEEPING),
        ("watch pace fall", Cusum.__slots__),
        ("watch pace run", PaceRun.__slots__),
        ("watch pace pending", Pending.__slots__),
        ("tracks 0", Track.__slots__),
        ("tracks 0 turns", Turns.__slots__),
    ],
)
def test_every_field_of_a_record_is_written(path: str, names: set[str]) -> None:
    found = orjson.loads(orjson.dumps(document()))
    for key in path.split():
        found = found[key]
    assert set(found) == set(names)


def test_groups_that_wait_are_written_in_order() -> None:
    found = orjson.loads(orjson.dumps(document()))
    assert found["tracks"]["0"]["waiting"] == [3, 7]


def test_what_a_release_wrote_that_knew_other_fields_of_a_track_is_read() -> None:
    state = TargetState("t", 15.0, JudgeSettings())
    state.memory.tracks["0"] = Track(values={"drafts": 7.0}, last_at=1e9)
    written = orjson.loads(orjson.dumps(memory.to_document(state, orjson.dumps, orjson.Fragment)))
    del written["tracks"]["0"]["turns"]
    written["tracks"]["0"] |= {"peak": {"drafts": 9.0}, "looks_since_fall": 2}
    later = TargetState("t", 15.0, JudgeSettings())
    memory.restore(later, orjson.dumps(written).decode(), [])
    assert later.memory.tracks == state.memory.tracks
