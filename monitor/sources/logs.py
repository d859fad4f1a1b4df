"""Log files of servers as a source of the past: plain, compressed, rotated, or from a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import tzinfo
from io import BufferedReader
from pathlib import Path
from typing import Protocol

from monitor.backfill.looks import Findings, Look
from monitor.engines.logs.reader import WANTED, LogReader
from monitor.engines.logs.sglang import WINDOW_SECONDS
from monitor.engines.logs.stamps import Stamps
from monitor.model import ConfigError, Engine
from monitor.sources.files import UNREADABLE, unpacked

BLOCK_BYTES = 1 << 20
LONGEST_LINE = 1 << 20
_PACKED = r"(?:\.(?:gz|zst|bz2|xz))?$"
_NUMBERED = re.compile(r"\.(\d{1,4})" + _PACKED)
_DATED = re.compile(r"[-._](\d{4}-?\d\d-?\d\d(?:[-_T.]?\d\d[-:]?\d\d(?:[-:]?\d\d)?)?)" + _PACKED)


class Readable(Protocol):
    """Bytes that are read from their beginning to their end."""

    def read1(self, size: int, /) -> bytes:
        """The next bytes, as many as are there; none at the end.

        Where a file is cut short, ``read`` would keep to itself what came before the cut.
        """
        ...


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How to read the log of one server."""

    target: str
    engine: Engine | None
    zone: tzinfo
    """Of the machine that wrote the log."""
    year: int | None
    """Of the first line, where its stamps have none."""
    now: float
    draft_size: float | None = None


@dataclass(slots=True)
class LogFiles:
    """The log of one server in one or more files, the oldest first; ``-`` is standard input."""

    paths: Sequence[Path]
    settings: LogSettings
    pipe: BufferedReader | None = None
    """Standard input, which can be read once."""
    findings: Findings = field(default_factory=Findings)

    @property
    def targets(self) -> Sequence[str]:
        """The one target."""
        return (self.settings.target,)

    def interval(self, _target: str) -> float | None:
        """vLLM writes each ten seconds, and SGLang's lines are summed to as much."""
        return WINDOW_SECONDS

    def looks(self, after: float) -> Iterator[Look]:
        """Looks later than ``after``; what the log told before is in their counters.

        Raises ``ConfigError`` where a file cannot be opened or its stamps cannot be read.
        """
        settings = self.settings
        stamps = Stamps(settings.zone, settings.year, settings.now)
        reader = LogReader(settings.engine, stamps, settings.draft_size, self.findings.skipped)
        for sample in reader.samples(self._lines()):
            if sample.at > after:
                yield Look(settings.target, sample.at, sample)

    def _lines(self) -> Iterator[bytes]:
        sizes = [_size(path) for path in self.paths if str(path) != "-"]
        total = sum(sizes) if len(sizes) == len(self.paths) else 0
        before = 0
        for path in self.paths:
            with ExitStack() as stack:
                raw = self._open(path, stack)
                for line in self._wanted(raw, path):
                    if total:
                        self.findings.done = min(1.0, (before + raw.tell()) / total)
                    yield line
                before += raw.tell() if total else 0

    def _open(self, path: Path, stack: ExitStack) -> BufferedReader:
        if str(path) == "-":
            if self.pipe is None:
                raise ConfigError("standard input can be read only once; give a file instead")
            pipe, self.pipe = self.pipe, None
            return pipe
        try:
            return stack.enter_context(path.open("rb"))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error

    def _wanted(self, raw: BufferedReader, path: Path) -> Iterator[bytes]:
        """The lines that tell something; a damaged file is read as far as it can be."""
        try:
            yield from wanted_lines(unpacked(raw), self.findings)
        except UNREADABLE as error:
            self.findings.note(f"{path}: damaged, read as far as possible ({error})")


def wanted_lines(stream: Readable, findings: Findings) -> Iterator[bytes]:
    """The lines with a known mark, found without looking at the others one by one."""
    rest, dropping = b"", False
    while block := stream.read1(BLOCK_BYTES):
        text = rest + block
        cut = text.rfind(b"\n") + 1
        if dropping:
            first = text.find(b"\n") + 1
            text, cut, dropping = text[first:], cut - first, not first
        if dropping or (not cut and len(text) > LONGEST_LINE):
            findings.skipped["line longer than 1 MB"] += not dropping
            rest, dropping = b"", True
            continue
        yield from _marked(text, cut)
        rest = text[cut:]
    # A line that is still being written has no end; half of a figure is another figure.
    if WANTED.search(rest):
        findings.skipped["last line without an end"] += 1


def _marked(text: bytes, cut: int) -> Iterator[bytes]:
    end = 0
    for match in WANTED.finditer(text, 0, cut):
        if match.start() >= end:
            start = text.rfind(b"\n", 0, match.start()) + 1
            end = text.find(b"\n", match.end())
            yield text[start:end]


def in_order(paths: Sequence[Path]) -> list[Path]:
    """Files of one rotated log by their dates or numbers, the oldest first; all others as given.

    A folder stands for the files in it.
    """
    files: list[Path] = []
    for path in paths:
        files += sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    return sorted(files, key=_place)


def _place(path: Path) -> tuple[int, int]:
    """Dated files by their dates, then numbered ones from the highest, then those without."""
    dated = _DATED.search(path.name)
    if dated is not None:
        return 0, int(re.sub(r"\D", "", dated[1]).ljust(14, "0"))
    numbered = _NUMBERED.search(path.name)
    return (1, -int(numbered[1])) if numbered else (2, 0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
