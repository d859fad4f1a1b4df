"""Where on a page each figure stands: worked out once, used for every page of the same lines.

Which lines a server shows hardly changes from page to page; only the values do. A layout keeps
the plan of one page: which line goes into which figure of which engine. As long as the names
and labels of the wanted lines are the same ones in the same order, a page costs no more than
reading its numbers. It also knows when a line is gone: a sum with one part missing is no sum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from monitor.engines.dialect import WORKER_LABELS, Dialect, Figure, Figures, Fold
from monitor.engines.exposition import Checked, parse_labels
from monitor.model import SHARED, PageError

MOST_ENGINES = 1024
"""A page with more engines than this is not read: no server has so many ranks."""
_POSITION_DIGITS = 3

_FOLDS: dict[Fold, Callable[[list[float]], float]] = {
    Fold.SUM: sum,
    Fold.MEAN: lambda values: sum(values) / len(values),
    Fold.FIRST: min,
}

Series = tuple[bytes, frozenset[tuple[str, str]]]
"""Name and labels of a line, whatever the order of the labels."""


@dataclass(slots=True)
class Part:
    """The lines that make up one figure of one engine."""

    source: Figure
    lines: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    """The draft position of each line, where the figure is one per position."""


class Place(NamedTuple):
    """What the labels of a line say."""

    engine: str
    order: tuple[str, ...]
    """Of several copies of a figure the lowest one counts."""
    labels: dict[str, str]


@dataclass(slots=True)
class _Plan:
    """How the figures of one engine are read off the values, sorted by what must be done."""

    single: list[tuple[str, int]] = field(default_factory=list)
    several: list[tuple[str, list[int], Callable[[list[float]], float]]] = field(
        default_factory=list
    )
    tables: list[tuple[str, list[int], list[int]]] = field(default_factory=list)

    def figures(self, values: Sequence[float], lost: frozenset[str]) -> Figures:
        known = {figure: values[line] for figure, line in self.single}
        for figure, lines, fold in self.several:
            known[figure] = fold([values[line] for line in lines])
        tables: dict[str, dict[int, float]] = {}
        for figure, places, lines in self.tables:
            table = tables[figure] = dict.fromkeys(places, 0.0)
            for place, line in zip(places, lines, strict=True):
                table[place] += values[line]
        for figure in lost:
            known.pop(figure, None)
            tables.pop(figure, None)
        return Figures(known, tables, lost)


class Layout:
    """The plan of one page."""

    __slots__ = ("_parts", "_plans", "labels", "models", "names", "notes")

    def __init__(
        self,
        names: tuple[bytes, ...],
        labels: tuple[bytes, ...],
        parts: dict[str, dict[str, Part]],
        models: tuple[str, ...],
        notes: tuple[str, ...],
    ) -> None:
        known = {text: text for text in labels}
        self.names = names
        # Many lines have equal label texts; one copy of each is enough to remember.
        self.labels = tuple(known[text] for text in labels)
        self.models = models
        self.notes = notes
        self._parts = parts
        self._plans = {engine: _plan(figures) for engine, figures in parts.items()}

    @property
    def engines(self) -> Collection[str]:
        """The labels of the engines on the page."""
        return self._parts.keys()

    def figures(
        self, values: Sequence[float], lost: dict[str, frozenset[str]] | None = None
    ) -> dict[str, Figures]:
        """The figures of each engine from the values of the lines, without the lost ones."""
        gone: dict[str, frozenset[str]] = lost or {}
        nothing: frozenset[str] = frozenset()
        return {
            engine: plan.figures(values, gone.get(engine, nothing))
            for engine, plan in self._plans.items()
        }

    def has(self, figure: str) -> bool:
        """Whether any engine shows ``figure``."""
        return any(figure in parts for parts in self._parts.values())

    @property
    def size(self) -> int:
        """How many figures the page shows, each engine's counted."""
        return sum(map(len, self._parts.values()))

    def missing_in(self, later: Layout | None) -> int:
        """How many of the figures a later page does not show at all."""
        shown = {} if later is None else later._parts
        return sum(
            len(figures.keys() - shown.get(engine, {}).keys())
            for engine, figures in self._parts.items()
        )

    def lost_since(self, before: Layout) -> dict[str, frozenset[str]]:
        """Figures of engines still shown of which a line of ``before`` is missing."""
        return {
            engine: frozenset(
                figure
                for figure in before._parts[engine]
                if not self._series(engine, figure) >= before._series(engine, figure)
            )
            for engine in self.engines
            if engine in before.engines
        }

    def _series(self, engine: str, figure: str) -> frozenset[Series]:
        part = self._parts[engine].get(figure)
        lines = part.lines if part is not None else []
        return frozenset((self.names[line], _identity(self.labels[line])) for line in lines)


def _plan(parts: dict[str, Part]) -> _Plan:
    plan = _Plan()
    for figure, part in parts.items():
        if part.positions:
            plan.tables.append((figure, part.positions, part.lines))
        elif len(part.lines) == 1:
            plan.single.append((figure, part.lines[0]))
        else:
            plan.several.append((figure, part.lines, _FOLDS[part.source.fold]))
    return plan


