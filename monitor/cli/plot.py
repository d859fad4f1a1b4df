"""Small plots for terminals, over a logarithmic axis or over time; ASCII where need be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from monitor.cli.output import is_plain_terminal

_WIDTH = 56
_HEIGHT = 10
_ROOM = 9
"""Columns in front of the plot, for the labels of its axis."""
_CLOCK_TICKS = 5
_MINUTES_SUFFICE = 600.0
"""Seconds from which on labels without seconds tell times apart."""


class _Signs(NamedTuple):
    """What a plot is drawn with."""

    dot: str
    line: str
    rule: str
    corner: str
    bar: str
    upright: str


_ASCII = _Signs("*", ".", "-", "+", "|", "!")
_DRAWN = _Signs("●", "·", "─", "└", "│", "┊")


def plot(
    points: Sequence[tuple[float, float]],
    *,
    unit: str,
    mark: float | None = None,
) -> str:
    """The points over log2 of their first figure, joined by a dotted line.

    Args:
        points: Ascending in the first figure, which is above 0.
        unit: What the second figure is in; stands above the axis.
        mark: A level to draw a line at.
    """
    if not points:
        return ""
    signs = _signs()
    rows = [[" "] * _WIDTH for _ in range(_HEIGHT)]
    top = max([mark or 0.0, *(y for _, y in points)]) or 1.0
    first, last = math.log2(points[0][0]), math.log2(points[-1][0])
    x_of = _Scale(first, last, 0, _WIDTH - 1, logarithmic=True)
    y_of = _Scale(0.0, top, _HEIGHT - 1, 0)
    if mark is not None:
        rows[y_of(mark)] = [signs.rule] * _WIDTH
    for one, other in pairwise(points):
        for column in range(x_of(one[0]), x_of(other[0]) + 1):
            rows[y_of(_between(one, other, column, x_of))][column] = signs.line
    for x, y in points:
        rows[y_of(y)][x_of(x)] = signs.dot
    labels = {0: top, _HEIGHT - 1: 0.0}
    if mark is not None:
        labels.setdefault(y_of(mark), mark)
    return _framed(rows, signs, labels, unit, _ticks([x for x, _ in points], x_of))


def plot_over_time(
    points: Sequence[tuple[float, float]],
    span: tuple[float, float],
    *,
    unit: str,
    marks: Sequence[float] = (),
    moment: float | None = None,
) -> str:
    """The points over a span of time, each a dot of its own: between looks nothing is known.

    Args:
        points: Times in seconds since the epoch with their figures; those outside are left out.
        span: Beginning and end of the axis.
        unit: What the figures are in; stands above the axis.
        marks: Levels to draw lines at.
        moment: A time to draw an upright line at.
    """
    points = [(at, value) for at, value in points if span[0] <= at <= span[1]]
    if not points:
        return ""
    signs = _signs()
    top = max(*(value for _, value in points), *marks, 1e-9)
    x_of, y_of = _Scale(*span, 0, _WIDTH - 1), _Scale(0.0, top, _HEIGHT - 1, 0)
    rows = [[" "] * _WIDTH for _ in range(_HEIGHT)]
    for mark in marks:
        rows[y_of(mark)] = [signs.rule] * _WIDTH
    if moment is not None and span[0] <= moment <= span[1]:
        for row in rows:
            row[x_of(moment)] = signs.upright
    for at, value in points:
        rows[y_of(value)][x_of(at)] = signs.dot
    labels = {0: top, _HEIGHT - 1: 0.0} | {y_of(mark): mark for mark in marks}
    return _framed(rows, signs, labels, unit, _clock_ticks(span, x_of))


def _signs() -> _Signs:
    return _ASCII if is_plain_terminal() else _DRAWN


def _framed(
    rows: Sequence[Sequence[str]],
    signs: _Signs,
    labels: Mapping[int, float],
    unit: str,
    ticks: str,
) -> str:
    """The rows of a plot between its two axes, some of them with their level before them."""
    body = [
        f"{_label(labels.get(number)):>{_ROOM - 2}} {signs.bar}{''.join(row).rstrip()}"
        for number, row in enumerate(rows)
    ]
    axis = f"{'':>{_ROOM - 1}}{signs.corner}{signs.rule * _WIDTH}"
    return "\n".join([f"{unit:>{_ROOM - 2}}", *body, axis, ticks])


def _clock_ticks(span: tuple[float, float], x_of: _Scale) -> str:
    """Times of day, UTC, below the axis."""
    cells = [" "] * (_WIDTH + 8)
    # A few minutes would have the same label all along.
    form = "%H:%M" if span[1] - span[0] >= _MINUTES_SUFFICE else "%H:%M:%S"
    for number in range(_CLOCK_TICKS):
        at = span[0] + (span[1] - span[0]) * number / (_CLOCK_TICKS - 1)
        label = datetime.fromtimestamp(at, UTC).strftime(form)
        column = min(x_of(at), _WIDTH + 2 - len(label))
        cells[column : column + len(label)] = label
    return " " * _ROOM + "".join(cells).rstrip()


class _Scale:
    """From figures to columns or rows."""

    def __init__(
        self, low: float, high: float, first: int, last: int, *, logarithmic: bool = False
    ) -> None:
        self._low, self._span = low, high - low
        self._first, self._cells = first, last - first
        self._logarithmic = logarithmic

    def __call__(self, value: float) -> int:
        place = math.log2(value) if self._logarithmic else value
        share = (place - self._low) / self._span if self._span > 0.0 else 0.5
        return self._first + round(self._cells * min(max(share, 0.0), 1.0))


def _between(
    one: tuple[float, float], other: tuple[float, float], column: int, x_of: _Scale
) -> float:
    """The height of the straight line between two points, in the plot's own columns."""
    left, right = x_of(one[0]), x_of(other[0])
    share = (column - left) / (right - left) if right > left else 0.0
    return one[1] + share * (other[1] - one[1])


def _label(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _ticks(loads: Sequence[float], x_of: _Scale) -> str:
    """Labels below the axis, as many as find room."""
    cells = [" "] * (_WIDTH + 8)
    free = 0
    for load in loads:
        text, column = f"{load:.3g}", x_of(load)
        if column >= free:
            cells[column : column + len(text)] = text
            free = column + len(text) + 1
    return " " * _ROOM + "".join(cells).rstrip()
