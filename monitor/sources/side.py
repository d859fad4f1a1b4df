"""Pages beside the metrics: not every server has them, and a scrape never fails for them."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from monitor.sources.answer import Answer

SIDE_SECONDS = 2.0
"""What a side page may take of a scrape's time."""
ABSENT_SECONDS = 3600.0
BROKEN_SECONDS = 60.0
ABSENT = frozenset({400, 401, 403, 404, 405, 501})
"""Answers of a server that has no such page, or not for us."""


@dataclass(slots=True)
class SidePage:
    """One such page, and until when it is not asked for."""

    request: bytes
    max_bytes: int
    broken_seconds: float = BROKEN_SECONDS
    """How long it is left alone after a failure that need not last."""
    not_before: float = float("-inf")
    absent: bool = False
    """Whether the server said last that it has no such page."""

    def failed(self, now: float) -> None:
        """Notes that there was no answer."""
        self.not_before = now + self.broken_seconds

    def body_of(self, answer: Answer, now: float) -> bytes | None:
        """The page, or None where the server said that there is none."""
        if answer.status == HTTPStatus.OK:
            return answer.body
        self.absent = answer.status in ABSENT
        self.not_before = now + (ABSENT_SECONDS if self.absent else self.broken_seconds)
        return None
