"""Metrics of rollbacks: where each service stands, and what was done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import Metric

from monitor.rollback.model import Phase
from monitor.rollback.settings import Mode
from monitor.web.families import counter, gauge
from monitor.web.view import RollbackView

_LABELS = ("service",)


def moved(rollbacks: Sequence[RollbackView], frozen: str | None) -> Iterator[Metric]:
    """All families about rollbacks."""
    named = [((view.service,), view) for view in rollbacks]
    yield gauge(
        "rollback_mode",
        "1 for how far the monitor may go",
        (*_LABELS, "mode"),
        (((*key, mode.value), float(mode == view.mode)) for key, view in named for mode in Mode),
    )
    yield gauge(
        "rollback_phase",
        "1 for where the rollback of the service stands",
        (*_LABELS, "phase"),
        (((*key, p.value), float(p == view.phase)) for key, view in named for p in Phase),
    )
    yield gauge(
        "rollback_baseline_share",
        "Share of the traffic that the baseline side has by the plan",
        _LABELS,
        ((key, view.share) for key, view in named),
    )
    yield gauge(
        "rollback_wanted",
        "Whether the windows of the service ask for a rollback",
        _LABELS,
        ((key, float(view.is_hurt)) for key, view in named),
    )
    yield counter(
        "rollback_acts",
        "Tries of acts, by how they ended",
        (*_LABELS, "outcome"),
        (((*key, outcome), n) for key, view in named for outcome, n in sorted(view.acts.items())),
    )
    yield counter(
        "rollback_errors",
        "Turns that ended in an error of ours or of the database",
        _LABELS,
        ((key, view.errors) for key, view in named),
    )
    text = "Whether nothing is moved because too many services are hurt at once"
    yield gauge("rollback_frozen", text, (), [((), float(frozen is not None))])
