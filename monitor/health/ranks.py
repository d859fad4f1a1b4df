"""The verdict on each engine of a target, where there are several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from monitor.health.judging import JudgeSettings
from monitor.health.verdict import WITHOUT_ACCEPTANCE, decide, gather
from monitor.health.windows import Windows
from monitor.model import SHARED, EngineVerdict, Reading, Verdict, Window


def judge_engines(
    windows: Windows, readings: Sequence[Reading], settings: JudgeSettings, seconds: float
) -> tuple[EngineVerdict, ...]:
    """The verdict on each engine over the last ``seconds``; empty where there is only one.

    Acceptance alone is judged: a baseline is a curve of the whole target.
    """
    ranks = [reading for reading in readings if reading.label != SHARED]
    if len(ranks) < 2:  # noqa: PLR2004
        return ()
    plain = replace(settings, baseline=None, speeds=None)
    return tuple(_judge(windows, reading, plain, seconds) for reading in ranks)


def _judge(
    windows: Windows, reading: Reading, settings: JudgeSettings, seconds: float
) -> EngineVerdict:
    span = windows.engine_window(reading.label, seconds)
    if span is None:
        return EngineVerdict(reading.label, Verdict.INSUFFICIENT, None, None, None)
    window = Window(*span, running_now=reading.running or 0.0)
    facts = gather(window, [], reading.speculation, settings)
    finding = decide(facts)
    silent = finding.verdict in WITHOUT_ACCEPTANCE
    return EngineVerdict(
        reading.label,
        finding.verdict,
        finding.cause,
        None if silent else facts.accepted.rate,
        None if silent else facts.accepted.length,
    )