def _identity(labels: bytes) -> frozenset[tuple[str, str]]:
    return frozenset(parse_labels(labels).items())


def doubled(found: Checked) -> frozenset[bytes]:
    """Names of series that stand twice on a page; which line is right cannot be known."""
    identities = {text: _identity(text) for text in set(found.labels)}
    seen: set[Series] = set()
    twice: set[bytes] = set()
    for name, text in zip(found.names, found.labels, strict=True):
        series = (name, identities[text])
        if series in seen:
            twice.add(name)
        seen.add(series)
    return frozenset(twice)


def lay_out(dialect: Dialect, found: Checked, before: Layout | None) -> Layout:
    """The plan of a page; ``before`` is that of the page before.

    Raises ``PageError`` where the page shows more engines than any server has.
    """
    builder = _Builder(dialect, found)
    return builder.build(before.engines if before is not None else ())


class _Builder:
    """Goes once through the lines of a page and sorts them by engine and figure."""

    def __init__(self, dialect: Dialect, found: Checked) -> None:
        self._dialect = dialect
        self._found = found
        self._places: dict[bytes, Place] = {}
        self._parts: dict[str, dict[str, Part]] = {}
        self._orders: dict[tuple[str, str], tuple[int, tuple[str, ...]]] = {}
        self._notes: list[str] = []

    def build(self, before: Collection[str]) -> Layout:
        for line, (name, text) in enumerate(
            zip(self._found.names, self._found.labels, strict=True)
        ):
            if name not in self._found.damaged:
                self._add(line, name, self._place(text))
        if len(self._parts) > MOST_ENGINES:
            raise PageError(f"the page shows {len(self._parts)} engines; that cannot be")
        parts = _name(_merge_shared(self._parts, before), before)
        models = tuple(sorted(self._models()))
        if len(models) > 1:
            self._notes.append(f"the page serves {len(models)} models; they are added up")
        return Layout(self._found.names, self._found.labels, parts, models, tuple(self._notes))

    def _models(self) -> Iterator[str]:
        places = self._places.values()
        yield from dict.fromkeys(
            place.labels["model_name"] for place in places if "model_name" in place.labels
        )

    def _place(self, text: bytes) -> Place:
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = self._read_labels(text)
        return place

    def _read_labels(self, text: bytes) -> Place:
        dialect, labels = self._dialect, parse_labels(text)
        engine = "/".join(
            labels[name] for name in (*WORKER_LABELS, dialect.engine_label) if labels.get(name)
        )
        # The draft worker of a server exports the same names; the whole engine is "unified".
        kind = "1" if labels.get("engine_type") == "draft" else "0"
        part = "0" if dialect.part_label is None or dialect.part_label not in labels else "1"
        ranks = (labels.get(name, "0").zfill(6) for name in dialect.rank_labels)
        return Place(engine, (kind, part, *ranks), labels)

    def _add(self, line: int, name: bytes, place: Place) -> None:
        for figure, preference, source in self._dialect.routes[name]:
            if source.where is not None and place.labels.get(source.where[0]) != source.where[1]:
                continue
            key, order = (place.engine, figure), (preference, place.order)
            best = self._orders.get(key)
            if best is not None and order > best:
                continue
            figures = self._parts.setdefault(place.engine, {})
            if best is None or order < best:
                # A better name or the lower rank: what was there so far were only copies.
                self._orders[key] = order
                figures[figure] = Part(source)
            _put(figures[figure], line, place)


def _put(part: Part, line: int, place: Place) -> None:
    if part.source.per_position is not None:
        position = place.labels.get(part.source.per_position, "")
        if not position.isdecimal() or len(position) > _POSITION_DIGITS:
            return
        part.positions.append(int(position))
    part.lines.append(line)


def _merge_shared(
    engines: dict[str, dict[str, Part]], before: Collection[str]
) -> dict[str, dict[str, Part]]:
    """Puts what a server says for all its ranks under ``SHARED``, or into its only rank.

    ``before`` names the engines of the page before: while one of them is missing, the other
    does not become the only one.
    """
    parents = {
        label[:end] for label in engines for end, letter in enumerate(label) if letter == "/"
    }
    if len(engines) > 1:
        parents.add(SHARED)
    shared = [label for label in engines if label in parents]
    if not shared:
        return engines
    merged = {label: parts for label, parts in engines.items() if label not in parents}
    alone = len({*merged, *before} - {SHARED}) == 1
    into = merged.setdefault(next(iter(merged)) if alone else SHARED, {})
    for label in shared:
        for figure, part in engines[label].items():
            if figure in into:
                into[figure].lines.extend(part.lines)
                into[figure].positions.extend(part.positions)
            else:
                into[figure] = part
    return merged


def _name(
    engines: dict[str, dict[str, Part]], before: Collection[str]
) -> dict[str, dict[str, Part]]:
    """Calls the only engine of a page without rank labels "0"."""
    if list(engines) == [SHARED] and SHARED not in before:
        return {"0": engines[SHARED]}
    return engines
