"""What the audit of a rollback keeps beside the windows: configuration, baselines, pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from monitor.daemon.excerpt import excerpt
from monitor.health.baseline import Baseline
from monitor.rollback.evidence import Look
from monitor.settings import TargetSettings


@dataclass(slots=True)
class _Seen:
    page: list[str] = field(default_factory=list)
    baseline: Baseline | None = None


class Evidence:
    """The latest of each target that votes. Safe from any thread.

    Args:
        baseline_of: the curve that a target is compared with now.
    """

    def __init__(self, baseline_of: Callable[[TargetSettings], Baseline | None]) -> None:
        self.config_hash = ""
        self._baseline_of = baseline_of
        self._seen: dict[str, _Seen] = {}

    def take(self, target: TargetSettings, look: Look, page: bytes | None) -> None:
        """Keeps what a vote rests on; of a target without a vote nothing is worth keeping."""
        if look.votes and page is not None:
            self._seen[target.name] = _Seen(excerpt(page), self._baseline_of(target))

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
