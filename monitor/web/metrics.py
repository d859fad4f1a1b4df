"""The monitor's own metrics, ``monitor_*``, read from the latest assessments when asked.

Nothing is set when a target is scraped: a collector looks at what is known at the moment of
the request. So a figure that is unknown has no sample rather than a wrong one, and a target
that was removed is gone by itself. Label values come from the configuration, never from a
page: a page could invent any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from monitor import __version__
from monitor.model import Alarm, Assessment, Estimate, Verdict
from monitor.web.view import Health, Monitored, TargetView

_TARGET_LABELS = ("service", "target")

_Figure = Callable[[Assessment], float | None]

_ESTIMATES: tuple[tuple[str, str, Callable[[Assessment], Estimate | None]], ...] = (
    ("acceptance_rate", "Accepted draft tokens / draft tokens", lambda a: a.acceptance_rate),
    (
        "acceptance_length",
        "Tokens per draft, bonus token included",
        lambda a: a.acceptance_length,
    ),
    ("speedup", "Decode speed relative to no speculation at the same load", lambda a: a.speedup),
)

_FIGURES: tuple[tuple[str, str, _Figure], ...] = (
    (
        "break_even_acceptance_length",
        "Acceptance length from which speculation pays at this load",
        lambda a: a.break_even.acceptance_length if a.break_even else None,
    ),
    (
        "evidence_drafts",
        "Drafts the verdict rests on",
        lambda a: a.window.counts.drafts if a.window else None,
    ),
    (
        "evidence_requests",
        "Finished requests the verdict rests on",
        lambda a: a.window.counts.requests if a.window else None,
    ),
    (
        "evidence_seconds",
        "Length of the window the verdict rests on",
        lambda a: a.window.end - a.window.start if a.window else None,
    ),
    ("running_requests", "Running requests, mean of the window", lambda a: a.load.running),
    ("waiting_requests", "Waiting requests, mean of the window", lambda a: a.load.waiting),
    ("tpot_seconds", "Time per output token", lambda a: a.load.tpot),
    ("step_seconds", "Time per decode step as a request sees it", lambda a: a.load.step),
)

_HEALTH_GAUGES: tuple[tuple[str, str, Callable[[Health], float]], ...] = (
    ("loop_age_seconds", "Time since any round was started", lambda h: h.loop_age),
    ("clock_lead_seconds", "Lead of the monitor's time over the clock", lambda h: h.clock_lead),
    ("store_queue_rows", "Rows that wait for the database", lambda h: h.rows_queued),
    ("store_write_age_seconds", "Time since the last write", lambda h: h.write_age),
    ("config_reload_success", "Whether the last reload succeeded", lambda h: h.reload_ok),
    ("config_reload_timestamp_seconds", "Last successful load", lambda h: h.reload_at),
)

_HEALTH_COUNTERS: tuple[tuple[str, str, Callable[[Health], float]], ...] = (
    ("slots_missed", "Slots that were started too late to run", lambda h: h.rounds_missed),
    ("slots_skipped", "Slots skipped as the last still ran", lambda h: h.rounds_skipped),
    ("slots_failed", "Rounds that could not be handed out", lambda h: h.rounds_failed),
    ("scheduler_rebuilds", "Times the scheduler was rebuilt", lambda h: h.scheduler_rebuilds),
    ("store_rows_written", "Rows written to the database", lambda h: h.rows_written),
    ("store_rows_dropped", "Rows lost before they were written", lambda h: h.rows_dropped),
    ("store_write_errors", "Writes the database did not take", lambda h: h.write_errors),
)


def build_registry(monitored: Monitored) -> CollectorRegistry:
    """A registry with nothing in it but the monitor's own metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MonitorCollector(monitored))
    return registry


class MonitorCollector(Collector):
    """Reads what the daemon knows."""

    def __init__(self, monitored: Monitored) -> None:
        self._monitored = monitored

    def collect(self) -> Iterator[Metric]:
        """All families, of the daemon and of its targets."""
        targets = self._monitored.targets()
        yield from _health(self._monitored.health())
        yield _roles(targets)
        yield _verdicts(targets)
        yield _decisions(targets)
        yield _alarms(targets)
        yield from _thresholds(targets)
        for name, text, estimate in _ESTIMATES:
            yield from _estimates(name, text, targets, estimate)
        for name, text, figure in _FIGURES:
            yield _assessed(name, text, targets, figure)
        yield _baselines(targets)
        yield from _scrapes(targets)
        yield from _windows(targets)


def _health(health: Health) -> Iterator[Metric]:
    yield InfoMetricFamily("monitor_build", "The release", {"version": __version__})
    yield InfoMetricFamily("monitor_config", "The configuration", {"hash": health.config_hash})
    for name, text, gauge in _HEALTH_GAUGES:
        yield GaugeMetricFamily(f"monitor_{name}", text, value=float(gauge(health)))
    for name, text, counter in _HEALTH_COUNTERS:
        yield CounterMetricFamily(f"monitor_{name}", text, value=float(counter(health)))


def _roles(targets: Sequence[TargetView]) -> Metric:
    roles = (((view.service, view.target, view.role), 1.0) for view in targets)
    text = "1 for each target that is watched; its side of the service"
    return _gauge("target_info", text, (*_TARGET_LABELS, "role"), roles)


