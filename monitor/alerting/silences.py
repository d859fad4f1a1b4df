"""Silences: who does not want to hear what, why, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monitor.alerting.routes import Matcher, matches_all
from monitor.weekly import Weekly


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
