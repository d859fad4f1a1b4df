"""The monitor's own metrics, ``monitor_*``, read from the latest assessments when asked.

Nothing is set when a target is scraped: the page looks at what is known at the moment of the
request. So a figure that is unknown has no sample rather than a wrong one, and a target
that was removed is gone by itself. Label values come from the configuration, never from a
page: a page could invent any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from monitor import __version__
from monitor.store.space import Space
from monitor.web.families import TargetFamily, gauge, label_text, single
from monitor.web.judged import JUDGED, services
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


_AGE = TargetFamily(
    "scrape_age_seconds", "Time since the last page that came", single(lambda view: view.page_age)
)
"""The one family about targets that changes with the clock."""

_SCRAPES = (
    TargetFamily(
        "scrape_duration_seconds",
        "How long the last fetch took",
        single(lambda view: view.scrape_seconds),
    ),
    TargetFamily("rounds", "Rounds done", single(lambda view: view.rounds), counts=True),
    TargetFamily(
        "rounds_late",
        "Rounds left out because the one before still ran",
        single(lambda view: view.late),
        counts=True,
    ),
    TargetFamily(
        "tick_errors",
        "Rounds that failed on a mistake of the monitor",
        single(lambda view: view.tick_errors),
        counts=True,
    ),
    TargetFamily(
        "scrape_errors",
        "Failed scrapes",
        lambda view: [((kind,), count) for kind, count in sorted(view.errors.items())],
        ("kind",),
        counts=True,
    ),
)
_REMEMBERED = (*JUDGED, *_SCRAPES)
_END = b"# EOF\n"


class _Families(Collector):
    """What an encoder takes for a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """The families."""
        return self._families


class _Lines(NamedTuple):
    """A target as it was shown last."""

    view: TargetView
    who: str
    lines: tuple[str, ...]
    """Of each remembered family."""


class MetricsPage:
    """The page of metrics. Safe from any thread.

    The lines of a target are made once for each of its rounds: whoever asks more often, and
    the second of two who ask, costs next to nothing.
    """

    def __init__(self, monitored: Monitored) -> None:
        self._monitored = monitored
        self._known: Mapping[tuple[str, str], _Lines] = {}

    def render(self, accept: str) -> tuple[bytes, str]:
        """The page in the format that the header ``accept`` asks for, and its media type."""
        encode, media_type = choose_encoder(accept)
        targets, health = self._monitored.targets(), self._monitored.health()
        known = [self._lines(view) for view in targets]
        # Made anew, so that a target that was removed is forgotten.
        self._known = {(each.view.service, each.view.target): each for each in known}
        own = encode(_Families([*_daemon(health), services(targets)]))
        ages = [_AGE.lines(view, each.who) for view, each in zip(targets, known, strict=True)]
        parts = [own.removesuffix(_END), _head(encode, _AGE), "".join(ages).encode()]
        for index, family in enumerate(_REMEMBERED):
            parts += _head(encode, family), "".join([e.lines[index] for e in known]).encode()
        if own.endswith(_END):
            parts.append(_END)
        return b"".join(parts), media_type

    def _lines(self, view: TargetView) -> _Lines:
        known = self._known.get((view.service, view.target))
        if known is not None and known.view == view:
            return known
        who = f"{label_text('service', view.service)},{label_text('target', view.target)}"
        return _Lines(view, who, tuple(family.lines(view, who) for family in _REMEMBERED))


def _head(encode: Callable[[Collector], bytes], family: TargetFamily) -> bytes:
    return encode(_Families([family.head()])).removesuffix(_END)


def _daemon(health: Health) -> Iterator[Metric]:
    yield from _health(health)
    if health.space is not None:
        yield from _space(health.space)
    yield from told(health.receivers)
    yield from moved(health.rollbacks, health.frozen)


def _health(health: Health) -> Iterator[Metric]:
    yield InfoMetricFamily("monitor_build", "The release", {"version": __version__})
    yield InfoMetricFamily("monitor_config", "The configuration", {"hash": health.config_hash})
    for name, text, figure in _HEALTH_GAUGES:
        yield GaugeMetricFamily(f"monitor_{name}", text, value=float(figure(health)))
    for name, text, figure in _HEALTH_COUNTERS:
        yield CounterMetricFamily(f"monitor_{name}", text, value=float(figure(health)))


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
