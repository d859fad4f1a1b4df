"""How one engine names its series: a table entry for each engine, and no code path of its own.

A dialect maps the names on a page to neutral *figures* (``generation``, ``itl_sum`` …) and
says which labels tell engines apart and which only repeat the same figure. What a figure
means is put into a ``Reading`` by one ``compose`` function for a family of engines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from monitor.engines.exposition import Scan, parse_labels, pattern
from monitor.model import Engine, Reading

WORKER_LABELS = ("worker_addr", "worker_id", "worker", "pod", "replica")
"""Labels by which routers and Dynamo keep the pages of several servers apart."""


class Figure(NamedTuple):
    """Where a figure stands on the page."""

    names: tuple[str, ...]
    """Names without the prefix; of those present the first one is used (releases rename)."""
    where: tuple[str, str] | None = None
    """Only series with this label value count."""
    ratio: bool = False
    """True for gauges that are means or ratios: copies are averaged, never added."""
    per_position: str | None = None
    """Label that numbers draft positions, where the figure is one per position."""


@dataclass(slots=True)
class Figures:
    """The figures of one engine on one page."""

    values: dict[str, float] = field(default_factory=dict)
    positions: dict[str, dict[int, float]] = field(default_factory=dict)


Compose = Callable[[str, Figures, float | None], Reading]
"""Label, figures and the configured draft size in, reading out."""


@dataclass(frozen=True)
class Dialect:
    """One engine's names and label habits."""

    engine: Engine
    prefix: bytes
    """Regular expression of the prefix; it must begin with literal bytes."""
    marks: tuple[bytes, ...]
    """Any of these bytes on a page shows that it comes from this engine."""
    figures: Mapping[str, Figure]
    compose: Compose
    engine_label: str = "engine"
    rank_labels: tuple[str, ...] = ()
    """Labels whose values number copies of one figure; the lowest combination is used."""
    harmless: frozenset[str] = frozenset()
    """Names with ``spec`` in them that are known and carry nothing that is needed."""

    @cached_property
    def wanted(self) -> re.Pattern[bytes]:
        """The search for all names of this dialect."""
        return pattern(self.prefix, list(self._by_name))

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[str, int]]]:
        """For each name the figures it may serve and its place among their names."""
        table: dict[str, list[tuple[str, int]]] = {}
        for figure, source in self.figures.items():
            for place, name in enumerate(source.names):
                table.setdefault(name, []).append((figure, place))
        return table

    @cached_property
    def routes(self) -> dict[bytes, list[tuple[str, int, Figure]]]:
        """The same by bytes and with the figure itself, as the collecting loop needs it."""
        return {
            name.encode(): [(figure, place, self.figures[figure]) for figure, place in served]
            for name, served in self._by_name.items()
        }

    def unknown_names(self, page: bytes) -> list[str]:
        """Names of this engine that speak of speculation and are not in the table."""
        if b"spec" not in page:
            return []
        known = set(self._by_name) | self.harmless
        found = re.findall(rb"\n" + self.prefix + rb"([a-z_:]*spec[a-z_:]*)", page)
        names = {name.decode() for name in found}
        return sorted(
            name
            for name in names - known
            if not name.endswith(("_created", "_bucket", "_sum", "_count"))
        )


class Place(NamedTuple):
    """What the labels of a series say, as far as the collecting needs it."""

    engine: str
    rank: tuple[str, ...]
    model: str | None
    labels: dict[str, str]
    identity: frozenset[tuple[str, str]]


@lru_cache(maxsize=8192)
def _place(engine_label: str, rank_labels: tuple[str, ...], text: bytes) -> Place:
    labels = parse_labels(text)
    parts = [labels[name] for name in (*WORKER_LABELS, engine_label) if labels.get(name)]
    # The draft worker of a server exports the same names; the whole engine is "unified".
    kind = "1" if labels.get("engine_type") == "draft" else "0"
    rank = (kind, *(labels.get(name, "0").zfill(6) for name in rank_labels))
    return Place(
        "/".join(parts), rank, labels.get("model_name"), labels, frozenset(labels.items())
    )


@dataclass(slots=True)
class Collected:
    """Everything a page says, by engine."""

    engines: dict[str, Figures]
    models: list[str]
    notes: list[str]


def collect(dialect: Dialect, found: Scan) -> Collected:
    """Adds up the series of a page into figures by engine."""
    sums = _Sums(dialect)
    for name, label_text, value in found.series:
        if name not in found.damaged:
            sums.add(name, label_text, value)
    return sums.result(found)


class _Sums:
    """The collecting loop with what it must remember of the series before."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._engines: dict[str, Figures] = {}
        self._best: dict[tuple[str, str], tuple[int, tuple[str, ...]]] = {}
        self._parts: dict[tuple[str, str], int] = {}
        self._seen: set[tuple[bytes, frozenset[tuple[str, str]]]] = set()
        self._models: dict[str, None] = {}
        self._notes: list[str] = []

    def add(self, name: bytes, label_text: bytes, value: float) -> None:
        place = _place(self._dialect.engine_label, self._dialect.rank_labels, label_text)
        if (name, place.identity) in self._seen:
            self._notes.append(f"{name.decode()}: the same series stands twice on the page")
            return
        self._seen.add((name, place.identity))
        if place.model is not None:
            self._models[place.model] = None
        for figure, preference, source in self._dialect.routes[name]:
            if source.where is None or place.labels.get(source.where[0]) == source.where[1]:
                self._add_figure(figure, (preference, place.rank), source, place, value)

    def _add_figure(
        self,
        figure: str,
        order: tuple[int, tuple[str, ...]],
        source: Figure,
        place: Place,
        value: float,
    ) -> None:
        key = (place.engine, figure)
        best = self._best.get(key)
        if best is not None and order > best:
            return
        figures = self._engines.setdefault(place.engine, Figures())
        if best is None or order < best:
            # A better name or the lower rank: what was added so far were only copies.
            self._best[key] = order
            self._parts[key] = 0
            figures.values.pop(figure, None)
            figures.positions.pop(figure, None)
        self._parts[key] += 1
        if source.per_position is not None:
            position = place.labels.get(source.per_position, "")
            if position.isdecimal() and len(position) < 4:
                table = figures.positions.setdefault(figure, {})
                table[int(position)] = table.get(int(position), 0.0) + value
        elif source.ratio:
            parts = self._parts[key]
            mean = figures.values.get(figure, 0.0)
            figures.values[figure] = mean + (value - mean) / parts
        else:
            figures.values[figure] = figures.values.get(figure, 0.0) + value

    def result(self, found: Scan) -> Collected:
        return Collected(self._engines, list(self._models), [*found.notes, *self._notes])
