"""How what goes wrong between us and a peer becomes an ``ActuatorError``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from monitor.alerting.wording import plain
from monitor.child import ChildError
from monitor.clock import Clock
from monitor.logs import REDACTOR
from monitor.model import ActuatorError, MonitorError
from monitor.sources.errors import FetchError

_SHOWN = 300
_PAUSE = 0.1


class PeerError(MonitorError):
    """What moves traffic refused, or does not do what it says."""

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting
        """Whether another try would end in the same way."""


class Deadline:
    """The time until which something must be done."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._end = clock.monotonic() + seconds

    @property
    def end(self) -> float:
        """The deadline on the steady clock."""
        return self._end

    def left(self) -> float:
        """The seconds left; raises ``PeerError`` when there are none."""
        left = self._end - self._clock.monotonic()
        if left <= 0:
            raise PeerError(f"it was not done within {self._seconds:g} s")
        return left

    def until(self, missing: Callable[[], str | None]) -> None:
        """Looks again and again until nothing is missing; raises what is, at the deadline."""
        text = missing()
        while text is not None:
            if self._end - self._clock.monotonic() <= _PAUSE:
                raise PeerError(f"{text} within {self._seconds:g} s")
            self._clock.sleep(_PAUSE)
            try:
                text = missing()
            except (ChildError, FetchError, PeerError):
                if self._clock.monotonic() < self._end:
                    raise
                # The look that the deadline cut off tells less than the one before it.
                raise PeerError(f"{text} within {self._seconds:g} s") from None


@contextmanager
def failing(stage: str, peer: str) -> Iterator[None]:
    """Failures inside of the block are told as those of ``peer`` in this act."""
    try:
        yield
    except FetchError as error:
        message, safe = str(error), error.retryable
    except PeerError as error:
        message, safe = str(error), not error.lasting
    except ChildError as error:
        message, safe = str(error), True
    else:
        return
    text = plain(REDACTOR.text(f"{peer}: {message}"), _SHOWN)
    raise ActuatorError(text, stage=stage, safe_to_retry=safe)
