"""How one engine names its series: a table entry for each engine, and no code path of its own.

A dialect maps the names on a page to neutral *figures* (``generation``, ``itl_sum`` …) and
says which labels tell engines apart and which only repeat the same figure. What a figure
means is put into a ``Reading`` by one ``compose`` function for a family of engines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from monitor.engines.exposition import beginnings, pattern
from monitor.model import Engine, Reading

WORKER_LABELS = ("worker_addr", "worker_id", "worker", "pod", "replica")
"""Labels by which routers and Dynamo keep the pages of several servers apart."""


class Fold(StrEnum):
    """What several lines of one figure make together."""

    SUM = "sum"
    MEAN = "mean"
    """For gauges that are means or ratios: copies are averaged, never added."""
    FIRST = "first"
    """For times of creation: the smallest one stays when label sets are added later."""


class Figure(NamedTuple):
    """Where a figure stands on the page."""

    names: tuple[str, ...]
    """Names without the prefix; of those present the first one is used (releases rename)."""
    where: tuple[str, str] | None = None
    """Only series with this label value count."""
    fold: Fold = Fold.SUM
    per_position: str | None = None
    """Label that numbers draft positions, where the figure is one per position."""


@dataclass(slots=True)
class Figures:
    """The figures of one engine on one page."""

    values: dict[str, float] = field(default_factory=dict)
    positions: dict[str, dict[int, float]] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    """Figures of which a line that was there before is missing or damaged on this page.

    They are in neither table, and nothing else may take their place: a stand-in for one page
    would be subtracted from the figure itself.
    """

    def shows(self, figure: str) -> bool:
        """Whether the page has this figure, though perhaps not wholly."""
        return figure in self.values or figure in self.positions or figure in self.lost


Compose = Callable[[str, Figures, float | None], Reading]
"""Label, figures and the configured draft size in, reading out."""


@dataclass(frozen=True)
class Dialect:
    """One engine's names and label habits."""

    engine: Engine
    prefix: bytes
    """Regular expression of the prefix; it must begin with literal bytes."""
    figures: Mapping[str, Figure]
    compose: Compose
    vital: frozenset[str] = frozenset({"drafts", "draft_tokens", "accepted", "emitted"})
    """Figures without which speculation cannot be judged."""
    engine_label: str = "engine"
    rank_labels: tuple[str, ...] = ()
    """Labels whose values number copies of one figure; the lowest combination is used."""
    part_label: str | None = None
    """Label of the parts that a figure may be shown in beside, or instead of, the whole."""
    harmless: frozenset[str] = frozenset()
    """Names with ``spec`` in them that are known and carry nothing that is needed."""

    @cached_property
    def names(self) -> list[str]:
        """All names that are read, without the prefix."""
        return [name for source in self.figures.values() for name in source.names]

    @cached_property
    def wanted(self) -> re.Pattern[bytes]:
        """The search for all lines of this dialect."""
        return pattern(self.prefix, self.names)

    @cached_property
    def begun(self) -> re.Pattern[bytes]:
        """The search for the beginnings of all lines of this dialect."""
        return beginnings(self.prefix, self.names)

    @cached_property
    def mark(self) -> re.Pattern[bytes]:
        """The search for a sign that a page comes from this engine."""
        return re.compile(rb"\n(?:# (?:HELP|TYPE) )?+" + self.prefix)

    @cached_property
    def routes(self) -> dict[bytes, list[tuple[str, int, Figure]]]:
        """For each name the figures it may serve and its place among their names."""
        table: dict[bytes, list[tuple[str, int, Figure]]] = {}
        for figure, source in self.figures.items():
            for place, name in enumerate(source.names):
                table.setdefault(name.encode(), []).append((figure, place, source))
        return table

    @cached_property
    def _speculative_names(self) -> re.Pattern[bytes]:
        return re.compile(rb"\n" + self.prefix + rb"([a-zA-Z0-9_:]*spec[a-zA-Z0-9_:]*+)")

    def unknown_names(self, page: bytes) -> list[str]:
        """Names of this engine that speak of speculation and are not in the table."""
        if b"spec" not in page:
            return []
        known = {*self.names, *self.harmless}
        return sorted(
            name
            for name in {name.decode() for name in self._speculative_names.findall(page)} - known
            if not name.endswith(("_created", "_bucket", "_sum", "_count"))
        )

    @cached_property
    def _any_name(self) -> re.Pattern[bytes]:
        return re.compile(self.prefix + rb"([a-zA-Z0-9_:]*+)")

    def named_by(self, line: bytes) -> frozenset[bytes]:
        """The names that a malformed line may have been meant for, wherever they stand in it."""
        meant: set[bytes] = set()
        for match in self._any_name.finditer(line):
            if match[1] in self.routes:
                meant.add(match[1])
            elif match.end() == len(line):
                meant.update(name for name in self.routes if name.startswith(match[1]))
        return frozenset(meant)
