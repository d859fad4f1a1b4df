"""The past from a text dump of series with times: OpenMetrics, exposition format, promtool's own.

Such a file goes series by series, so that the first and the last line of it may be of one
scrape. The lines that are needed are sorted by time on disk, in pieces that fit into memory.
"""

from __future__ import annotations

import heapq
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

from monitor.backfill.looks import Findings, Look
from monitor.backfill.moments import is_moment, usual_interval
from monitor.backfill.series import NAME, Assembler, Catalogue, Point, wanted_names
from monitor.model import ConfigError
from monitor.sources.files import opened

PIECE = 400_000
"""Lines that are sorted at once: about 60 MB."""
LONGEST_LINE = 64 * 1024
LONGEST_SERIES = 200_000
"""Series of one file; more are no servers but a mistake."""
_MILLISECONDS = 1e11
"""A time above this is in milliseconds; in seconds it would lie after the year 5000."""
_LINE = re.compile(
    rb"([a-zA-Z_:][a-zA-Z0-9_:]*+)?[ \t]*+(\{(?:[^\"}]|\"(?:[^\"\\]|\\.)*+\")*+\})?[ \t]++"
    rb"([^ \t#]++)[ \t]++(-?[0-9][0-9.eE+-]*+)[ \t]*+(?:#.*+)?"
)
_LABEL = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+\"((?:[^\"\\]|\\.)*+)\"")
_ESCAPE = re.compile(r"\\(.)")
_NAME_INSIDE = re.compile(rb'__name__="((?:[^"\\]|\\.)*+)"')


class Record(NamedTuple):
    """One line of a dump, ready to be sorted."""

    at: float
    series: int
    value: bytes


