"""The demo plays the recorded incident to the real daemon and sees what must be seen."""

from __future__ import annotations

from pathlib import Path

from monitor.demo.play import EXPECTED, Demo, Line
from monitor.demo.tape import load_story
from monitor.model import Verdict


def test_the_incident_is_seen_for_what_it_is(tmp_path: Path) -> None:
    told: list[Line] = []
    demo = Demo(f"sqlite:///{tmp_path / 'demo.db'}", told.append)
    with demo.playing() as address:
        assert address.startswith("http://127.0.0.1:")
        assert demo.tell_until_end()
    verdicts = [line.verdict for line in told if line.target == "code-spec"]
    healthy, harmful = verdicts.index(Verdict.HEALTHY), verdicts.index(Verdict.HARMFUL)
    assert healthy < harmful
    assert Verdict.HARMFUL not in verdicts[:healthy]
    sentence = next(line.text for line in told if line.verdict is Verdict.HARMFUL)
    assert sentence.startswith("speculation costs ")


def test_the_tape_is_whole_and_small() -> None:
    story = load_story()
    assert set(story.tapes) == set(EXPECTED)
    for tape in story.tapes.values():
        assert list(tape.offsets) == sorted(tape.offsets)
        assert tape.offsets[0] == 0.0
        assert tape.page(1e9) is tape.pages[-1]
    packed = Path(load_story.__code__.co_filename).with_name("pages.tar.xz")
    assert packed.stat().st_size < 100_000
