"""When a message that could not be delivered is tried again, and when it is given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from monitor.model import DeliveryError

FIRST_WAIT = 5.0
LONGEST_BACKOFF = 900.0
LONGEST_ASKED = 3600.0
"""The longest wait that a receiver may ask for."""
_MOST_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class Again:
    """Try again after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Never try again."""

    reason: str


def after_failure(
    error: DeliveryError,
    *,
    attempts: int,
    age: float,
    give_up_after: float,
    jitter: Callable[[], float],
) -> Again | GiveUp:
    """What follows from a failure.

    Args:
        error: why the attempt failed.
        attempts: how many there were.
        age: seconds since the message was written.
        give_up_after: seconds for which it is tried.
        jitter: a random number from 0 to 1.
    """
    if error.permanent:
        return GiveUp(str(error))
    wait = backoff(attempts, jitter)
    if error.retry_after is not None:
        wait = max(wait, min(error.retry_after, LONGEST_ASKED))
    if age + wait > give_up_after:
        return GiveUp(f"{error} (given up after {attempts} attempts)")
    return Again(wait)


def backoff(attempts: int, jitter: Callable[[], float]) -> float:
    """Seconds to wait: doubled each time up to a limit, and spread over the upper half.

    Receivers that come back would be overrun if all senders tried again at the same moment.
    """
    full = min(FIRST_WAIT * 2.0 ** min(max(attempts - 1, 0), _MOST_DOUBLINGS), LONGEST_BACKOFF)
    return full * (0.5 + 0.5 * jitter())
