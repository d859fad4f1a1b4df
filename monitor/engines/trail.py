"""Finds the wanted lines of a page where they stood on the page before.

From page to page only numbers change, and few of them by a digit. So each wanted line begins
within a few bytes of where it is expected after the wanted line before it. To look there costs
a fifth of searching the whole page.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SLACK = 16
"""Bytes by which a line may have moved against the one before it: fewer than a line has, so
that a line that came or went between them shows."""


class Trail(NamedTuple):
    """Where the wanted lines of a page stand."""

    heads: tuple[bytes, ...]
    """Each line from the line end before it to its value."""
    gaps: tuple[int, ...]
    """Bytes from the end of a value to the next head, or to the end of the page."""


def blaze(page: bytes, wanted: re.Pattern[bytes]) -> Trail:
    """The trail of a page on which nothing but a value follows each name and its labels."""
    heads: list[bytes] = []
    gaps: list[int] = []
    last = 0
    for match in wanted.finditer(page):
        heads.append(page[match.start() : match.start(3)])
        gaps.append(match.start() - last)
        last = match.end()
    return Trail(tuple(heads), (*gaps, len(page) - last))


def follow(page: bytes, trail: Trail) -> tuple[list[bytes], Trail] | None:
    """The values of the same lines on the next page and their trail there.

    None where a line is not where it should be, or more or less of the page lies between two
    of them than a few digits. Lines of equal length that came and went between the same two
    wanted ones go unseen; now and then a page has to be searched for that.
    """
    values: list[bytes] = []
    gaps: list[int] = []
    find = page.find
    at = 0
    for head, gap in zip(trail.heads, trail.gaps, strict=False):
        start = at + gap
        begin = start + len(head)
        # Most lines stand where they are expected, and to see that costs less than to search.
        if page[start:begin] != head:
            start = find(head, max(start - _SLACK, at), begin + _SLACK)
            if start < 0:
                return None
            begin = start + len(head)
        gaps.append(start - at)
        at = find(b"\n", begin)
        values.append(page[begin:at])
    rest = len(page) - at
    if abs(rest - trail.gaps[-1]) > _SLACK:
        return None
    return values, Trail(trail.heads, (*gaps, rest))
