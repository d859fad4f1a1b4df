"""What the verdict on a target depends on besides its pages."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.health.baseline import Baseline, QuickSpeeds

DEFAULT_WINDOWS = (60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0)
DEFAULT_JUDGED = (60.0, 300.0, 900.0)


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Thresholds, spans and the baseline of one target."""

    threshold: float = 0.40
    """Acceptance rate below which a target without a proven gain is degraded."""
    dead_band: float = 0.05
    """Speedups within 1 ± this are neutral."""
    windows: tuple[float, ...] = DEFAULT_WINDOWS
    """Spans shown, in seconds, ascending."""
    judged: tuple[float, ...] = DEFAULT_JUDGED
    """Spans judged, ascending: the shortest one that allows a verdict decides."""
    baseline: Baseline | None = None
    speeds: QuickSpeeds | None = None
    """Two measured single-stream speeds, where the page has no latency."""
