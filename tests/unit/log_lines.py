"""Logs of real servers, and short ways to read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, tzinfo
from pathlib import Path

from monitor.engines.logs.reader import LogReader
from monitor.engines.logs.stamps import Stamps
from monitor.health.target import TargetState
from monitor.model import Increment, Sample
from monitor.settings import JudgeSettings

LOGS = Path(__file__).parents[1] / "data" / "logs"
NOW = 2_000_000_000.0
YEAR = 2026


def read(
    lines: Iterable[bytes] | str,
    *,
    zone: tzinfo = UTC,
    year: int | None = YEAR,
    skipped: Counter[str] | None = None,
    draft_size: float | None = None,
) -> list[Sample]:
    """The samples of some lines, or of a log by its name."""
    if isinstance(lines, str):
        lines = (LOGS / f"{lines}.log").read_bytes().splitlines()
    left_out = Counter[str]() if skipped is None else skipped
    return list(LogReader(None, Stamps(zone, year, NOW), draft_size, left_out).samples(lines))


def increments(samples: Iterable[Sample]) -> list[Increment]:
    """What the store would keep of them."""
    state = TargetState("t", 10.0, JudgeSettings())
    return [increment for sample in samples for increment in state.observe(sample)]
