"""Turns stored series back into the pages they were scraped from.

All samples of one scrape carry one time, so that the lines of a page are found again by it.
The labels that Prometheus added to tell its targets apart are taken off; what is left is the
page as the server showed it, as far as it is needed, and it is read as any page is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from monitor.backfill.looks import Findings, Look
from monitor.engines.reader import DIALECTS
from monitor.health.window import GAP_INTERVALS
from monitor.pipeline import NoPage, Page
from monitor.settings import DEFAULT_INTERVAL

NAME = "__name__"
UP = "up"
PROCESS_START = "process_start_time_seconds"
BARE = frozenset({UP, PROCESS_START})
"""Series without labels of their own: what labels they have, Prometheus has added."""
ADDED = frozenset(
    {
        *("instance", "job", "cluster", "namespace", "pod", "container", "node", "endpoint"),
        *("service", "prometheus", "prometheus_replica", "replica", "__replica__", "monitor"),
        *("receive", "tenant_id", "env", "environment", "region", "zone"),
    }
)
"""Labels that are usually added, for data without any of those series."""


def wanted_names() -> str:
    """A regular expression for the names of all series that are read, as Prometheus takes it.

    Names that speak of speculation and are not known are wanted, too: they tell that names
    have changed.
    """
    parts = [UP, PROCESS_START]
    for dialect in DIALECTS.values():
        names = "|".join(sorted(set(dialect.names)))
        parts.append(f"{dialect.prefix.decode()}({names}|.*spec.*)")
    return "|".join(parts)


def load_names() -> str:
    """The same for the series that tell how many requests run, which each server shows."""
    parts = []
    for dialect in DIALECTS.values():
        names = "|".join(dialect.figures["running"].names)
        parts.append(f"{dialect.prefix.decode()}({names})")
    return "|".join(parts)


Pair = tuple[str, str]
Source = tuple[str | None, str | None]
"""Job and instance: what Prometheus calls one target."""


class Series(NamedTuple):
    """One line of the pages of one stream."""

    stream: int
    line: bytes
    """Name and labels, and the blank before the value."""
    is_up: bool


@dataclass(slots=True)
class Stream:
    """What one scraper saw of one target."""

    target: str
    key: tuple[Pair, ...]


class Catalogue:
    """Knows what series belong to, from their labels alone.

    Args:
        name_of: the name of a target from the labels that were added to its series; None for
            a target that is not asked for.
    """

    def __init__(self, name_of: Callable[[Mapping[str, str]], str | None]) -> None:
        self.streams: list[Stream] = []
        self._name_of = name_of
        self._added: dict[Source, set[Pair]] = {}
        self._by_labels: dict[tuple[Pair, ...], Series | None] = {}
        self._by_key: dict[tuple[Pair, ...], int | None] = {}

    @property
    def targets(self) -> list[str]:
        """The names of all targets, in the order in which they were found."""
        return list(dict.fromkeys(stream.target for stream in self.streams))

    def settle(self, all_labels: Iterable[Mapping[str, str]]) -> None:
        """Learns from the labels of all series there are what the targets are.

        Series without labels of their own tell which labels are added to those beside them;
        a target that shows nothing but such series is some other program.
        """
        found = [*all_labels]
        for labels in found:
            if labels.get(NAME) in BARE:
                pairs = ((label, text) for label, text in labels.items() if label != NAME)
                self._added.setdefault(_source(labels), set()).update(pairs)
        for labels in found:
            if labels.get(NAME) not in BARE:
                self._meet(self._added_to(labels))

    def _added_to(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Those that the page did not have.

        A label is one that was added only with the value that was: where a target is called
        ``engine="a"`` and its page says ``engine="0"``, the page may have been kept.
        """
        pairs = self._added.get(_source(labels))
        if pairs is not None:
            return {label: text for label, text in labels.items() if (label, text) in pairs}
        known = (
            ADDED if not self._added else {one for some in self._added.values() for one, _ in some}
        )
        return {label: labels[label] for label in known & labels.keys()}

    def find(self, labels: Mapping[str, str]) -> Series | None:
        """The series with these labels; None for one of a target that is not asked for."""
        key = tuple(sorted(labels.items()))
        if key not in self._by_labels:
            self._by_labels[key] = self._make(dict(key))
        return self._by_labels[key]

    def _make(self, labels: dict[str, str]) -> Series | None:
        name = labels.pop(NAME, "")
        added = self._added_to(labels)
        stream = self._by_key.get(tuple(sorted(added.items())))
        if stream is None:
            return None
        own = {_as_shown(label, added): labels[label] for label in labels.keys() - added.keys()}
        inner = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(own.items()))
        # Without labels a page shows no braces either.
        shown = f"{name}{{{inner}}} " if inner else f"{name} "
        return Series(stream, shown.encode("utf-8", "replace"), name == UP)

    def _meet(self, added: dict[str, str]) -> None:
        key = tuple(sorted(added.items()))
        if key in self._by_key:
            return
        target = self._name_of(added)
        self._by_key[key] = None if target is None else len(self.streams)
        if target is not None:
            self.streams.append(Stream(target, key))


