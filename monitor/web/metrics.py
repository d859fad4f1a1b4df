"""The monitor's own metrics, ``monitor_*``, read from the latest assessments when asked.

Nothing is set when a target is scraped: a collector looks at what is known at the moment of
the request. So a figure that is unknown has no sample rather than a wrong one, and a target
that was removed is gone by itself. Label values come from the configuration, never from a
page: a page could invent any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from monitor import __version__
from monitor.store.space import Space
from monitor.web.families import TARGET_LABELS, counter, gauge
from monitor.web.judged import judged
from monitor.web.moved import moved
from monitor.web.told import told
from monitor.web.view import Health, Monitored, TargetView

_HEALTH_GAUGES: tuple[tuple[str, str, Callable[[Health], float]], ...] = (
    ("loop_age_seconds", "Time since any round was started", lambda h: h.loop_age),
    ("clock_lead_seconds", "Lead of the monitor's time over the clock", lambda h: h.clock_lead),
    ("store_queue_rows", "Rows that wait for the database", lambda h: h.rows_queued),
    ("store_write_age_seconds", "Time since the last write", lambda h: h.write_age),
    ("leading", "Whether this daemon holds the lease", lambda h: h.fence is not None),
    ("lease_fence", "Number of the lease; 0 without it", lambda h: h.fence or 0),
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
        health = self._monitored.health()
        yield from _health(health)
        if health.space is not None:
            yield from _space(health.space)
        yield from told(health.receivers)
        yield from moved(health.rollbacks, health.frozen)
        yield from judged(targets)
        yield from _scrapes(targets)


def _health(health: Health) -> Iterator[Metric]:
    yield InfoMetricFamily("monitor_build", "The release", {"version": __version__})
    yield InfoMetricFamily("monitor_config", "The configuration", {"hash": health.config_hash})
    for name, text, figure in _HEALTH_GAUGES:
        yield GaugeMetricFamily(f"monitor_{name}", text, value=float(figure(health)))
    for name, text, figure in _HEALTH_COUNTERS:
        yield CounterMetricFamily(f"monitor_{name}", text, value=float(figure(health)))


def _scrapes(targets: Sequence[TargetView]) -> Iterator[Metric]:
    names = [(view, (view.service, view.target)) for view in targets]
    yield gauge(
        "scrape_age_seconds",
        "Time since the last page that came",
        TARGET_LABELS,
        ((labels, view.page_age) for view, labels in names),
    )
    yield gauge(
        "scrape_duration_seconds",
        "How long the last round took",
        TARGET_LABELS,
        ((labels, view.scrape_seconds) for view, labels in names),
    )
    rounds = ((labels, view.rounds) for view, labels in names)
    yield counter("rounds", "Rounds done", TARGET_LABELS, rounds)
    yield counter(
        "rounds_late",
        "Rounds left out because the one before still ran",
        TARGET_LABELS,
        ((labels, view.late) for view, labels in names),
    )
    yield counter(
        "tick_errors",
        "Rounds that failed on a mistake of the monitor",
        TARGET_LABELS,
        ((labels, view.tick_errors) for view, labels in names),
    )
    yield counter(
        "scrape_errors",
        "Failed scrapes",
        (*TARGET_LABELS, "kind"),
        (
            ((*labels, kind), count)
            for view, labels in names
            for kind, count in sorted(view.errors.items())
        ),
    )


def _space(space: Space) -> Iterator[Metric]:
    text = "Bytes of the database: in all, and without the room that deleted rows have left"
    sizes = ((("total",), float(space.total)), (("used",), float(space.used)))
    yield gauge("database_bytes", text, ("kind",), sizes)
    rows = (((table,), float(number)) for table, number in space.rows.items())
    yield gauge("database_rows", "Rows by table", ("table",), rows)
    first, pruned = space.oldest_sample, space.pruned_at
    for name, text, at in (
        ("oldest_sample", "End of the oldest sample", first),
        ("last_prune", "When what is older than it is kept was last deleted", pruned),
    ):
        yield gauge(f"database_{name}_timestamp_seconds", text, (), [((), at)])
