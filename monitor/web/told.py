"""Metrics of what people are told: the messages for each receiver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import Metric

from monitor.web.families import counter, gauge
from monitor.web.view import ReceiverView

_LABELS = ("receiver",)


def told(receivers: Sequence[ReceiverView]) -> Iterator[Metric]:
    """All families about the delivery of messages."""
    named = [(view, (view.receiver,)) for view in receivers]
    yield counter(
        "notifications_sent",
        "Messages that the receiver has taken",
        _LABELS,
        ((labels, view.sent) for view, labels in named),
    )
    yield counter(
        "notifications_retried",
        "Attempts that failed and are repeated",
        _LABELS,
        ((labels, view.retried) for view, labels in named),
    )
    yield counter(
        "notifications_dead",
        "Messages that were given up",
        _LABELS,
        ((labels, view.dead) for view, labels in named),
    )
    yield gauge(
        "notifications_waiting",
        "Messages that wait for the receiver, as of the last minute",
        _LABELS,
        ((labels, float(view.waiting)) for view, labels in named),
    )
    yield gauge(
        "notifications_oldest_seconds",
        "For how long the oldest of them has waited",
        _LABELS,
        ((labels, view.oldest) for view, labels in named),
    )
