"""What the audit of a rollback keeps beside the windows: configuration, baselines, pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from monitor.daemon.excerpt import excerpt
from monitor.health.baseline import Baseline
from monitor.rollback.evidence import Look
from monitor.settings import TargetSettings

FRESH_SECONDS = 60.0
"""How long a page is good enough as evidence: to read one costs more than to judge it, and that
in the middle of an incident, of each target."""


class _Seen(NamedTuple):
    at: float
    page: list[str]
    baseline: Baseline | None


class Evidence:
    """The latest of each target that votes, to the minute. Safe from any thread.

    Args:
        baseline_of: the curve that a target is compared with now.
    """

    def __init__(self, baseline_of: Callable[[TargetSettings], Baseline | None]) -> None:
        self.config_hash = ""
        self._baseline_of = baseline_of
        self._seen: dict[str, _Seen] = {}

    def take(self, target: TargetSettings, look: Look, page: bytes | None) -> None:
        """Keeps what a vote rests on; of a target without a vote nothing is worth keeping."""
        if not look.votes or page is None:
            return
        at, seen = look.assessment.at, self._seen.get(target.name)
        if seen is None or not 0.0 <= at - seen.at < FRESH_SECONDS:
            self._seen[target.name] = _Seen(at, excerpt(page), self._baseline_of(target))

    def forget(self, target: str) -> None:
        """Drops what was kept of a target."""
        self._seen.pop(target, None)

    def annex(self, targets: Iterable[str]) -> dict[str, Any]:
        """JSON values about these targets."""
        seen = {name: found for name in targets if (found := self._seen.get(name)) is not None}
        return {
            "config": self.config_hash,
            "baselines": {
                name: _document(found.baseline)
                for name, found in seen.items()
                if found.baseline is not None
            },
            "pages": {name: found.page for name, found in seen.items()},
        }


def _document(baseline: Baseline) -> dict[str, Any]:
    return {
        "name": baseline.name,
        "points": [[point.running, point.tpot] for point in baseline.points],
    }
