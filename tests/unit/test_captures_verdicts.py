"""No false alarm on any captured page, and no collapse that is not seen.

The pages of each series are fed one by one at their real times.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from engine_pages import DATA, Shot, settings, sglang, spacing, ticks, truth, vllm, vllm_names

from monitor.engines.reader import PageReader
from monitor.health.judging import JudgeSettings
from monitor.health.target import TargetState
from monitor.model import Figures, Verdict
from monitor.pipeline import Tick

ALARMS = {Verdict.DEGRADED, Verdict.HARMFUL}
VLLM_RUNS = [
    "01-baseline",
    "02-ngram",
    "03-draftgood",
    "05-restart",
    "07-dynamic",
    "09-dp2",
    "10-api2",
    "11-struct",
    "12-preempt",
    "14-ngram-1thr",
    "16-abort",
    "17-edge",
    "20-v092-V0-draft",
    "21-v092-V0-base",
    "22-v092-V1-base",
]
SGLANG_SERIES = sorted(
    path.parent.name
    for path in (DATA / "sglang").glob("*/truth.json")
    if path.parent.name[0] == "v"
)
WIDTHS = (1.0, 2.0, 3.0)


def _fed(shots: Sequence[Shot], width: float) -> list[Tick]:
    interval = spacing(shots)
    return ticks(shots, settings(interval, windows=(width * interval,), draft_size=3))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("run", VLLM_RUNS)
def test_no_alarm_on_healthy_idle_or_restarted_pages_of_vllm(run: str, width: float) -> None:
    shots = vllm(vllm_names(run))
    for shot, tick in zip(shots, _fed(shots, width), strict=True):
        assert tick.assessment.verdict not in ALARMS, (shot.name, tick.assessment.sentence)
        assert tick.problem is None


@pytest.mark.parametrize("run", VLLM_RUNS)
def test_no_alarm_at_the_default_settings(run: str) -> None:
    shots = vllm(vllm_names(run))
    for shot, tick in zip(
        shots, ticks(shots, settings(spacing(shots), windows=(60.0, 300.0, 900.0))), strict=True
    ):
        assert tick.assessment.verdict not in ALARMS, (shot.name, tick.assessment.sentence)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_collapsed_drafter_of_vllm_is_seen_after_warm_up(width: float) -> None:
    """Each window of the steady series, which begins 60 s after the start of the server."""
    shots = vllm(vllm_names("04-draftbad"))
    answers = dict(zip((shot.name for shot in shots), _fed(shots, width), strict=True))
    steady = [tick.assessment for name, tick in answers.items() if "series-0" in name][1:]
    assert len(steady) > 5
    for assessment in steady:
        assert assessment.verdict in ALARMS, assessment.sentence
        assert assessment.acceptance_length is not None
        assert assessment.acceptance_length.value < 1.25


def _phases(folder: str) -> list[str]:
    return [snapshot["phase"] for snapshot in truth(folder)["snapshots"]]


def _is_collapse(phase: str) -> bool:
    return "collapsed" in phase


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("folder", SGLANG_SERIES)
def test_no_alarm_on_healthy_idle_or_restarted_pages_of_sglang(folder: str, width: float) -> None:
    """The first pages after a collapse are left out: its requests are counted as they finish."""
    shots = sglang(folder)
    phases = _phases(folder)
    reach = int(width) + 1
    for index, tick in enumerate(_fed(shots, width)):
        if any(_is_collapse(phase) for phase in phases[max(0, index - reach) : index + 1]):
            continue
        assert tick.assessment.verdict not in ALARMS, (shots[index].name, tick.assessment.sentence)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "folder", [f for f in SGLANG_SERIES if any(map(_is_collapse, _phases(f)))]
)
def test_a_collapse_of_sglang_is_seen_on_the_first_full_window(folder: str, width: float) -> None:
    shots = sglang(folder)
    phases = _phases(folder)
    full = int(width)
    seen = 0
    for index, tick in enumerate(_fed(shots, width)):
        if all(map(_is_collapse, phases[max(0, index - full + 1) : index + 1])):
            seen += 1
            assert tick.assessment.verdict in ALARMS, (shots[index].name, tick.assessment.sentence)
    expected = sum(map(_is_collapse, phases)) - full + 1
    assert seen == max(expected, 0)


@pytest.mark.parametrize("folder", SGLANG_SERIES)
def test_idle_pages_become_idle(folder: str) -> None:
    """By the third page without traffic: gauges of requests lag behind by up to 30 s."""
    phases = _phases(folder)
    shots = sglang(folder)
    for index, tick in enumerate(_fed(shots, 1.0)):
        if phases[index - 2 : index + 1] == ["idle"] * 3:
            assert tick.assessment.verdict is Verdict.IDLE, tick.assessment.sentence


@pytest.mark.parametrize("loads", [False, True])
def test_a_server_with_a_handful_of_requests_is_never_judged(*, loads: bool) -> None:
    shots = sglang("real-server-0.5.23-cpu", loads=loads)
    for tick in ticks(shots, settings(spacing(shots), windows=(60.0, 300.0))):
        assert tick.assessment.verdict is Verdict.INSUFFICIENT


@pytest.mark.parametrize("run", VLLM_RUNS)
def test_figures_of_windows_are_those_of_their_assessments(run: str) -> None:
    shots = vllm(vllm_names(run))
    interval = spacing(shots)
    reader, state = PageReader(), TargetState("t", interval, JudgeSettings())
    for shot in shots:
        state.observe(reader.read(shot.metrics, shot.at))
        for seconds in (interval, 3.0 * interval, 86_400.0):
            same_figures(state, seconds, shot.at)


@pytest.mark.parametrize(("accepted", "shown"), [(150, True), (400, False)])
def test_a_window_whose_page_contradicts_itself_shows_no_figures(
    accepted: int, *, shown: bool
) -> None:
    reader, state = PageReader(), TargetState("t", 15.0, JudgeSettings())
    for look in range(3):
        figures = {
            "spec_decode_num_drafts_total": 100 * look,
            "spec_decode_num_draft_tokens_total": 300 * look,
            "spec_decode_num_accepted_tokens_total": accepted * look,
            "generation_tokens_total": 900 * look,
        }
        text = "".join(f'vllm:{name}{{engine="0"}} {n}\n' for name, n in figures.items())
        state.observe(reader.read(text.encode(), 2e9 + 15.0 * look))
    assert (state.figures(60.0).acceptance_rate is not None) is shown
    same_figures(state, 60.0, 2e9 + 30.0)


def same_figures(state: TargetState, seconds: float, now: float) -> None:
    said = state.assess_window(seconds, now)
    assert state.figures(seconds) == Figures(
        said.acceptance_rate, said.acceptance_length, said.speedup
    )
