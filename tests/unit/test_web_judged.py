"""The monitor's own metrics about verdicts, as they follow from assessments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Sample
from prometheus_client.parser import text_string_to_metric_families

from monitor.alerting.model import Severity
from monitor.model import (
    Action,
    Assessment,
    BaselineMatch,
    Cause,
    Counts,
    EngineVerdict,
    Estimate,
    Evidence,
    Figures,
    Position,
    Verdict,
    WhatIf,
    Window,
)
from monitor.web.judged import JUDGED, NUMBERED, SEVERITY_CODES
from monitor.web.metrics import MetricsPage
from monitor.web.view import FiringAlert, Health, TargetView

NOW = 1_800_000_000.0


def assessment(verdict: Verdict, **more: object) -> Assessment:
    cause = Cause.WEAK_DRAFTER if verdict is Verdict.HARMFUL else None
    return Assessment("t", NOW, verdict, cause, Action.NONE, "sentence", **more)  # type: ignore[arg-type]


def view(
    target: str,
    judged: Assessment | None,
    *,
    role: str = "speculative",
    service: str = "chat",
    totals: Counts | None = None,
) -> TargetView:
    return TargetView(
        service=service,
        target=target,
        role=role,
        assessment=judged,
        windows=dict,
        page_age=1.0,
        scrape_seconds=0.01,
        rounds=1,
        late=0,
        tick_errors=0,
        errors={},
        since=NOW - 60.0,
        totals=totals or Counts(),
        alerts=(FiringAlert("harmful", Severity.CRITICAL),) if target == "a" else (),
    )


@dataclass
class Seen:
    """A daemon that knows these targets."""

    views: Sequence[TargetView]

    def targets(self) -> Sequence[TargetView]:
        return self.views

    def health(self) -> Health:
        return Health(0.0, 1.0, None)

    def status(self) -> dict[str, Any]:
        return {}

    def reload(self) -> None:
        return


def shown(*views: TargetView) -> dict[str, list[Sample]]:
    heads: dict[str, list[Sample]] = {f"monitor_{family.name}": [] for family in JUDGED}
    page, _ = MetricsPage(Seen(views)).render("")
    found = text_string_to_metric_families(page.decode())
    return heads | {family.name: list(family.samples) for family in found}


def value(samples: list[Sample], **labels: str) -> float:
    (found,) = [s.value for s in samples if labels.items() <= s.labels.items()]
    return found


def test_severity_codes_are_fixed_as_dashboards_and_stored_series_rely_on_them() -> None:
    assert {verdict.value: code for verdict, code in SEVERITY_CODES.items()} == {
        "off": 0.0,
        "idle": 10.0,
        "insufficient": 20.0,
        "healthy": 30.0,
        "neutral": 40.0,
        "unproven": 50.0,
        "not_drafting": 60.0,
        "unrecognised": 70.0,
        "down": 80.0,
        "misreported": 90.0,
        "stalled": 100.0,
        "degraded": 110.0,
        "harmful": 120.0,
    }


def test_a_service_has_the_worst_verdict_of_its_speculative_side() -> None:
    found = shown(
        view("a", assessment(Verdict.HEALTHY)),
        view("b", assessment(Verdict.DEGRADED)),
        view("plain", assessment(Verdict.STALLED), role="baseline"),
        view("c", assessment(Verdict.IDLE), service="code"),
        view("d", None, service="new"),
    )
    services = found["monitor_service_verdict_severity"]
    assert value(services, service="chat") == 110.0
    assert value(services, service="code") == 10.0
    assert len(services) == 2


def test_a_decision_is_told_with_its_reason_and_its_age() -> None:
    harmful = assessment(Verdict.HARMFUL, evidence=Evidence.COUNTER)
    found = shown(view("a", harmful))
    (decision,) = found["monitor_decision_info"]
    assert decision.labels == {
        "service": "chat",
        "target": "a",
        "verdict": "harmful",
        "cause": "weak_drafter",
        "action": "none",
    }
    assert value(found["monitor_evidence_weak"]) == 0.0
    assert value(found["monitor_verdict_since_timestamp_seconds"]) == NOW - 60.0
    assert value(found["monitor_alert_firing"], rule="harmful", severity="critical") == 1.0


def test_figures_come_with_all_that_a_panel_needs() -> None:
    counts = Counts(drafts=100.0, draft_tokens=500.0, accepted_tokens=150.0)
    found = shown(
        view(
            "a",
            assessment(
                Verdict.HARMFUL,
                window=Window(NOW - 60.0, NOW, counts),
                acceptance_rate=Estimate(0.3, 0.2, 0.4),
                positions=tuple(Position(i, 0.5**i, None) for i in range(NUMBERED + 5)),
                what_if=WhatIf(2, 1.1, "", 0.7),
                baseline=BaselineMatch("plain", True, (1.0, 64.0), NOW - 3600.0),
            ),
            totals=counts,
        )
    )
    assert value(found["monitor_effective_k"]) == 5.0
    assert value(found["monitor_best_draft_size"]) == 2.0
    assert value(found["monitor_baseline_measured_timestamp_seconds"]) == NOW - 3600.0
    assert value(found["monitor_position_acceptance_rate"], position="1") == 0.5
    assert len(found["monitor_position_acceptance_rate"]) == NUMBERED
    assert value(found["monitor_accepted_tokens"]) == 150.0


@pytest.mark.parametrize(
    "unknown", [Counts(unsized_drafts=1.0), Counts(uncounted_draft_tokens=1.0)]
)
def test_sums_of_which_a_part_is_unknown_are_not_shown(unknown: Counts) -> None:
    found = shown(view("a", None, totals=unknown._replace(drafts=10.0, output_tokens=7.0)))
    assert found["monitor_drafts"] == found["monitor_accepted_tokens"] == []
    assert value(found["monitor_output_tokens"]) == 7.0


def test_only_engines_with_a_small_number_are_shown() -> None:
    def engine(label: str) -> EngineVerdict:
        return EngineVerdict(label, Verdict.HEALTHY, None, None, Estimate(2.5))

    engines = tuple(engine(label) for label in ("0", "63", "64", "01", "http://evil", ""))
    found = shown(view("a", assessment(Verdict.HEALTHY, engines=engines)))
    assert [s.labels["engine"] for s in found["monitor_engine_acceptance_length"]] == ["0", "63"]
    assert value(found["monitor_engine_verdict_severity"], engine="0") == 30.0


def windowed(target: str, *, rounds: int, asked: list[str], age: float = 1.0) -> TargetView:
    def windows() -> dict[float, Figures]:
        asked.append(target)
        return {60.0: Figures(Estimate(0.5))}

    return replace(
        view(target, assessment(Verdict.HEALTHY)), rounds=rounds, windows=windows, page_age=age
    )


def test_the_lines_of_a_target_are_made_once_for_each_of_its_rounds() -> None:
    asked: list[str] = []
    daemon = Seen([windowed(name, rounds=1, asked=asked) for name in "ab"])
    page = MetricsPage(daemon)
    first, _ = page.render("")
    asked.clear()
    assert page.render("")[0] == first
    assert asked == []
    daemon.views = [
        windowed("a", rounds=2, asked=asked),
        windowed("b", rounds=1, asked=asked, age=9.0),
    ]
    text = page.render("")[0].decode()
    assert set(asked) == {"a"}
    assert 'monitor_rounds_total{service="chat",target="a"} 2.0\n' in text
    assert 'monitor_scrape_age_seconds{service="chat",target="b"} 9.0\n' in text


@given(names=st.lists(st.text(), min_size=1, max_size=3, unique=True), rate=st.floats())
def test_the_reference_parser_reads_what_was_meant(names: list[str], rate: float) -> None:
    views = [
        replace(view(name, assessment(Verdict.IDLE)), threshold=rate, alerts=()) for name in names
    ]
    found = shown(*views)
    told = {s.labels["target"]: s.value for s in found["monitor_acceptance_threshold"]}
    assert told == (dict.fromkeys(names, rate) if isfinite(rate) else {})
    assert len(found["monitor_verdict"]) == len(names) * len(Verdict)
