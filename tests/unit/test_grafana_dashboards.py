"""The committed dashboards are those of the code, and nothing is wrong with them."""

from __future__ import annotations

import copy
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dashboard_lint import Json, panels, problems, queries
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from monitor.grafana import build, look
from monitor.health.judging import JudgeSettings
from monitor.resources import data_dir
from monitor.store.space import Space
from monitor.web.metrics import MetricsPage
from monitor.web.view import Health, TargetView

DASHBOARDS = data_dir("dashboards")
DATA = Path(__file__).parents[1] / "data"
NAMES = sorted(build.documents())
BUILT = build.documents()


def committed(name: str) -> Json:
    document: Json = json.loads((DASHBOARDS / name).read_text("utf-8"))
    return document


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_file_is_what_the_code_builds(name: str) -> None:
    assert (DASHBOARDS / name).read_text("utf-8") == build.render(BUILT[name]), (
        "run 'python -m monitor.grafana.build'"
    )


def test_the_command_writes_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["build", str(tmp_path)])
    build.main()
    assert sorted(path.name for path in tmp_path.iterdir()) == NAMES


def test_no_file_is_left_over() -> None:
    assert [path.name for path in sorted(DASHBOARDS.glob("*.json"))] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_library_reads_back_what_it_wrote(name: str) -> None:
    plugins.register_default_plugins()
    document = committed(name)
    read = json.loads(json.dumps(Dashboard.from_json(copy.deepcopy(document)), cls=JSONEncoder))
    assert without_placement(read) == without_placement(document)


def without_placement(value: Any) -> Any:
    """Links without a key that the library sets and does not read."""
    if isinstance(value, dict):
        return {k: without_placement(v) for k, v in value.items() if k != "placement"}
    return [without_placement(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wrong_with_it(name: str) -> None:
    assert problems(committed(name)) == []


def test_uids_differ_and_links_lead_to_them() -> None:
    documents = [committed(name) for name in NAMES]
    uids = [document["uid"] for document in documents]
    assert len(set(uids)) == len(uids)
    for document in documents:
        assert set(re.findall(r"/d/([\w-]+)\?", json.dumps(document))) <= set(uids)


def break_id(panel: Json) -> None:
    panel["id"] = 2


def break_place(panel: Json) -> None:
    panel["gridPos"]["w"] = 20


def break_unit(panel: Json) -> None:
    panel["fieldConfig"]["defaults"]["unit"] = "precentunit"


def break_words(panel: Json) -> None:
    del panel["fieldConfig"]["defaults"]["noValue"]


def break_text(panel: Json) -> None:
    panel["description"] = ""


def break_source(panel: Json) -> None:
    panel["targets"][0]["datasource"]["uid"] = "P1809F7CD0C75ACF3"


def break_ref(panel: Json) -> None:
    panel["targets"].append(panel["targets"][0])


def break_expr(panel: Json) -> None:
    panel["targets"][0]["expr"] = ""


def ask(expr: str) -> Callable[[Json], None]:
    def change(panel: Json) -> None:
        panel["targets"][0]["expr"] = expr

    return change


@pytest.mark.parametrize(
    "change",
    [
        break_id,
        break_place,
        break_unit,
        break_words,
        break_text,
        break_source,
        break_ref,
        break_expr,
        ask("sum(vllm:num_requests_running{job='$jobb'})"),
        ask("rate(sglang:spec_accept_length[$__rate_interval])"),
        ask("rate(sum(monitor_drafts_total)[$__rate_interval])"),
        ask("rate(monitor_drafts_total[10s])"),
    ],
    ids=lambda change: change.__name__,
)
def test_the_lint_sees_what_is_wrong(change: Callable[[Json], None]) -> None:
    document = committed("paying.json")
    change(document["panels"][0])
    assert len(problems(document)) >= 1


def test_limits_are_those_of_the_verdicts() -> None:
    judge = JudgeSettings()
    tile = next(p for p in panels(committed("paying.json")) if p["title"] == "Slowest speedup")
    steps = tile["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [step["value"] for step in steps] == [None, 1 - judge.dead_band, 1 + judge.dead_band]
    assert judge.threshold == look.LEAST_RATE
    assert len(look.COLOURS) == len(look.verdict_codes().options) == 13


# -- every metric that is asked for exists ----------------------------------------------------


class Nothing:
    """A daemon with one target that was never looked at."""

    def targets(self) -> list[TargetView]:
        return [
            TargetView("s", "t", "speculative", None, dict, None, None, 0, 0, 0, {}, since=None)
        ]

    def health(self) -> Health:
        return Health(0.0, 1.0, None, space=Space(1, 1, {}, None, None))

    def status(self) -> dict[str, Any]:
        return {}

    def reload(self) -> None:
        return


def own_names() -> set[str]:
    page, _ = MetricsPage(Nothing()).render("")
    return set(re.findall(r"^# TYPE (\S+)", page.decode(), re.MULTILINE))


def engine_names() -> set[str]:
    """All names on pages of real servers, of all releases."""
    names: set[str] = set()
    for path in sorted(DATA.glob("*/**/*.prom.gz")):
        text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
        names.update(re.findall(r"^((?:vllm|sglang)[:_]\w+)", text, re.MULTILINE))
    return names


def asked_names(document: Json) -> set[str]:
    text = " ".join(query.get("expr", "") for _, query in queries(document))
    text += " ".join(a.get("expr", "") for a in document["annotations"].get("list", ()))
    return set(re.findall(r"\b(?:monitor_|vllm:|sglang:)\w+", text))


def test_every_metric_that_is_asked_for_exists() -> None:
    asked = set().union(*(asked_names(committed(name)) for name in NAMES))
    assert {name for name in asked if name.startswith("monitor_")} <= own_names()
    engines = {name for name in asked if not name.startswith("monitor_")}
    assert len(engines) > 15
    assert engines <= engine_names()
