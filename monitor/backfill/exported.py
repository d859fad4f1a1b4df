"""The past from what ``monitor export samples`` wrote: the rows of another database."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import isfinite
from typing import Any, NamedTuple

import orjson

from monitor.backfill.looks import Findings, Look
from monitor.backfill.moments import is_moment, usual_interval
from monitor.model import ConfigError, Counts, Engine, Identity, Increment, Verdict
from monitor.pipeline import Counted
from monitor.sources.files import opened
from monitor.store.export import COLUMNS, What

LONGEST_LINE = 256 * 1024
MOST_POSITIONS = 1024
MOST = 1e15
"""No count or number of seconds is larger; up to here whole numbers are exact."""
MOST_GPUS = 100_000
_COLUMNS = COLUMNS[What.SAMPLES]
_SCALARS = Counts._fields[:-1]
_DAMAGED = "line that is no row of an export"
_UNORDERED = "row that is older than the one before"
_TWICE = "row of time that is counted already"


class Stored(NamedTuple):
    """One row of the file."""

    target: str
    increment: Increment
    identity: Identity
    verdict: Verdict | None


class ExportSource:
    """The looks in one file, CSV or JSON lines, packed or not.

    Args:
        name: of the file, which is read several times.
        name_of: the name of a target from its labels; None for one that is not wanted.
    """

    def __init__(self, name: str, name_of: Callable[[Mapping[str, str]], str | None]) -> None:
        self.findings = Findings()
        self._name = name
        self._names: dict[str, str] = {}
        spacings: dict[str, Counter[float]] = defaultdict(Counter)
        for row, service in self._rows(Findings()):
            if row.target not in self._names:
                wanted = name_of({"instance": row.target, "job": service})
                if wanted is None:
                    continue
                self._names[row.target] = wanted
            spacing = round(row.increment.end - row.increment.start, 1)
            spacings[self._names[row.target]][spacing] += 1
        self._intervals = {name: usual_interval(seen) for name, seen in spacings.items()}

    @property
    def targets(self) -> Sequence[str]:
        """The names of the targets in the file that are wanted."""
        return [*self._intervals]

    def interval(self, target: str) -> float | None:
        """The usual length of a row."""
        return self._intervals.get(target)

    def looks(self, after: float) -> Iterator[Look]:
        """One look for each moment at which a target was looked at."""
        last = 0.0
        counted: dict[tuple[str, str], float] = {}
        rows = (row for row, _ in self._rows(self.findings))
        for (target, at), group in groupby(rows, key=lambda row: (row.target, row.increment.end)):
            members = list(group)
            name = self._names.get(target)
            if name is None or at <= after:
                continue
            if at < last:
                self.findings.skipped[_UNORDERED] += len(members)
                continue
            last = at
            increments = tuple(self._new(name, members, counted))
            if increments:
                yield Look(name, at, Counted(increments, members[0].identity, members[0].verdict))

    def _new(
        self, name: str, rows: Iterable[Stored], counted: dict[tuple[str, str], float]
    ) -> Iterator[Increment]:
        """Leaves out what was seen already: a file put together by hand may hold it twice."""
        for row in rows:
            key = name, row.increment.label
            if row.increment.start < counted.get(key, 0.0):
                self.findings.skipped[_TWICE] += 1
            else:
                counted[key] = row.increment.end
                yield row.increment

    def _rows(self, findings: Findings) -> Iterator[tuple[Stored, str]]:
        """Each row with the service of its target."""
        for document in self._documents(findings):
            try:
                yield _parse(document), str(document["service"])
            except (KeyError, TypeError, ValueError):
                findings.skipped[_DAMAGED] += 1

    def _documents(self, findings: Findings) -> Iterator[Mapping[str, Any]]:
        with opened(self._name) as file:
            begins = file.readline(LONGEST_LINE)
            if begins.lstrip().startswith(b"{"):
                yield from _from_json(begins, file, findings)
            elif begins.decode("utf-8", "replace").strip().split(",") == [*_COLUMNS]:
                yield from _from_csv(file, findings)
            else:
                raise ConfigError(
                    f"{self._name}: this is no file of 'monitor export samples': its first line"
                    " is neither a JSON object nor the header of its columns"
                )


def _from_json(
    first: bytes, file: io.BufferedIOBase, findings: Findings
) -> Iterator[Mapping[str, Any]]:
    line = first
    while line:
        try:
            found = orjson.loads(line)
            if isinstance(found, dict):
                yield found
            else:
                findings.skipped[_DAMAGED] += 1
        except orjson.JSONDecodeError:
            findings.skipped[_DAMAGED] += 1
        line = file.readline(LONGEST_LINE)


def _from_csv(file: io.BufferedIOBase, findings: Findings) -> Iterator[Mapping[str, Any]]:
    reader = csv.reader(_lines(file))
    while True:
        try:
            cells = next(reader, None)
        except csv.Error:
            findings.skipped[_DAMAGED] += 1
            continue
        if cells is None:
            return
        if len(cells) != len(_COLUMNS):
            findings.skipped[_DAMAGED] += 1
            continue
        yield _from_cells(dict(zip(_COLUMNS, cells, strict=True)))


def _lines(file: io.BufferedIOBase) -> Iterator[str]:
    while line := file.readline(LONGEST_LINE):
        yield line.decode("utf-8", "replace")


def _from_cells(cells: dict[str, str]) -> dict[str, Any]:
    """What JSON would have said: an empty cell is not known, lists and flags are JSON."""
    found: dict[str, Any] = {name: cell or None for name, cell in cells.items()}
    found["label"] = cells["label"]
    for name in ("positions", "warmup"):
        try:
            found[name] = orjson.loads(cells[name])
        except orjson.JSONDecodeError:
            found[name] = None
    return found


def _parse(document: Mapping[str, Any]) -> Stored:
    start, end = _number(document["start"]), _number(document["end"])
    warmup, label, target = document["warmup"], document["label"], document["target"]
    if not (is_moment(start) and is_moment(end) and start < end and isinstance(warmup, bool)):
        raise ValueError
    if not (isinstance(label, str) and isinstance(target, str) and target):
        raise TypeError
    scalars = [_count(document[name]) for name in _SCALARS]
    counts = Counts._make((*scalars, _positions(document["positions"])))
    verdict = document["verdict"]
    return Stored(
        target,
        Increment(label, start, end, counts, warmup),
        _identity(document),
        None if verdict is None else Verdict(verdict),
    )


def _identity(document: Mapping[str, Any]) -> Identity:
    engine, k, parallel = (document[name] for name in ("engine", "draft_size", "tensor_parallel"))
    version, model, method = (document[name] for name in ("engine_version", "model", "method"))
    if any(not isinstance(text, str | None) for text in (version, model, method)):
        raise TypeError
    return Identity(
        engine=None if engine is None else Engine(engine),
        engine_version=version,
        model=model,
        method=method,
        draft_size=None if k is None else _whole(k, MOST_POSITIONS),
        tensor_parallel=None if parallel is None else _whole(parallel, MOST_GPUS),
    )


def _positions(value: object) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) > MOST_POSITIONS:
        raise TypeError
    return tuple(map(_count, value))


def _whole(value: object, most: int) -> int:
    number = _number(value)
    if not (1.0 <= number <= most and number.is_integer()):
        raise ValueError
    return int(number)


def _count(value: object) -> float:
    number = _number(value)
    if not 0.0 <= number <= MOST:
        raise ValueError
    return number


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    number = float(value)
    if not isfinite(number):
        raise ValueError
    return number
