"""Clocks: the real one, and one that tests move by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where the edges of the program get the time from; the core is given ``now``."""

    def utc(self) -> float:
        """Seconds since the Unix epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that nobody sets; for durations only."""
        ...

    def sleep(self, seconds: float) -> None:
        """Waits."""
        ...


class SystemClock:
    """The clock of the machine."""

    def utc(self) -> float:
        """Seconds since the Unix epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds on the machine's steady clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Waits for real."""
        time.sleep(seconds)


class FakeClock:
    """A clock for stories in tests: it stands still until it is moved."""

    def __init__(self, utc: float = 0.0) -> None:
        self._utc = utc
        self._monotonic = 0.0

    def utc(self) -> float:
        """The time the clock was set or moved to."""
        return self._utc

    def monotonic(self) -> float:
        """The time moved so far."""
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        """Moves the clock instead of waiting."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Lets time pass on both scales."""
        self._utc += seconds
        self._monotonic += seconds

    def set_utc(self, utc: float) -> None:
        """Steps the wall clock, as an operator or NTP would; durations do not notice."""
        self._utc = utc
