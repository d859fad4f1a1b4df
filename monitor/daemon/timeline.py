"""The time that pages are stamped with: UTC that never goes back."""

from __future__ import annotations

import threading

from monitor.clock import Clock

SLOWEST = 0.95
"""How fast time passes, at least, while the wall clock is behind."""
FARTHEST = 86_400.0
"""How far ahead of the wall clock is still waited for, in seconds."""


class Timeline:
    """Follows the wall clock forward, and never follows it back.

    What a server did between two pages is a difference of times; if the wall clock is set
    back an hour between them, that difference must not be negative, nor may the hour that is
    stored already be stored again. So time goes on at ``SLOWEST`` of its speed until the wall
    clock has caught up. A step forward is followed at once: it is what a machine sees that
    was suspended, and then the time did pass.

    Only a lead of more than a day, which no honest correction leaves behind, is dropped. That
    begins a new ``era``, in which nothing that was remembered of the old one holds.
    """

    def __init__(self, clock: Clock, *, not_before: float = 0.0) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._monotonic = clock.monotonic()
        self._last = max(clock.utc(), not_before)
        self.era = 0

    def now(self) -> float:
        """Seconds since the Unix epoch; never less than what was returned before in this era."""
        with self._lock:
            wall, monotonic = self._clock.utc(), self._clock.monotonic()
            slowest = self._last + SLOWEST * (monotonic - self._monotonic)
            if slowest - wall > FARTHEST:
                self.era += 1
                slowest = wall
            self._last = max(wall, slowest)
            self._monotonic = monotonic
            return self._last

    def lead(self) -> float:
        """By how many seconds this time is ahead of the wall clock."""
        return max(0.0, self.now() - self._clock.utc())
