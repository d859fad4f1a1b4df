"""The alert rule one would write in Prometheus, on the same traffic."""

from __future__ import annotations

import numpy as np

from benchmarks.detection.traffic import PER_HOUR, Floats

WINDOW = 20
"""Scrapes in five minutes: of ``rate(…[5m])`` and of ``for: 5m``."""


def scores(drafts: Floats, accepted: Floats, k: int) -> Floats:
    """At each scrape the lowest x at which ``rate(5m) < x for 5m`` would not fire.

    An idle window gives no number in PromQL and resets ``for``: infinity here.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = _rolling_sum(accepted) / (k * _rolling_sum(drafts))
    ratio = np.where(np.isfinite(ratio), ratio, np.inf)
    highest = np.full(len(ratio), np.inf)
    if len(ratio) >= WINDOW:
        views = np.lib.stride_tricks.sliding_window_view(ratio, WINDOW)
        highest[WINDOW - 1 :] = views.max(axis=1)
    return highest


def _rolling_sum(values: Floats) -> Floats:
    total = np.concatenate([[0.0], values.cumsum()])
    rolled = np.full(len(values), np.nan)
    rolled[WINDOW - 1 :] = total[WINDOW:] - total[:-WINDOW]
    return rolled


def alarms(score: Floats, threshold: float) -> int:
    """Alarms of a rule, armed again after an hour above the threshold."""
    below = np.flatnonzero(score < threshold)
    if not len(below):
        return 0
    return 1 + int((np.diff(below) > PER_HOUR).sum())


def threshold_for(series: list[Floats], allowed: float) -> float:
    """The highest threshold with at most so many alarms over all series."""
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2.0
        if sum(alarms(score, middle) for score in series) > allowed:
            high = middle
        else:
            low = middle
    return low


def record_lows(score: Floats) -> tuple[list[int], list[float]]:
    """When the score was lower than ever before, and how low: all a first alarm depends on."""
    lowest = np.minimum.accumulate(score)
    new = np.flatnonzero(lowest < np.concatenate([[np.inf], lowest[:-1]]))
    return [int(index) for index in new], [float(value) for value in lowest[new]]


def first_alarm(lows: tuple[list[int], list[float]], threshold: float) -> int | None:
    """Scrapes until the rule fires; None if it never does."""
    for index, value in zip(*lows, strict=True):
        if value < threshold:
            return index + 1
    return None