class DumpSource:
    """The looks in one file.

    Args:
        name: of the file; ``-`` is standard input.
        name_of: the name of a target from its labels; None for one that is not wanted.
        matchers: labels that a series must have to be taken.
    """

    def __init__(
        self,
        name: str,
        name_of: Callable[[Mapping[str, str]], str | None],
        matchers: Mapping[str, str],
    ) -> None:
        self.findings = Findings()
        self._name = name
        self._matchers = matchers
        self._catalogue = Catalogue(name_of)
        self._labels: list[Mapping[str, str]] = []
        self._numbers: dict[bytes, int | None] = {}
        self._latest: dict[int, float] = {}
        self._gaps: dict[int, Counter[float]] = defaultdict(Counter)
        self._folder = tempfile.TemporaryDirectory(prefix="monitor-backfill-")
        self._pieces: list[Path] = []
        self._count = 0
        try:
            self._sort()
        except BaseException:
            self.close()
            raise
        self._intervals = self._find_intervals()

    def close(self) -> None:
        """Deletes what was sorted."""
        self._folder.cleanup()

    @property
    def targets(self) -> Sequence[str]:
        """The names of all targets in the file."""
        return self._catalogue.targets

    def interval(self, target: str) -> float | None:
        """The usual time between two scrapes."""
        return self._intervals.get(target)

    def looks(self, after: float) -> Iterator[Look]:
        """The scrapes later than ``after``."""
        assembler = Assembler(self._catalogue, self.findings, self._intervals)
        yield from assembler.looks(self._points(after))

    def _points(self, after: float) -> Iterator[Point]:
        found = [self._catalogue.find(labels) for labels in self._labels]
        last: tuple[float, int] | None = None
        for number, record in enumerate(self._merged(), start=1):
            self.findings.done = number / self._count
            series = found[record.series]
            if series is None or record.at <= after:
                continue
            if last == (record.at, record.series):
                # A dump of overlapping blocks holds samples twice.
                self.findings.skipped["the same sample twice"] += 1
                continue
            last = record.at, record.series
            yield Point(record.at, series, record.value)

    def _sort(self) -> None:
        piece: list[Record] = []
        with opened(self._name) as file:
            for line in _lines(file):
                record = self._record(line)
                if record is not None:
                    piece.append(record)
                if len(piece) >= PIECE:
                    self._spill(piece)
        self._spill(piece)
        self._catalogue.settle(self._labels)
        if not self._catalogue.streams:
            raise ConfigError(
                f"{self._name}: there are no samples with a time of vLLM, SGLang or another"
                " engine in it that match"
            )

    def _record(self, line: bytes) -> Record | None:
        if not line or line[:1] == b"#" or line.isspace():
            return None
        match = _LINE.fullmatch(line.rstrip(b"\r\n"))
        if match is None:
            self.findings.skipped["a line without a time, or none of a dump"] += 1
            return None
        name, braces, value, time = match.groups(b"")
        series = self._number(name, braces)
        at = _seconds(time)
        if series is None or at is None:
            if series is not None:
                self.findings.skipped["a line with a time that cannot be right"] += 1
            return None
        gap = round(at - self._latest.get(series, at), 1)
        if gap > 0.0:
            self._gaps[series][gap] += 1
        self._latest[series] = at
        return Record(at, series, value)

    def _number(self, name: bytes, braces: bytes) -> int | None:
        """The number of a series; None for one that is not needed."""
        key = name + braces
        if key in self._numbers:
            return self._numbers[key]
        number = None
        inside = _NAME_INSIDE.search(braces)
        full = (inside[1] if inside else name).decode("utf-8", "replace")
        if _is_wanted(full):
            if len(self._labels) >= LONGEST_SERIES:
                raise ConfigError(f"{self._name}: holds more than {LONGEST_SERIES} series")
            labels = _labels(braces.decode("utf-8", "replace")) | {NAME: full}
            if all(labels.get(label) == wanted for label, wanted in self._matchers.items()):
                number = len(self._labels)
                self._labels.append(labels)
            self._numbers[key] = number
        return number

    def _spill(self, piece: list[Record]) -> None:
        piece.sort()
        path = Path(self._folder.name) / str(len(self._pieces))
        try:
            with path.open("wb") as file:
                file.writelines(b"%r %d %b\n" % record for record in piece)
        except OSError as error:
            raise ConfigError(
                f"{self._folder.name}: there is no room to sort the dump: {error.strerror};"
                " TMPDIR names another folder"
            ) from None
        self._pieces.append(path)
        self._count += len(piece)
        piece.clear()

    def _merged(self) -> Iterator[Record]:
        return heapq.merge(*map(_read, self._pieces))

    def _find_intervals(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for number, labels in enumerate(self._labels):
            series = self._catalogue.find(labels)
            interval = usual_interval(self._gaps[number])
            if series is not None and interval is not None:
                target = self._catalogue.streams[series.stream].target
                found.setdefault(target, interval)
        return found


@lru_cache(maxsize=10_000)
def _is_wanted(name: str) -> bool:
    return re.fullmatch(wanted_names(), name) is not None


def _lines(file: BufferedIOBase) -> Iterator[bytes]:
    """The lines of a file; what is too long for one is passed over."""
    whole = True
    while line := file.readline(LONGEST_LINE):
        ends = line.endswith(b"\n")
        if whole and (ends or len(line) < LONGEST_LINE):
            yield line
        whole = ends


def _read(path: Path) -> Iterator[Record]:
    with path.open("rb") as file:
        for line in file:
            at, series, value = line.split(b" ", 2)
            yield Record(float(at), int(series), value.rstrip(b"\n"))


def _seconds(text: bytes) -> float | None:
    try:
        at = float(text)
    except ValueError:
        return None
    at = at / 1000.0 if at > _MILLISECONDS else at
    return at if is_moment(at) else None


def _labels(braces: str) -> dict[str, str]:
    return {name: _unescaped(value) for name, value in _LABEL.findall(braces)}


def _unescaped(value: str) -> str:
    return _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], value) if "\\" in value else value


def matchers_in(texts: Iterable[str]) -> dict[str, str]:
    """``label="value"`` and ``label=value``, separated by commas, as a table.

    Raises:
        ValueError: one of them is something else.
    """
    found = {}
    for text in texts:
        for part in filter(None, (one.strip() for one in text.split(","))):
            name, equals, value = part.partition("=")
            if not equals or not name.strip() or value[:1] in ("~", "="):
                raise ValueError(f"{part!r} is not label=value")
            found[name.strip()] = value.strip().strip('"')
    return found
