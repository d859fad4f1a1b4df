"""Looks at all servers of a service at once, each within the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import TypeVar

from monitor.clock import Clock, SystemClock
from monitor.rollback.evidence import Completion, Progress, Pulse
from monitor.rollback.server_probe import ServerProbe
from monitor.settings import TargetSettings

T = TypeVar("T")
_GRACE = 0.5
"""Seconds after which a server that should have been given up is not waited for any more."""


class ServiceProbe:
    """The servers of both sides; a ``rollback.ports.Probe``.

    ``model`` is what the baseline side is asked for; None: the first that each server lists.
    """

    def __init__(
        self,
        baseline: Sequence[TargetSettings],
        speculative: Sequence[TargetSettings],
        *,
        model: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._baseline, self._speculative = (
            [_Watched(ServerProbe(settings, asked, self._clock)) for settings in side]
            # The two sides may serve the model under different names.
            for side, asked in ((baseline, model), (speculative, None))
        )

    def complete_baseline(self, timeout: float) -> tuple[Completion, ...]:
        """Asks each baseline server for a few tokens."""
        return self._complete(self._baseline, timeout)

    def complete_speculative(self, timeout: float) -> tuple[Completion, ...]:
        """Asks each server of the speculative side for a few tokens."""
        return self._complete(self._speculative, timeout)

    def pulse_baseline(self, timeout: float) -> tuple[Pulse, ...]:
        """Reads the metrics page of each baseline server."""
        return self._pulse(self._baseline, timeout)

    def pulse_speculative(self, timeout: float) -> tuple[Pulse, ...]:
        """Reads the metrics page of each server of the speculative side."""
        return self._pulse(self._speculative, timeout)

    def progress_baseline(self, timeout: float) -> Progress:
        """Whatever changes while the baseline side loads."""
        return self._progress(self._baseline, timeout)

    def progress_speculative(self, timeout: float) -> Progress:
        """Whatever changes while the speculative side loads."""
        return self._progress(self._speculative, timeout)

    def _complete(self, side: list[_Watched], timeout: float) -> tuple[Completion, ...]:
        at = self._clock.utc()
        return _look(
            side,
            timeout,
            lambda probe: probe.complete(timeout),
            lambda name, error: Completion(name, at, timeout, error=error),
        )

    def _pulse(self, side: list[_Watched], timeout: float) -> tuple[Pulse, ...]:
        at = self._clock.utc()
        return _look(
            side,
            timeout,
            lambda probe: probe.pulse(timeout),
            lambda name, error: Pulse(name, at, error=error),
        )

    def _progress(self, side: list[_Watched], timeout: float) -> Progress:
        marks = _look(
            side,
            timeout,
            lambda probe: probe.mark(timeout),
            lambda name, error: f"{name}: {error}",
        )
        return Progress(self._clock.utc(), "; ".join(marks))


class _Watched:
    """A server, and whether somebody still looks at it."""

    def __init__(self, probe: ServerProbe) -> None:
        self.probe = probe
        self.busy = threading.Lock()


def _look(
    side: list[_Watched],
    timeout: float,
    look: Callable[[ServerProbe], T],
    failed: Callable[[str, str], T],
) -> tuple[T, ...]:
    """One value for each server, in time, whatever they do.

    All that a server can do ends at the deadline by itself. Only the look-up of its name cannot
    be given one; such a thread is left behind, and its server is not looked at until it ends.
    """
    begun = [_begin(watched, look) for watched in side]
    wait_for([future for future in begun if future is not None], timeout + _GRACE)
    found = []
    for watched, future in zip(side, begun, strict=True):
        if future is None:
            found.append(failed(watched.probe.name, "the look before this one has not ended"))
        elif not future.done():
            found.append(failed(watched.probe.name, f"no answer within {timeout:g} s"))
        else:
            found.append(future.result())
    return tuple(found)


def _begin(watched: _Watched, look: Callable[[ServerProbe], T]) -> Future[T] | None:
    if not watched.busy.acquire(blocking=False):
        return None
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(look(watched.probe))
        except BaseException as error:
            future.set_exception(error)
        finally:
            watched.busy.release()

    # No thread of a pool: those are waited for when the process ends.
    threading.Thread(target=run, name=f"probe {watched.probe.name}", daemon=True).start()
    return future