def _verdicts(targets: Sequence[TargetView]) -> Metric:
    family = GaugeMetricFamily(
        "monitor_verdict", "1 for the verdict that holds", labels=(*_TARGET_LABELS, "verdict")
    )
    for view in targets:
        if view.assessment is not None:
            for verdict in Verdict:
                holds = float(verdict is view.assessment.verdict)
                family.add_metric((view.service, view.target, verdict.value), holds)
    return family


def _decisions(targets: Sequence[TargetView]) -> Metric:
    """What a rule or a table needs in one series: the labels change with the decision."""
    decided = (
        ((view.service, view.target, a.verdict.value, a.cause or "", a.action.value), 1.0)
        for view in targets
        if (a := view.assessment) is not None
    )
    labels = (*_TARGET_LABELS, "verdict", "cause", "action")
    return _gauge("decision_info", "1 for what is decided", labels, decided)


def _alarms(targets: Sequence[TargetView]) -> Metric:
    found = (
        ((view.service, view.target, alarm.value), float(alarm in view.alarms))
        for view in targets
        if view.assessment is not None
        for alarm in Alarm
    )
    text = "1 while the detector stands by a drop or a rise of acceptance"
    return _gauge("alarm", text, (*_TARGET_LABELS, "alarm"), found)


def _thresholds(targets: Sequence[TargetView]) -> Iterator[Metric]:
    names = [(view, (view.service, view.target)) for view in targets]
    yield _gauge(
        "acceptance_threshold",
        "Acceptance rate from which down an alert may be raised",
        _TARGET_LABELS,
        ((labels, view.threshold) for view, labels in names),
    )
    yield _gauge(
        "acceptance_threshold_own",
        "1 if that was set for the service itself, 0 if it is the general one",
        _TARGET_LABELS,
        ((labels, float(view.threshold_is_set)) for view, labels in names),
    )


def _estimates(
    name: str,
    text: str,
    targets: Sequence[TargetView],
    estimate: Callable[[Assessment], Estimate | None],
) -> Iterator[Metric]:
    def part(index: int) -> _Figure:
        return lambda a: None if (found := estimate(a)) is None else found[index]

    for index, (suffix, which) in enumerate((("", ""), ("_low", ", lower"), ("_high", ", upper"))):
        yield _assessed(name + suffix, f"{text}{which and which + ' limit'}", targets, part(index))


def _assessed(name: str, text: str, targets: Sequence[TargetView], figure: _Figure) -> Metric:
    known = (
        ((view.service, view.target), figure(view.assessment))
        for view in targets
        if view.assessment is not None
    )
    return _gauge(name, text, _TARGET_LABELS, known)


def _baselines(targets: Sequence[TargetView]) -> Metric:
    used = (
        ((view.service, view.target, baseline.name), float(baseline.matches))
        for view in targets
        if view.assessment is not None and (baseline := view.assessment.baseline) is not None
    )
    text = "1 for the baseline it is compared with; 0 if that is of another kind of server"
    return _gauge("baseline_matches", text, (*_TARGET_LABELS, "baseline"), used)


def _scrapes(targets: Sequence[TargetView]) -> Iterator[Metric]:
    names = [(view, (view.service, view.target)) for view in targets]
    yield _gauge(
        "scrape_age_seconds",
        "Time since the last page that came",
        _TARGET_LABELS,
        ((labels, view.page_age) for view, labels in names),
    )
    yield _gauge(
        "scrape_duration_seconds",
        "How long the last round took",
        _TARGET_LABELS,
        ((labels, view.scrape_seconds) for view, labels in names),
    )
    yield _counter("rounds", "Rounds done", ((labels, view.rounds) for view, labels in names))
    yield _counter(
        "rounds_late",
        "Rounds left out because the one before still ran",
        ((labels, view.late) for view, labels in names),
    )
    yield _counter(
        "tick_errors",
        "Rounds that failed on a mistake of the monitor",
        ((labels, view.tick_errors) for view, labels in names),
    )
    errors = CounterMetricFamily(
        "monitor_scrape_errors", "Failed scrapes", labels=(*_TARGET_LABELS, "kind")
    )
    for view, labels in names:
        for kind, count in sorted(view.errors.items()):
            errors.add_metric((*labels, kind), float(count))
    yield errors


def _windows(targets: Sequence[TargetView]) -> Iterator[Metric]:
    labels = (*_TARGET_LABELS, "window")
    assessed = [
        ((view.service, view.target, f"{seconds:g}s"), assessment)
        for view in targets
        for seconds, assessment in view.windows().items()
    ]
    for name, text, estimate in _ESTIMATES:
        found = ((key, estimate(assessment)) for key, assessment in assessed)
        values = ((key, None if value is None else value.value) for key, value in found)
        yield _gauge(f"window_{name}", f"{text}, by window", labels, values)


def _gauge(
    name: str,
    text: str,
    labels: Sequence[str],
    values: Iterable[tuple[Sequence[str], float | None]],
) -> Metric:
    family = GaugeMetricFamily(f"monitor_{name}", text, labels=labels)
    for key, value in values:
        if value is not None and isfinite(value):
            family.add_metric(key, value)
    return family


def _counter(name: str, text: str, values: Iterable[tuple[Sequence[str], int]]) -> Metric:
    family = CounterMetricFamily(f"monitor_{name}", text, labels=_TARGET_LABELS)
    for key, value in values:
        family.add_metric(key, float(value))
    return family