class Point(NamedTuple):
    """One value of one series."""

    at: float
    series: Series
    value: bytes


@dataclass(slots=True)
class Assembler:
    """Makes looks of points, and one target of what several scrapers saw of it.

    Where two scrapers look at the same server, only one of them is followed, and the other
    one as soon as the first has had no page for too long: the counters are the server's own,
    whoever reads them.
    """

    catalogue: Catalogue
    findings: Findings
    intervals: Mapping[str, float]
    _followed: dict[str, tuple[int, float]] = field(default_factory=dict)
    """The scraper of each target, and when it last had a look, with a page or without."""
    _paged: dict[str, dict[int, float]] = field(default_factory=dict)
    """When each scraper of a target last had a page."""

    def looks(self, points: Iterable[Point]) -> Iterator[Look]:
        """The looks of points that ascend in time; those of one time are one page a stream."""
        at: float | None = None
        pages: dict[int, list[Point]] = {}
        for point in points:
            if point.at != at:
                if at is not None:
                    yield from self._emit(at, pages)
                at, pages = point.at, {}
            pages.setdefault(point.series.stream, []).append(point)
        if at is not None:
            yield from self._emit(at, pages)

    def _emit(self, at: float, pages: Mapping[int, list[Point]]) -> Iterator[Look]:
        for number in sorted(pages):
            target = self.catalogue.streams[number].target
            seen = _seen(pages[number])
            if seen is None:
                continue
            if self._follows(target, number, at, paged=isinstance(seen, Page)):
                yield Look(target, at, seen)
            else:
                self.findings.skipped["seen by another scraper of the same target"] += 1

    def _follows(self, target: str, stream: int, at: float, *, paged: bool) -> bool:
        followed, looked = self._followed.get(target, (stream, at))
        patience = GAP_INTERVALS * self.intervals.get(target, DEFAULT_INTERVAL)
        pages = self._paged.setdefault(target, {})
        if paged:
            pages[stream] = at
        last = pages.get(followed, -inf)
        if stream != followed:
            if at - (last if paged else looked) <= patience:
                return False
        elif (
            not paged
            and at - last > patience
            and at - max(pages.values(), default=-inf) <= patience
        ):
            # It is this scraper that cannot reach the server: another one can.
            return False
        self._followed[target] = stream, at
        return True


def _seen(points: Iterable[Point]) -> Page | NoPage | None:
    """What was seen at one time; None where series are only said to have ended."""
    # Lines in the same order on each page are read much faster.
    ordered = sorted(points, key=_line)
    if any(point.series.is_up and _is_zero(point.value) for point in ordered):
        # Beside it there may be marks that the series of the page before have ended.
        return NoPage("Prometheus could not scrape it: up was 0")
    shown = [point for point in ordered if not point.series.is_up]
    if shown and all(point.value == b"NaN" for point in shown):
        return None
    lines = [point.series.line + point.value for point in ordered]
    return Page(b"\n".join([*lines, b""]))


def _is_zero(value: bytes) -> bool:
    return value.strip(b"0.") == b""


def _source(labels: Mapping[str, str]) -> Source:
    return labels.get("job"), labels.get("instance")


def _as_shown(label: str, added: Mapping[str, str]) -> str:
    """The name on the page; Prometheus calls one ``exported_…`` whose name it has added."""
    own = label.removeprefix("exported_")
    return own if own in added else label


def _line(point: Point) -> bytes:
    return point.series.line


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
