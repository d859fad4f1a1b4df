"""Points in time on the command line."""

from __future__ import annotations

import re
from datetime import datetime

from monitor.config.values import parse_duration

_EPOCH = re.compile(r"\d{1,11}(?:\.\d+)?", re.ASCII)
_RELATIVE = re.compile(r"-(\S+)")


def parse_time(text: str, *, also: str = "") -> float:
    """Seconds since the epoch from ISO 8601 with a zone, or from epoch seconds.

    ``also`` is what else the caller understands, for the message of a ``ValueError``.
    """
    if _EPOCH.fullmatch(text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"is not a time: write 2026-11-29T14:00:00Z{also} or seconds since the epoch"
        ) from None
    if moment.tzinfo is None:
        raise ValueError("has no time zone: add Z for UTC or +01:00")
    return moment.timestamp()


def parse_point(text: str, now: float) -> float:
    """The same, and ``now`` or ``-2h`` for a time before ``now``."""
    if text == "now":
        return now
    relative = _RELATIVE.fullmatch(text)
    if relative:
        return now - parse_duration(relative[1])
    return parse_time(text, also=", now, -2h")
