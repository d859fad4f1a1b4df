"""How many drafts are behind the rounded quotients that a log prints."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor

_HALF_LENGTH = 0.005
_HALF_RATE = 0.0005
"""Half of the last digit printed, of lengths and of rates."""
_CRUMB = 1e-9


def count_drafts(accepted: int, drafted: int, length: float, rates: Sequence[float]) -> int | None:
    """The number n of drafts that fits all that is printed; None where nothing does.

    Printed are accepted and draft tokens, the mean length 1 + accepted / n (0.8.5 left the 1
    out) to two digits, and for each position of a draft the share of the n in which it was
    accepted, to three. Drafts of full size come first: drafters that always propose k tokens
    make n = draft tokens / k, and only n-gram and suffix drafters propose fewer.
    """
    size = len(rates)
    fewest = ceil(drafted / size) if size else 1
    if not accepted and any(rates):
        return None
    if not accepted or not size:
        return _from_length(accepted, length, fewest)
    if abs(length - sum(rates)) < abs(length - 1.0 - sum(rates)):
        length += 1.0
    if fewest * size == drafted and _fits(fewest, accepted, length, rates):
        return fewest
    low = max(fewest, ceil(accepted / (length + _HALF_LENGTH - 1.0) - _CRUMB))
    beyond = length - _HALF_LENGTH - 1.0
    high = min(drafted, floor(accepted / beyond + _CRUMB)) if beyond > 0.0 else drafted
    middle = accepted / max(length - 1.0, _CRUMB)
    fitting = (n for n in range(low, high + 1) if _fits(n, accepted, length, rates))
    return min(fitting, key=lambda n: abs(n - middle), default=None)


def _from_length(accepted: int, length: float, fewest: int) -> int:
    """Without rates there is the length alone; without accepted tokens not even that."""
    return max(fewest, round(accepted / (length - 1.0))) if accepted and length > 1.0 else fewest


def _fits(n: int, accepted: int, length: float, rates: Sequence[float]) -> bool:
    """Whether whole numbers by position exist that give all the printed figures."""
    if not n or abs(1.0 + accepted / n - length) > _HALF_LENGTH + _CRUMB:
        return False
    low = high = 0
    for rate in rates:
        least = ceil((rate - _HALF_RATE) * n - _CRUMB)
        most = floor((rate + _HALF_RATE) * n + _CRUMB)
        if least > most:
            return False
        low, high = low + max(least, 0), high + most
    return low <= accepted <= high
