"""Silences: who does not want to hear what, why, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from monitor.alerting.routes import Matcher, matches_all

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


@dataclass(frozen=True, slots=True)
class Silence:
    """Notifications that meet all conditions are not sent while it is in force."""

    id: int
    matchers: tuple[Matcher, ...]
    who: str
    why: str
    created_at: float
    starts_at: float
    ends_at: float
    weekly: Weekly | None = None
    """In force only in these hours of its time."""
    holds_rollback: bool = False
    """Whether no traffic may be moved either."""
    expired_at: float | None = None
    """When somebody ended it before its time."""

    def is_active(self, now: float) -> bool:
        """Whether it is in force."""
        if self.expired_at is not None or not self.starts_at <= now < self.ends_at:
            return False
        return self.weekly is None or self.weekly.covers(now)

    def covers(self, labels: Mapping[str, str], now: float) -> bool:
        """Whether it keeps a notification with these labels back."""
        return self.is_active(now) and matches_all(self.matchers, labels)

    def state(self, now: float) -> str:
        """``active``, ``waiting`` or ``expired``."""
        if self.is_active(now):
            return "active"
        return "expired" if self.expired_at is not None or now >= self.ends_at else "waiting"


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
