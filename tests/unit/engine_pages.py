"""The captured pages of real servers, and short ways to read and judge them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from monitor.health.combine import combine
from monitor.health.ledger import add
from monitor.model import Counts
from monitor.pipeline import Page, TargetPipeline, Tick
from monitor.settings import JudgeSettings, TargetSettings

DATA = Path(__file__).parents[1] / "data"
ALL = 86_400.0
"""A window in which every series fits."""


@dataclass(frozen=True)
class Shot:
    """One page of a series and when it was taken."""

    name: str
    at: float
    metrics: bytes
    loads: bytes | None = None

    @property
    def page(self) -> Page:
        return Page(self.metrics, self.loads)


@cache
def page(name: str) -> bytes:
    """The bytes of a captured page, by its path below ``tests/data`` without ``.gz``."""
    return gzip.decompress((DATA / f"{name}.gz").read_bytes())


@cache
def truth(folder: str) -> Any:
    """What is known about a series of SGLang besides its pages."""
    return json.loads((DATA / "sglang" / folder / "truth.json").read_text())


@cache
def _vllm_times() -> dict[str, float]:
    times: dict[str, float] = json.loads((DATA / "vllm" / "times.json").read_text())
    return times


def vllm_names(run: str) -> list[str]:
    """The pages of a run of vLLM in the order of time."""
    times = _vllm_times()
    return sorted((name for name in times if name.startswith(f"{run}-")), key=times.__getitem__)


def vllm(names: Iterable[str]) -> list[Shot]:
    """Pages of vLLM by their file names, with or without ``.prom``."""
    files = [name if name.endswith(".prom") else f"{name}.prom" for name in names]
    return [Shot(file, _vllm_times()[file], page(f"vllm/{file}")) for file in files]


def sglang(folder: str, *, loads: bool = False) -> list[Shot]:
    """All pages of a series of SGLang; with ``loads`` also the bodies of ``/v1/loads``."""
    known = truth(folder)
    snapshots = known["snapshots"] if isinstance(known, dict) else known
    shots = []
    for snapshot in snapshots:
        file = snapshot["file"]
        body = DATA / "sglang" / folder / f"{file.removesuffix('.prom')}.v1_loads.json"
        shots.append(
            Shot(
                file,
                snapshot["unix"],
                page(f"sglang/{folder}/{file}"),
                body.read_bytes() if loads else None,
            )
        )
    return shots


def settings(
    interval: float = 15.0, windows: Sequence[float] = (ALL,), draft_size: int | None = None
) -> TargetSettings:
    judge = JudgeSettings(windows=tuple(windows), judged=tuple(windows))
    return TargetSettings(
        name="t",
        service="s",
        url="http://t/metrics",
        interval=interval,
        draft_size=draft_size,
        judge=judge,
    )


def spacing(shots: Sequence[Shot]) -> float:
    """The usual time between two pages."""
    return median(b.at - a.at for a, b in pairwise(shots))


def ticks(shots: Sequence[Shot], target: TargetSettings) -> list[Tick]:
    """Feeds the pages one by one."""
    pipeline = TargetPipeline(target)
    return [pipeline.tick(shot.page, shot.at) for shot in shots]


def widest(shots: Sequence[Shot]) -> float:
    """The longest time between two pages."""
    return max(b.at - a.at for a, b in pairwise(shots))


def counted(shots: Sequence[Shot], draft_size: int | None = None) -> dict[str, Counts]:
    """All that happened between the first page and the last one, by engine.

    Warm-up, which is a matter of judging, is counted too; no pause counts as a gap.
    """
    sums: dict[str, Counts] = {}
    for tick in ticks(shots, settings(widest(shots), draft_size=draft_size)):
        assert tick.problem is None, tick.problem
        for increment in tick.increments:
            sums[increment.label] = add(sums.get(increment.label, Counts()), increment.counts)
    return sums


def total(shots: Sequence[Shot], draft_size: int | None = None) -> Counts:
    """The same for all engines together."""
    return combine(counted(shots, draft_size))
