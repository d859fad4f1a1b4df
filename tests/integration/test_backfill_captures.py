"""The captured series of real servers, by way of a real Prometheus, are judged as their pages."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from backfill_series import to_openmetrics
from backfill_stage import RULES, START, Tape, fresh, rows
from prometheus_server import MISSING, PROMETHEUS, PROMTOOL, serving
from sqlalchemy import Engine
from store_rows import opened

from monitor.backfill.ingest import Ingest
from monitor.backfill.looks import Look, Source
from monitor.backfill.naming import Naming
from monitor.backfill.prometheus import PrometheusSource
from monitor.clock import FakeClock
from monitor.pipeline import Page
from monitor.settings import Credentials
from monitor.sources.promql import PrometheusApi
from monitor.store.backfill import PastStore
from monitor.store.repository import Repository
from monitor.turn.curves import Curves

DATA = Path(__file__).parents[1] / "data"
VLLM = ("02-ngram-series", "03-draftgood-series", "05-restart", "07-dynamic", "20-v092-V0-draft")
SGLANG = ("v0.4.6.post5-tp1", "v0.5.12-dp2", "v0.5.23-dp2", "v0.5.8-tp2-allsched")


class Captured(Tape):
    """The looks of all series, each at its own pace."""

    def interval(self, target: str) -> float | None:
        times = [look.at for look in self.all if look.target == target]
        return median(b - a for a, b in pairwise(times))


def vllm(run: str) -> list[Look]:
    times = json.loads((DATA / "vllm" / "times.json").read_text())
    names = sorted((n for n in times if n.startswith(f"{run}-")), key=times.__getitem__)
    return [look(run, times[name], DATA / "vllm" / f"{name}.gz") for name in names]


def sglang(folder: str) -> list[Look]:
    known = json.loads((DATA / "sglang" / folder / "truth.json").read_text())
    return [
        look(folder, shot["unix"], DATA / "sglang" / folder / f"{shot['file']}.gz")
        for shot in known["snapshots"]
    ]


def look(target: str, at: float, path: Path) -> Look:
    # Prometheus keeps times to the millisecond.
    return Look(f"{target}:8000", round(at, 3), Page(gzip.decompress(path.read_bytes())))


def fill_in(url: str, source: Source) -> dict[str, list[Any]]:
    with opened(url) as engine:
        _run(engine, source)
        return rows(engine)


def _run(engine: Engine, source: Source) -> None:
    naming = Naming((), service="s")
    store = PastStore(engine, naming.settings(sorted(source.targets)), START)
    curves = Curves(Repository(engine))
    Ingest(store, curves, RULES, source, name="captures", end=math.inf).run()


@pytest.mark.skipif(None in (PROMETHEUS, PROMTOOL), reason=MISSING)
@pytest.mark.parametrize("captured", [[*map(vllm, VLLM)], [*map(sglang, SGLANG)]], ids=["v", "s"])
def test_captured_series_are_judged_as_their_pages(
    captured: list[list[Look]], tmp_path: Path
) -> None:
    looks: Sequence[Look] = sorted((one for found in captured for one in found), key=_at)
    pages = Captured(looks, sorted({one.target for one in looks}))
    from_pages = fill_in(fresh("", "pages", tmp_path), pages)
    start, end = looks[0].at - 1.0, looks[-1].at
    with serving(to_openmetrics(looks), tmp_path) as server:
        api = PrometheusApi(server.url, Credentials(), clock=FakeClock())
        source = PrometheusSource(api, "", start, end, Naming(()).name_of)
        from_series = fill_in(fresh("", "series", tmp_path), source)
    assert len(from_pages["samples"]) > 20
    assert from_series["samples"] == from_pages["samples"]
    assert latest(from_series["fingerprints"]) == latest(from_pages["fingerprints"])
    # Before a server has served anything, only comments of its page tell that it is one.
    served = {target: min(times) for target, times in first_figures(from_pages).items()}
    said, expected = (
        [row[:6] for row in found["verdicts"] if row[1] > served[row[0]]]
        for found in (from_series, from_pages)
    )
    assert said == expected


def latest(fingerprints: list[Any]) -> dict[int, Any]:
    return {target: rest for target, _, *rest in fingerprints}


def first_figures(found: dict[str, list[Any]]) -> dict[int, list[float]]:
    """The ends of the samples of each target."""
    ends: dict[int, list[float]] = {}
    for series, _, end, *_ in found["samples"]:
        ends.setdefault(int(series.partition("/")[0]), []).append(end)
    return ends


def _at(one: Look) -> float:
    return one.at
