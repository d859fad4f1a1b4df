"""The draft size behind the rounded acceptance length and rate of SGLang's log."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor

_HALF = 0.005
"""Half of the last digit printed."""
_LEAD = 3
"""Lines by which one meaning of the rate must fit better before it is believed."""
_MOST = 512


@dataclass(slots=True)
class DraftSize:
    """Finds out what ``accept rate`` means, from many lines, and the draft size of each.

    The rate was ``length / n`` (0.5.4–0.5.10) and is ``(length − 1) / (n − 1)`` (0.5.11 and
    later) with a whole number n; n may change while the server runs. The wrong meaning fits a
    line now and then by chance, the right one fits each.
    """

    _fits: list[int] = field(default_factory=lambda: [0, 0])
    _last: float | None = None

    @property
    def known(self) -> bool:
        """Whether it is clear what the rate means."""
        old, new = self._fits
        return abs(old - new) >= _LEAD

    def vote(self, length: float, rate: float) -> None:
        """Weighs one line for and against each meaning."""
        for meaning, size in enumerate(_sizes(length, rate)):
            self._fits[meaning] += size is not None

    def of(self, length: float, rate: float | None) -> float | None:
        """Draft tokens per draft (n − 1); None while that cannot be told."""
        if rate is not None and self.known:
            old, new = self._fits
            size = _sizes(length, rate)[old < new]
            self._last = self._last if size is None else float(size)
        return self._last


def _sizes(length: float, rate: float) -> tuple[int | None, int | None]:
    """The draft size by each meaning of the rate, where it comes out whole."""
    if rate <= _HALF or length <= 1.0:
        return None, None
    whole = _whole(length, rate)
    return (whole - 1 if whole and whole > 1 else None), _whole(length - 1.0, rate)


def _whole(above: float, rate: float) -> int | None:
    """The only whole number that a quotient of two rounded figures can be, if there is one."""
    low = (above - _HALF) / (rate + _HALF)
    high = (above + _HALF) / (rate - _HALF)
    least, most = ceil(low), floor(high)
    return least if least == most and 1 <= least <= _MOST else None
