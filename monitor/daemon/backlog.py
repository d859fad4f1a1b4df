"""Rows that wait for the database, in the order in which they came and bounded in number."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from monitor.store.rows import RoundRow
from monitor.store.standing import NO_NEWS


class Backlog:
    """Keeps what must not be lost, and the newest of the rest. Not safe from several threads.

    When there are too many rows, the oldest give up their figures: a figure that is missing is
    a gap, and what is going on now matters more than what went on then. But news that is
    missing is told to nobody, ever, so rows with notifications or with orders that were carried
    out stay whole. Of where the alerts of a target stood only the last word is kept: an alert
    that fires has one with each look, and would fill the memory while the database is away.
    """

    def __init__(self, limit: int) -> None:
        self.dropped = 0
        """Rows whose figures were given up."""
        self._limit = limit
        self._spared: list[RoundRow] = []
        """What is left of the oldest rows."""
        self._place: dict[str, int] = {}
        """Where among them the last one of each target is."""
        self._rows: deque[RoundRow] = deque()

    def __len__(self) -> int:
        return len(self._spared) + len(self._rows)

    def put(self, row: RoundRow) -> None:
        """Takes one more row."""
        self._rows.append(row)
        self._trim()

    def take(self, count: int) -> list[RoundRow]:
        """Gives the oldest rows away, at most so many."""
        self._join()
        return [self._rows.popleft() for _ in range(min(count, len(self._rows)))]

    def put_back(self, rows: Sequence[RoundRow]) -> None:
        """Takes back what was taken last."""
        self._join()
        self._rows.extendleft(reversed(rows))
        self._trim()

    def _join(self) -> None:
        self._rows.extendleft(reversed(self._spared))
        self._spared, self._place = [], {}

    def _trim(self) -> None:
        while len(self) > self._limit and self._rows:
            self._spare(self._rows.popleft())

    def _spare(self, row: RoundRow) -> None:
        """Keeps of a row what must not be lost."""
        if row.alerts.told or row.obeyed:
            self._append(row)
            return
        # What was spared before is no row with figures any more.
        self.dropped += row.state is not None
        if row.alerts is NO_NEWS:
            return
        place = self._place.get(row.target)
        before = None if place is None else self._spared[place]
        if place is None or before is None or before.state is not None:
            self._append(RoundRow(row.target, row.now, (), None, alerts=row.alerts))
        else:
            alerts = before.alerts.then(row.alerts)
            self._spared[place] = RoundRow(row.target, row.now, (), None, alerts=alerts)

    def _append(self, row: RoundRow) -> None:
        self._place[row.target] = len(self._spared)
        self._spared.append(row)
