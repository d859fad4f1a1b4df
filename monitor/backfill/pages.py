"""The past from saved pages: a folder of them, or an index that says when each was taken."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from monitor.backfill.looks import Findings, Look
from monitor.backfill.moments import is_moment, usual_interval
from monitor.config.files import read_limited
from monitor.model import ConfigError
from monitor.pipeline import Page
from monitor.sources.files import opened

MAX_INDEX = 64 * 1024 * 1024
MAX_PAGE = 64 * 1024 * 1024
_INDEXES = ("INDEX.json", "index.json")
_LISTS = ("pages", "snapshots", "looks")
_TIMES = ("at", "time", "timestamp", "unix", "t", "iso")
_LOADS_ENDING = ".v1_loads.json"
_EPOCH = re.compile(r"(?<![0-9])(1[5-9][0-9]{8}|2[0-9]{9})(?:[._]([0-9]{1,6}))?(?![0-9])")
_DATE = re.compile(
    r"(20[0-9]{2})-?([01][0-9])-?([0-3][0-9])[T_ -]([0-2][0-9])[:-]?([0-5][0-9])[:-]?([0-6][0-9])"
    r"(?:\.([0-9]{1,6}))?Z"
)


class Saved(NamedTuple):
    """A page that was saved, and when it was taken."""

    at: float
    path: Path


class PagesSource:
    """The pages of one target, in the order in which they were taken.

    Args:
        target: what the pages are of.
        path: a folder, or an index of pages.
        only: what an entry of the index must say to be taken, such as ``run``: ``02``.
    """

    def __init__(self, target: str, path: Path, only: Mapping[str, str]) -> None:
        self.findings = Findings()
        self._target = target
        self._pages = _find(path, only, self.findings)

    @property
    def targets(self) -> Sequence[str]:
        """The one target."""
        return (self._target,)

    def interval(self, _target: str) -> float | None:
        """The usual time between two pages."""
        gaps = Counter(b.at - a.at for a, b in pairwise(self._pages) if b.at > a.at)
        return usual_interval(gaps)

    def looks(self, after: float) -> Iterator[Look]:
        """The pages later than ``after``, read one by one."""
        for number, page in enumerate(self._pages, start=1):
            self.findings.done = number / len(self._pages)
            if page.at <= after:
                continue
            try:
                yield Look(self._target, page.at, _read(page.path))
            except ConfigError as error:
                self.findings.skipped["a page that cannot be read"] += 1
                self.findings.note(str(error))


def _find(path: Path, only: Mapping[str, str], findings: Findings) -> Sequence[Saved]:
    if path.is_dir():
        index = next((path / name for name in _INDEXES if (path / name).is_file()), None)
        found = _from_names(path, findings) if index is None else _from_index(index, only)
    elif path.is_file():
        found = _from_index(path, only)
    else:
        raise ConfigError(f"{path}: no such file or folder")
    if not found:
        raise ConfigError(f"{path}: there are no pages in it")
    return sorted(found)


def _from_names(folder: Path, findings: Findings) -> list[Saved]:
    """The pages of a folder whose names tell when they were taken."""
    found = []
    for path in sorted(folder.iterdir()):
        if not path.is_file() or path.name.startswith(".") or path.name.endswith(".json"):
            continue
        at = time_in(path.name)
        if at is None:
            findings.skipped["a file whose name tells no time"] += 1
        else:
            found.append(Saved(at, path))
    if not found:
        raise ConfigError(
            f"{folder}: no file tells in its name when it was taken, such as"
            " 2026-03-01T14:32:00Z.prom or 1772375520.prom, and there is no INDEX.json"
        )
    return found


def time_in(name: str) -> float | None:
    """The time in the name of a file, in UTC or in seconds since the epoch; None for none."""
    date = _DATE.search(name)
    if date is not None:
        *parts, fraction = date.groups()
        try:
            moment = datetime(*map(int, parts), tzinfo=UTC)  # type: ignore[arg-type,misc]
        except ValueError:
            return None
        return moment.timestamp() + float(f"0.{fraction or 0}")
    epoch = _EPOCH.search(name)
    return None if epoch is None else float(f"{epoch[1]}.{epoch[2] or 0}")


def _from_index(path: Path, only: Mapping[str, str]) -> list[Saved]:
    try:
        document = json.loads(read_limited(path, MAX_INDEX))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is no index of pages: {error}") from None
    if isinstance(document, dict):
        document = next((document[name] for name in _LISTS if name in document), None)
    if not isinstance(document, list):
        raise ConfigError(
            f'{path}: is no index of pages: it should be a list of {{"file": …, "at": …}}'
        )
    found = [
        _entry(path, number, entry)
        for number, entry in enumerate(document, start=1)
        if _is_wanted(entry, only)
    ]
    if not found and only:
        wanted = ", ".join(f"{name}={value}" for name, value in only.items())
        raise ConfigError(f"{path}: no page of it has {wanted}")
    return found


def _is_wanted(entry: object, only: Mapping[str, str]) -> bool:
    if not isinstance(entry, dict) or entry.get("ok") is False:
        return False
    return all(str(entry.get(name)) == value for name, value in only.items())


def _entry(index: Path, number: int, entry: Mapping[str, Any]) -> Saved:
    file = entry.get("file")
    if not isinstance(file, str) or not file.isprintable() or not file:
        raise ConfigError(f'{index}: page {number} has no "file" that is the name of one')
    for name in _TIMES:
        at = _moment(entry.get(name))
        if at is not None:
            return Saved(at, index.parent / file)
    raise ConfigError(
        f'{index}: page {number} ({file}) has no time: "at" must be ISO 8601 with a zone, or'
        " seconds since the epoch"
    )


def _moment(value: object) -> float | None:
    """A time that can be right; what cannot is none, so that nothing is guessed."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        value = None if moment.tzinfo is None else moment.timestamp()
    if isinstance(value, int | float) and not isinstance(value, bool) and is_moment(value):
        return float(value)
    return None


def _read(path: Path) -> Page:
    metrics = _content(path)
    loads = path.with_name(path.name.split(".prom", maxsplit=1)[0] + _LOADS_ENDING)
    return Page(metrics, _content(loads) if loads.is_file() else None)


def _content(path: Path) -> bytes:
    with opened(str(path)) as file:
        content = file.read(MAX_PAGE + 1)
    if len(content) > MAX_PAGE:
        raise ConfigError(f"{path}: is larger than {MAX_PAGE} bytes")
    return content
