"""A real Prometheus that scraped the servers tells the same as having watched them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backfill_series import to_openmetrics
from backfill_stage import (
    BY_NAME,
    INTERVAL,
    RULES,
    START,
    TARGETS,
    fresh,
    quarter,
    rows,
    watch_live,
)
from prometheus_server import MISSING, PROMETHEUS, PROMTOOL, Prometheus, serving
from sqlalchemy import Engine
from store_rows import opened

from monitor.backfill.dump import DumpSource
from monitor.backfill.ingest import Ingest, Summary
from monitor.backfill.looks import Look, Source
from monitor.backfill.naming import Naming
from monitor.backfill.prometheus import PrometheusSource
from monitor.clock import FakeClock
from monitor.pipeline import NoPage, Page
from monitor.settings import Credentials
from monitor.sources.promql import PrometheusApi
from monitor.store.backfill import PastStore
from monitor.store.repository import Repository
from monitor.turn.curves import Curves

pytestmark = [
    pytest.mark.skipif(None in (PROMETHEUS, PROMTOOL), reason=MISSING),
    pytest.mark.xdist_group("backfill-prometheus"),
]

END = START + 8 * 3600.0


def looks() -> list[Look]:
    """Eight hours, in which a server restarts unseen, is away, and is not scraped for a while."""
    found = []
    for look in quarter():
        hour = (look.at - START) / 3600.0
        if look.target == "b" and 1.0 <= hour < 1.25:
            continue
        away = look.target == "b" and 2.0 <= hour < 2.25
        found.append(Look(look.target, look.at, NoPage("away") if away else look.seen))
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    first = to_openmetrics(looks(), replica="one", cluster="x")
    # A second scraper of the same servers, a little later, and some other program.
    late = [Look(look.target, look.at + 7.0, look.seen) for look in looks()]
    second = to_openmetrics(late, replica="two", cluster="x")
    other = f'up{{instance="node:9100",job="node",cluster="x",replica="one"}} 1 {START:.3f}\n'
    with serving(first.removesuffix("# EOF\n") + other + second, folder) as found:
        yield found


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    with opened(fresh("", "live", tmp_path_factory.mktemp("live"))) as engine:
        watch_live(engine, looks())
        return rows(engine)


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Engine]:
    with opened(fresh("", "past", tmp_path)) as engine:
        yield engine


def api(url: str) -> PrometheusApi:
    return PrometheusApi(url, Credentials(), clock=FakeClock())


def fill_in(engine: Engine, source: Source, naming: Naming) -> Summary:
    store = PastStore(engine, naming.settings(source.targets), START)
    curves = Curves(Repository(engine))
    return Ingest(store, curves, RULES, source, name="it", start=START, end=math.inf).run()


def assert_same_history(found: dict[str, list[Any]], live: dict[str, list[Any]]) -> None:
    """The same figures, and the same verdicts in the same words but for why a page was missing."""
    assert found["samples"] == live["samples"]
    words = [row[:5] for row in live["verdicts"]]
    assert [row[:5] for row in found["verdicts"]] == words
    for mine, theirs in zip(found["verdicts"], live["verdicts"], strict=True):
        assert mine[5] == theirs[5] or mine[2] == "down"
    assert len(found["incidents"]) == len(live["incidents"]) > 0
    assert found["fingerprints"] == live["fingerprints"]


def test_its_past_is_what_would_have_been_watched(
    server: Prometheus, sqlite: Engine, live: dict[str, Any]
) -> None:
    naming = Naming(TARGETS)
    source = PrometheusSource(api(server.url), 'cluster="x"', START, END, naming.name_of)
    assert sorted(source.targets) == ["a", "b", "plain"]
    assert [source.interval(name) for name in source.targets] == [INTERVAL] * 3
    found = fill_in(sqlite, source, naming)
    assert found.samples == len(looks())
    assert found.skipped == {"seen by another scraper of the same target": len(looks())}
    assert_same_history(rows(sqlite), live)


def test_short_answers_come_to_the_same(
    server: Prometheus, sqlite: Engine, live: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.backfill.prometheus.AIM_BYTES", 30_000)
    naming = Naming(TARGETS)
    source = PrometheusSource(api(server.url), 'replica="one"', START, END, naming.name_of)
    fill_in(sqlite, source, naming)
    assert_same_history(rows(sqlite), live)


def test_a_dump_of_the_same_series_comes_to_the_same(
    sqlite: Engine, live: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.backfill.dump.PIECE", 5_000)
    dump = tmp_path / "dump.om"
    dump.write_text(to_openmetrics(looks()))
    naming = Naming(TARGETS)
    source = DumpSource(str(dump), naming.name_of, {})
    fill_in(sqlite, source, naming)
    source.close()
    assert_same_history(rows(sqlite), live)


def test_targets_that_are_not_configured_are_named_by_their_labels(server: Prometheus) -> None:
    naming = Naming(())
    source = PrometheusSource(api(server.url), "", START, END, naming.name_of)
    assert sorted(source.targets) == ["a:8000", "b:8000", "plain:8000"]
    assert {item.service for item in naming.settings(source.targets).values()} == {"vllm"}
    only_a = Naming((BY_NAME["a"],))
    assert PrometheusSource(api(server.url), "", START, END, only_a.name_of).targets == ["a"]


def test_rebuilt_pages_are_those_that_were_scraped(server: Prometheus) -> None:
    naming = Naming(TARGETS)
    source = PrometheusSource(api(server.url), 'replica="one"', START, END, naming.name_of)
    found = next(look for look in source.looks(START) if look.target == "a")
    scraped = next(look for look in looks() if look.at == found.at)
    assert isinstance(found.seen, Page)
    assert isinstance(scraped.seen, Page)
    assert lines(found.seen.metrics) - {("up", 1.0)} == lines(scraped.seen.metrics)


def lines(page: bytes) -> set[tuple[str, float]]:
    pairs = (line.rsplit(" ", 1) for line in page.decode().splitlines() if line[:1] != "#")
    return {(name, float(value)) for name, value in pairs}
