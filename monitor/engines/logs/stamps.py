"""Turns the stamps that servers print into times: they lack the zone, and some the year.

vLLM prints ``11-29 12:48:31``, SGLang ``2026-11-29 12:48:31``. Nothing is guessed: a stamp
without a year needs one, and a date that cannot be right stops the reading.
"""

from __future__ import annotations

import re
from datetime import datetime, tzinfo

from monitor.model import ConfigError

_STAMP = re.compile(
    r"(?:\[|\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) )"
    r"(?:(?P<year>\d{4})-)?(?P<month>\d\d)-(?P<day>\d\d)[ T]"
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,6}))?"
)
_DAY = 86_400.0
_STEP_BACK = 120.0
"""Seconds by which lines of several processes may come out of order; more is another hour."""


class Stamps:
    """Reads the stamps of one log, in the order of its lines.

    Args:
        zone: of the machine that wrote the log.
        year: of the first line, where stamps have none.
        now: no line can be from later than a day after this.
    """

    def __init__(self, zone: tzinfo, year: int | None, now: float) -> None:
        self._zone = zone
        self._year = year
        self._latest_possible = now + _DAY
        self._last: float | None = None

    def read(self, text: str) -> float | None:
        """Seconds since the epoch; None where the line has no stamp, or none that exists.

        Raises ``ConfigError`` where the year is needed and not known, and where the date lies
        in the future.
        """
        match = _STAMP.search(text)
        if match is None:
            return None
        at = self._time(match)
        if at is None:
            return None
        return self.check(at, match[0])

    def check(self, at: float, shown: str) -> float:
        """The same time, unless it cannot be right, and what follows is read after it."""
        if at > self._latest_possible:
            raise ConfigError(
                f"the log says {shown.strip('[ ')!r}, which lies in the future:"
                " check --year and --tz"
            )
        self._last = at if self._last is None else max(at, self._last)
        return at

    def _time(self, match: re.Match[str]) -> float | None:
        years = [int(match["year"])] if match["year"] else self._years(match[0])
        times = [at for year in years if (at := self._utc(year, match)) is not None]
        if self._last is None or not times:
            return times[0] if times else None
        last = self._last
        return min(times, key=lambda at: abs(at - last))

    def _years(self, shown: str) -> list[int]:
        """The years that a stamp without one may mean; near New Year that is not the first's."""
        if self._year is None:
            raise ConfigError(
                f"the log says {shown.strip('[ ')!r}, without a year: give that of its first"
                " line with --year"
            )
        if self._last is None:
            return [self._year]
        year = datetime.fromtimestamp(self._last, self._zone).year
        return [year, year + 1, year - 1]

    def _utc(self, year: int, stamp: re.Match[str]) -> float | None:
        """The time of a local stamp; None where no clock of this zone ever showed it."""
        try:
            local = datetime(
                year,
                int(stamp["month"]),
                int(stamp["day"]),
                int(stamp["hour"]),
                int(stamp["minute"]),
                int(stamp["second"]),
                int((stamp["fraction"] or "").ljust(6, "0")),
                self._zone,
            )
        except ValueError:
            return None
        first, second_pass = local.timestamp(), local.replace(fold=1).timestamp()
        if datetime.fromtimestamp(first, self._zone).replace(fold=0) != local:
            return None
        # Where clocks are set back an hour comes twice; the second time follows the first.
        if second_pass != first and self._last is not None and first < self._last - _STEP_BACK:
            return second_pass
        return first
