"""Reads the results of load tools: which tool wrote a file, and the curve in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

from monitor.baseline_file import load_baseline
from monitor.baselines.formats import aiperf, guidellm, plain_csv, serving_json
from monitor.baselines.runs import Imported, Run, RunError, points_of
from monitor.config import files
from monitor.health.baseline import BaselinePoint
from monitor.model import ConfigError, Identity
from monitor.store.baseline_rows import SourceFile

MOST_BYTES = 512 * 1024 * 1024
"""Detailed results hold every request of a run."""


class Format(StrEnum):
    """What a file may be written in."""

    AUTO = "auto"
    VLLM = serving_json.VLLM
    SGLANG = serving_json.SGLANG
    GUIDELLM = guidellm.GUIDELLM
    AIPERF = aiperf.AIPERF
    CSV = plain_csv.CSV
    MONITOR = "monitor"


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve read from files, and what they tell about its origin."""

    tool: str
    points: tuple[BaselinePoint, ...]
    identity: Identity
    sources: tuple[SourceFile, ...]
    notes: tuple[str, ...] = ()
    start: float | None = None
    end: float | None = None


def read_files(paths: Sequence[Path], wanted: Format = Format.AUTO) -> Curve:
    """The curve in files that belong together.

    Raises:
        ConfigError: one line for each file that cannot be used; then nothing is returned.
    """
    read: list[tuple[Imported, SourceFile]] = []
    mistakes: list[str] = []
    for path in paths:
        try:
            read.append(_read_file(path, wanted))
        except ValueError as error:
            mistakes.append(f"{path}: {error}")
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    found = [imported for imported, _ in read]
    try:
        identity = _merged([imported.identity for imported in found])
    except RunError as error:
        raise ConfigError(f"the files {error}") from None
    starts = [one.start for one in found if one.start is not None]
    ends = [one.end for one in found if one.end is not None]
    return Curve(
        tool=", ".join(dict.fromkeys(one.tool for one in found)),
        points=points_of([run for one in found for run in one.runs]),
        identity=identity,
        sources=tuple(source for _, source in read),
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
        start=min(starts, default=None),
        end=max(ends, default=None),
    )


def _read_file(path: Path, wanted: Format) -> tuple[Imported, SourceFile]:
    content = files.read_limited(path, MOST_BYTES)
    source = SourceFile(path.name, sha256(content).hexdigest())
    text = files.decode(content)
    if not text.strip():
        raise RunError("is empty")
    if text.lstrip()[0] in "{[":
        return _read_json(path, _documents(text), wanted), source
    return _read_table(text, wanted), source


def _read_json(path: Path, documents: Sequence[object], wanted: Format) -> Imported:
    if wanted is Format.AUTO:
        kinds = {_recognise(document) for document in documents}
        if None in kinds or len(kinds) > 1:
            raise RunError(f"is the result of no known tool; name it with --format ({_names()})")
        wanted = kinds.pop() or wanted
    if wanted is Format.MONITOR:
        return _read_own(path)
    reader = _JSON_READERS.get(wanted)
    if reader is None:
        raise RunError(f"is JSON, which --format {wanted} is not")
    return reader(documents)


def _read_table(text: str, wanted: Format) -> Imported:
    first = text.lstrip().partition("\n")[0]
    if wanted is Format.AUTO:
        if aiperf.recognise_csv(first):
            wanted = Format.AIPERF
        elif plain_csv.recognise(first):
            wanted = Format.CSV
        else:
            raise RunError(f"is neither JSON nor a table of running,tpot; known are {_names()}")
    if wanted is Format.AIPERF:
        return aiperf.read_csv(text)
    if wanted is Format.CSV:
        return plain_csv.read(text.lstrip())
    raise RunError(f"is not JSON, which --format {wanted} is")


def _recognise(document: object) -> Format | None:
    if guidellm.recognise(document):
        return Format.GUIDELLM
    if aiperf.recognise(document):
        return Format.AIPERF
    tool = serving_json.recognise(document)
    if tool is not None:
        return Format(tool)
    is_own = isinstance(document, dict) and "points" in document
    return Format.MONITOR if is_own else None


def _documents(text: str) -> list[object]:
    """The objects of a file: one, a list of them, or one a line."""
    try:
        whole = json.loads(text)
    except RecursionError:
        raise RunError("is nested too deeply") from None
    except json.JSONDecodeError as error:
        return _lines(text, error)
    documents = whole if isinstance(whole, list) else [whole]
    if not documents:
        raise RunError("is an empty list")
    return documents


def _lines(text: str, error: json.JSONDecodeError) -> list[object]:
    documents: list[object] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            documents.append(json.loads(line))
        except (json.JSONDecodeError, RecursionError):
            # Where not even the first line is JSON, the file was not meant line by line.
            where = number if documents else error.lineno
            raise RunError(f"line {where}: is not JSON; was the file cut short?") from None
    return documents


def _read_own(path: Path) -> Imported:
    try:
        baseline = load_baseline(path)
    except ConfigError as error:
        first = str(error).partition("\n")[0]
        raise RunError(first.removeprefix(f"baseline {path}: ")) from None
    runs = tuple(Run(point.running, point.tpot, point.seconds) for point in baseline.points)
    return Imported(Format.MONITOR, runs, baseline.identity)


def _single(read: Callable[[object], Imported]) -> Callable[[Sequence[object]], Imported]:
    """A reader of files that hold one document; several are read one after the other."""

    def read_all(documents: Sequence[object]) -> Imported:
        found = [read(document) for document in documents]
        runs = tuple(run for one in found for run in one.runs)
        identity = _merged([one.identity for one in found])
        notes = tuple(dict.fromkeys(note for one in found for note in one.notes))
        return Imported(found[0].tool, runs, identity, notes, found[0].start, found[-1].end)

    return read_all


def _merged(identities: Sequence[Identity]) -> Identity:
    """What the files say together; they must not contradict each other."""
    parts: dict[str, Any] = {}
    for name in Identity._fields:
        known = {getattr(one, name) for one in identities} - {None}
        if len(known) > 1:
            shown = ", ".join(sorted(map(str, known)))
            raise RunError(f"differ in {name} ({shown}): import them one by one")
        parts[name] = known.pop() if known else None
    return Identity(**parts)


def _names() -> str:
    return ", ".join(one for one in Format if one is not Format.AUTO)


_JSON_READERS: dict[Format, Callable[[Sequence[object]], Imported]] = {
    Format.VLLM: serving_json.read_vllm,
    Format.SGLANG: serving_json.read_sglang,
    Format.GUIDELLM: _single(guidellm.read),
    Format.AIPERF: _single(aiperf.read),
}
