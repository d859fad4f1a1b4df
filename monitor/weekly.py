"""Hours that come again each week: ``mon-fri 22:00-06:00 Europe/Berlin``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True)
class Weekly:
    """Hours that come again each week, on the clock of a place."""

    days: tuple[int, ...]
    """Days on which the hours begin; 0 is Monday."""
    start: time
    end: time
    """At or before ``start`` it means the next day."""
    zone: str

    def covers(self, now: float) -> bool:
        """Whether ``now`` lies in such hours."""
        zone = ZoneInfo(self.zone)
        today = datetime.fromtimestamp(now, zone).date()
        # Hours that began yesterday may last until today, and no longer.
        for day in (today - timedelta(days=1), today):
            if day.weekday() in self.days:
                start, end = self._span(day, zone)
                if start <= now < end:
                    return True
        return False

    def _span(self, day: date, zone: ZoneInfo) -> tuple[float, float]:
        last = day if self.end > self.start else day + timedelta(days=1)
        # When clocks are set back, an hour comes twice: the span begins with the first and ends
        # with the second. When they are set forward, an hour is left out, and what lies in it
        # is read on the clock as it was before.
        start = datetime.combine(day, self.start, zone).timestamp()
        ends = (datetime.combine(last, self.end.replace(fold=fold), zone) for fold in (0, 1))
        return start, max(end.timestamp() for end in ends)

    def __str__(self) -> str:
        days = ",".join(DAYS[day] for day in self.days)
        return f"{days} {self.start:%H:%M}-{self.end:%H:%M} {self.zone}"


def parse_weekly(text: str) -> Weekly:
    """Weekly hours from ``sat,sun 22:00-06:00 Europe/Berlin``; days may be ``mon-fri``."""
    parts = text.split()
    if len(parts) != 3:  # noqa: PLR2004 - days, hours, zone
        raise ValueError("is not a weekly window: write 'mon-fri 22:00-06:00 Europe/Berlin'")
    days, hours, zone = parts
    start, dash, end = hours.partition("-")
    try:
        first, last = time.fromisoformat(start), time.fromisoformat(end)
    except ValueError:
        dash = ""
    if not dash or first.tzinfo or last.tzinfo:
        raise ValueError("has no hours: write 'mon-fri 22:00-06:00 Europe/Berlin'")
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise ValueError("names an unknown time zone: write one such as Europe/Berlin") from None
    return Weekly(_parse_days(days), first, last, zone)


def _parse_days(text: str) -> tuple[int, ...]:
    days: set[int] = set()
    for part in text.lower().split(","):
        first, dash, last = part.partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            raise ValueError(f"has an unknown day: days are {', '.join(DAYS)}")
        start = DAYS.index(first)
        length = (DAYS.index(last) - start) % len(DAYS) if dash else 0
        days |= {(start + step) % len(DAYS) for step in range(length + 1)}
    return tuple(sorted(days))
