"""Tells which increments are known already although their samples were dropped.

A sample that is stored twice is stored once, because it has a key. When it has been dropped,
only its sums are left; without a look at them it would be taken for a new one, and counted
again. That happens to a past that is read in once more, never to what is scraped now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, select

from monitor.model import Increment
from monitor.store.rollup import RAW, STEPS, bucket_end
from monitor.store.tables import levels, rollups

Keyed = tuple[int, Increment]
"""An increment with the key of its series."""


def without_covered(connection: Connection, keyed: Sequence[Keyed]) -> Sequence[Keyed]:
    """Leaves out the increments that overlap with what is summed already."""
    if not keyed:
        return keyed
    dropped = dict(connection.execute(select(levels.c.step, levels.c.dropped_until)).all())
    old = [entry for entry in keyed if entry[1].end <= dropped[RAW]]
    if not old:
        return keyed
    known = _Known(connection, dropped, old)
    return [entry for entry in keyed if entry[1].end > dropped[RAW] or not known.covers(*entry)]


class _Known:
    """The spans of time of the roll-ups that some increments belong to."""

    def __init__(
        self, connection: Connection, dropped: Mapping[int, float], old: Iterable[Keyed]
    ) -> None:
        self._dropped = dropped
        buckets: dict[tuple[int, int], list[float]] = defaultdict(list)
        for series, increment in old:
            step, at = self._bucket(increment)
            buckets[series, step].append(at)
        self._spans = {
            (*key, at): spans
            for key, times in buckets.items()
            for at, spans in _read(connection, *key, min(times), max(times)).items()
        }

    def covers(self, series: int, increment: Increment) -> bool:
        """Whether any of it is summed already."""
        spans = self._spans.get((series, *self._bucket(increment)), ())
        return any(start < increment.end and end > increment.start for start, end in spans)

    def _bucket(self, increment: Increment) -> tuple[int, float]:
        """Where the sum is that tells most exactly."""
        step = next((s for s in STEPS if increment.end > self._dropped[s]), STEPS[-1])
        return step, bucket_end(increment.end, step)


def _read(
    connection: Connection, series: int, step: int, first: float, last: float
) -> dict[float, list[tuple[float, float]]]:
    column = rollups.c
    query = select(column.at, column.start, column.end).where(
        column.series_id == series, column.step == step, column.at.between(first, last)
    )
    spans: dict[float, list[tuple[float, float]]] = defaultdict(list)
    for at, start, end in connection.execute(query):
        spans[at].append((start, end))
    return spans
