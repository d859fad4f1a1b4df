"""The ``--page FILE[@TIME]`` arguments of ``monitor check``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from monitor.check import Look
from monitor.cli.times import parse_time
from monitor.model import ConfigError
from monitor.pipeline import Page
from monitor.sources.files import STDIN, opened

_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SavedPage:
    """A file with a page, and the time it was taken at."""

    file: str
    at: float


def parse_pages(arguments: Sequence[str], interval: float, now: float) -> list[SavedPage]:
    """The pages in order of time; those without a time are ``interval`` apart.

    Where no page has a time, the last one is taken to be of ``now``.
    """
    split = [_split(argument) for argument in arguments]
    if sum(file == STDIN for file, _ in split) > 1:
        raise ConfigError("--page -: standard input can be read only once")
    files = [file for file, _ in split]
    times = _fill_times([at for _, at in split], interval, now)
    for file in files:
        if file != STDIN and not Path(file).exists():
            raise ConfigError(f"--page {file}: no such file")
    pages = [SavedPage(file, at) for file, at in zip(files, times, strict=True)]
    return sorted(pages, key=lambda page: page.at)


def read_pages(pages: Sequence[SavedPage]) -> Iterator[Look]:
    """The content of the pages, one after the other so that only one is in memory."""
    for page in pages:
        yield Look(page.at, Page(_read(page.file)), name=page.file)


def _read(file: str) -> bytes:
    try:
        with opened(file) as stream:
            content = stream.read(_MAX_BYTES + 1)
    except ConfigError as error:
        raise ConfigError(f"--page {error}") from None
    if len(content) > _MAX_BYTES:
        raise ConfigError(f"--page {file}: is larger than {_MAX_BYTES} bytes")
    return content


def _split(argument: str) -> tuple[str, float | None]:
    file, separator, time = argument.rpartition("@")
    # A file name may hold '@' itself; the name of a file that exists is never taken apart.
    if not separator or not file or Path(argument).exists():
        return argument, None
    try:
        return file, parse_time(time)
    except ValueError as error:
        if not Path(file).exists() and file != STDIN:
            raise ConfigError(f"--page {argument}: no such file") from None
        raise ConfigError(f"--page {argument}: what follows '@' {error}") from None


def _fill_times(given: Sequence[float | None], interval: float, now: float) -> list[float]:
    known = next((i for i, at in enumerate(given) if at is not None), None)
    if known is None:
        return [now - interval * (len(given) - 1 - i) for i in range(len(given))]
    at = (given[known] or 0.0) - interval * (known + 1)
    times = []
    for own in given:
        at = at + interval if own is None else own
        times.append(at)
    return times
