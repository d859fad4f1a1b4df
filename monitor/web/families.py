"""Builds families of samples: what is not known or not finite has no sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

TARGET_LABELS = ("service", "target")

Values = Iterable[tuple[Sequence[str], float | None]]
"""Label values and what they stand for."""


def gauge(name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
    """A figure that may go up and down."""
    family = GaugeMetricFamily(f"monitor_{name}", text, labels=labels)
    for key, value in values:
        if value is not None and isfinite(value):
            family.add_metric(key, value)
    return family


def counter(name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
    """A sum that begins at zero with the process; the page adds ``_total`` to its name."""
    family = CounterMetricFamily(f"monitor_{name}", text, labels=labels)
    for key, value in values:
        if value is not None and isfinite(value):
            family.add_metric(key, value)
    return family
