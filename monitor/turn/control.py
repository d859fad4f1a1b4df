"""The plain servers of a service, watched as a live baseline for its speculative side."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from itertools import groupby
from typing import Any, NamedTuple

import structlog

from monitor.health.baseline import Baseline, BaselinePoint
from monitor.health.combine import combine
from monitor.health.curve import BinSums, CurveSums
from monitor.health.window import GAP_INTERVALS
from monitor.model import Counts, Engine, Identity, Increment
from monitor.settings import TargetSettings

FADING = 0.1
"""Share of its weight that what was seen loses in an hour, so that the curve follows."""
REFIT_SECONDS = 60.0
_HOUR = 3600.0

_log = structlog.get_logger(__name__)


class Choice(NamedTuple):
    """What a target is compared with, or a note on why with nothing."""

    baseline: Baseline | None = None
    why_not: str | None = None


NOTHING = Choice()


@dataclass(slots=True)
class _Server:
    """What one plain server was seen doing."""

    longest: float
    """A longer time between two looks is a gap; its mean load tells nothing."""
    sums: CurveSums = field(default_factory=CurveSums)
    identity: Identity = field(default_factory=Identity)
    faded_at: float | None = None
    reason: str | None = None
    """Why it is no baseline, until it starts anew."""

    def take(self, end: float, counts: Counts) -> None:
        """Adds one steady interval."""
        if self.faded_at is None:
            self.faded_at = end
        elif end - self.faded_at >= REFIT_SECONDS:
            self.sums.fade((1.0 - FADING) ** ((end - self.faded_at) / _HOUR))
            self.faded_at = end
        self.sums.take(counts)

    def remember(self) -> dict[str, Any]:
        """All of this, for JSON."""
        return {
            "bins": [[middle, *astuple(sums)] for middle, sums in self.sums.bins.items()],
            "identity": self.identity,
            "faded_at": self.faded_at,
            "reason": self.reason,
        }

    def resume(self, known: Mapping[str, Any]) -> None:
        """Takes on what ``remember`` gave."""
        self.sums = CurveSums()
        self.sums.bins |= {middle: BinSums(*sums) for middle, *sums in known["bins"]}
        self.identity = _identity(known["identity"])
        self.faded_at, self.reason = known["faded_at"], known["reason"]

    def become(self, identity: Identity) -> None:
        """Notes what server it is; what another kind of server did is forgotten."""
        if not _plain("", identity).matches(self.identity):
            self.sums = CurveSums()
        self.identity = identity


class Control:
    """The curve of the plain servers of one service, fitted again about each minute.

    A server that drafts is refused, and all it showed is forgotten, until it starts anew: one
    whose drafter is dead looks like plain decoding, but each step still pays for a draft.
    Safe from any thread.
    """

    def __init__(self, service: str, targets: Iterable[TargetSettings]) -> None:
        self.service = service
        self.choice = NOTHING
        """The curve, or why there is none: as long as no load was seen for long enough."""
        self._lock = threading.Lock()
        self._fitted_at: float | None = None
        self._servers = {
            target.name: _Server(target.gap or GAP_INTERVALS * target.interval)
            for target in targets
        }

    def take(
        self,
        name: str,
        increments: Sequence[Increment],
        identity: Identity,
        reason: str | None,
        *,
        held: bool = False,
    ) -> None:
        """Takes in what a server did between two looks.

        ``reason`` says why it is not plain. ``held`` keeps a curve as it is, because an alert
        about the service is open; where there is none yet, one is begun all the same, or
        nothing could ever show that speculation pays and the alert is wrong.
        """
        if not increments:
            return
        with self._lock:
            held = held and self.choice.baseline is not None
            self._take(name, increments, identity, reason, held=held)
            end = increments[0].end
            # What a refused server showed must go at once.
            due = self._fitted_at is None if held else self._is_due(end)
            if self.choice.baseline is None or due:
                self._fit(end)

    def note_on(self, name: str) -> str | None:
        """Why a server is no baseline, if it is none."""
        server = self._servers.get(name)
        reason = server.reason if server is not None else None
        return None if reason is None else f"not used as a baseline: {reason}"

    def replay(self, name: str, history: Iterable[Increment], identity: Identity) -> None:
        """Takes in what the store has of a server, ascending in time."""
        with self._lock:
            known_until = None
            for end, group in groupby(history, key=lambda increment: increment.end):
                increments = tuple(group)
                drafted = any(increment.counts.drafts > 0.0 for increment in increments)
                self._take(name, increments, identity, "it speculated" if drafted else None)
                known_until = end
            if known_until is not None:
                self._fit(known_until)

    def remember(self) -> dict[str, Any]:
        """All that ``resume`` needs to go on as if there had been no interruption, for JSON."""
        curve = self.choice.baseline
        return {
            "fitted_at": self._fitted_at,
            "points": None if curve is None else [asdict(point) for point in curve.points],
            "identity": None if curve is None else curve.identity,
            "why_not": self.choice.why_not,
            "servers": {name: server.remember() for name, server in self._servers.items()},
        }

    def resume(self, memory: Mapping[str, Any]) -> None:
        """Goes on from what ``remember`` gave; a server that was not watched then begins anew."""
        with self._lock:
            for name, known in memory["servers"].items():
                if name in self._servers:
                    self._servers[name].resume(known)
            self._fitted_at = memory["fitted_at"]
            self.choice = Choice(None, memory["why_not"])
            if memory["points"] is not None:
                points = tuple(BaselinePoint(**point) for point in memory["points"])
                curve = _plain(f"control of {self.service}", _identity(memory["identity"]))
                self.choice = Choice(replace(curve, points=points, measured_at=self._fitted_at))

    def _is_due(self, now: float) -> bool:
        return self._fitted_at is None or abs(now - self._fitted_at) >= REFIT_SECONDS

    def _take(
        self,
        name: str,
        increments: Sequence[Increment],
        identity: Identity,
        reason: str | None,
        *,
        held: bool = False,
    ) -> None:
        server = self._servers.get(name)
        if server is None:
            return  # It was one until the configuration was loaded again.
        first = increments[0]
        counts = combine({increment.label: increment.counts for increment in increments})
        if counts.resets > 0.0:
            server.reason = None
        if reason is not None:
            self._refuse(name, server, reason)
        if server.reason is not None or held:
            return
        server.become(identity)
        if not first.warmup and first.end - first.start <= server.longest:
            server.take(first.end, counts)

    def _refuse(self, name: str, server: _Server, reason: str) -> None:
        if server.reason is None:
            _log.warning(
                "a baseline target is no baseline",
                target=name,
                service=self.service,
                reason=reason,
            )
            server.sums = CurveSums()
            self._fitted_at = None
        server.reason = reason

    def _fit(self, now: float) -> None:
        """Fits the curve to all servers that are of the same kind as the first of them."""
        self._fitted_at = now
        plain = [server for server in self._servers.values() if server.sums.bins]
        sums = CurveSums()
        for server in plain:
            if _plain("", plain[0].identity).matches(server.identity):
                sums.add(server.sums)
        points = sums.points()
        if points:
            curve = _plain(f"control of {self.service}", plain[0].identity)
            self.choice = Choice(replace(curve, points=points, measured_at=now))
        else:
            self.choice = Choice(None, self._why_not())

    def _why_not(self) -> str:
        reasons = [f"{name}: {s.reason}" for name, s in self._servers.items() if s.reason]
        if reasons:
            return f"no baseline from the plain servers: {'; '.join(reasons)}"
        return "no baseline yet: the plain servers did not decode for long enough at any load"


def _identity(parts: Sequence[Any]) -> Identity:
    engine, *rest = parts
    return Identity(Engine(engine) if engine else None, *rest)


def _plain(name: str, identity: Identity) -> Baseline:
    """A curve without points, bound to such a server."""
    return Baseline(name, (), identity._replace(method=None, draft_size=None))
