"""Which rows to read for a span of time, so that each sample counts once, pruned or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import floor
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Integer, Label, Table, and_, cast, func, true

from monitor.store.rollup import RAW, STEPS
from monitor.store.tables import rollups, samples

STEP_NUMBER = "step_number"
"""What the column is called that ``step_number`` makes."""


class Piece(NamedTuple):
    """The rows of one level that end after ``start`` and up to ``end``."""

    step: int
    start: float
    end: float
    fresh: bool = False
    """Of samples: only those that are in no roll-up yet."""

    @property
    def table(self) -> Table:
        """Where the rows are."""
        return samples if self.step == RAW else rollups

    @property
    def time(self) -> ColumnElement[float]:
        """What decides about them: a roll-up belongs to the end of its bucket."""
        return samples.c.end if self.step == RAW else rollups.c.at

    @property
    def condition(self) -> ColumnElement[bool]:
        """Which rows they are, of all series."""
        within = and_(self.time > self.start, self.time <= self.end)
        if self.step != RAW:
            return and_(rollups.c.step == self.step, within)
        return and_(within, ~samples.c.rolled if self.fresh else true())


def pieces(
    dropped: Mapping[int, float], start: float, end: float, step: float | None = None
) -> list[Piece]:
    """The pieces of a span, in no order, none of them empty.

    Args:
        dropped: Until when each level was dropped, by its step.
        start, end: The span.
        step: Seconds between moments that no sum may span, counted from ``start``; where it and
            ``start`` allow it, sums are read although the samples are still there. None: the
            finest there is.
    """
    coarse = _coarsest(start, step)
    last = start if coarse == RAW else max(floor(end / coarse) * float(coarse), start)
    found = [*_sums(dropped, start, last, coarse), *_finest(dropped, last, end)]
    return [piece for piece in found if piece.start < piece.end]


def _coarsest(start: float, step: float | None) -> int:
    """The longest sum that lies within the steps; 0 where none does."""
    if step is None:
        return RAW
    fitting = (size for size in STEPS if start % size == 0 and step % size == 0)
    return max(fitting, default=RAW)


def _sums(dropped: Mapping[int, float], start: float, end: float, size: int) -> Iterator[Piece]:
    """Sums of one size, longer ones where those were dropped, and what is in none yet."""
    minute, longest = STEPS
    if size == minute:
        yield Piece(longest, start, min(end, dropped[minute]))
        start_of_minutes = max(start, dropped[minute])
        yield Piece(minute, start_of_minutes, end)
    else:
        yield Piece(longest, start, end)
    yield Piece(RAW, start, end, fresh=True)


def _finest(dropped: Mapping[int, float], start: float, end: float) -> Iterator[Piece]:
    """Samples, and sums of a minute or of ten where those were dropped."""
    yield from _sums(dropped, start, min(end, dropped[RAW]), STEPS[0])
    yield Piece(RAW, max(start, dropped[RAW]), end)


def seconds_kept(dropped: Mapping[int, float], at: float) -> int:
    """What is kept of a time: sums of so many seconds; 0 where the samples are there."""
    return next((step for step in (RAW, *STEPS) if at > dropped[step]), STEPS[-1])


def step_number(
    connection: Connection, time: ColumnElement[float], end: float, step: float
) -> Label[int]:
    """The number of the step a row ends in, counted backwards from the one ending at ``end``.

    Backwards, because a row that ends on the border of two steps belongs to the earlier
    one. SQLite's cast cuts the fraction off but PostgreSQL's rounds; SQLite may lack floor.
    """
    position = (end - time) / step
    whole = func.floor(position) if connection.dialect.name == "postgresql" else position
    return cast(whole, Integer).label(STEP_NUMBER)
