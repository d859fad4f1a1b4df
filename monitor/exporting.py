"""Writes rows as CSV or JSON lines, packed by what the name of the file ends in."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import zstandard

from monitor.model import ConfigError

STDOUT = "-"
_PACKED = (".gz", ".zst")
_BUFFER = 256 * 1024


class Format(StrEnum):
    """How rows are written."""

    CSV = "csv"
    JSONL = "jsonl"


def format_of(name: str) -> Format | None:
    """The format that a file name tells, packed or not; None where it tells none."""
    path = Path(name)
    ending = Path(path.stem).suffix if path.suffix in _PACKED else path.suffix
    return next((one for one in Format if ending == f".{one}"), None)


def write_rows(
    name: str, form: Format, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> int:
    """Writes all rows to a file or to standard output, and returns how many there were.

    The file appears under its name when it is complete.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        with _opened(name) as file:
            return _WRITERS[form](file, columns, rows)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ConfigError(f"{name}: cannot be written: {os.strerror(error.errno or 0)}") from None


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(name)
    partial = path.with_name(path.name + ".part")
    try:
        with ExitStack() as stack:
            raw = stack.enter_context(partial.open("wb", buffering=_BUFFER))
            yield stack.enter_context(_packing(raw, path.suffix))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _packing(raw: BinaryIO, ending: str) -> Iterator[BinaryIO]:
    if ending == ".gz":
        with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed:
            yield packed  # type: ignore[misc]
    elif ending == ".zst":
        with zstandard.ZstdCompressor().stream_writer(raw, closefd=False) as packed:
            yield packed
    else:
        yield raw


def _write_jsonl(file: BinaryIO, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    number = 0
    for row in rows:
        file.write(orjson.dumps(dict(zip(columns, row, strict=True))) + b"\n")
        number += 1
    return number


def _write_csv(file: BinaryIO, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=False)
    try:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        number = 0
        for row in rows:
            writer.writerow([_cell(value) for value in row])
            number += 1
        return number
    finally:
        # The file goes on to be used, and is closed, by whoever has opened it.
        text.flush()
        text.detach()


def _cell(value: Any) -> Any:
    if isinstance(value, list | dict):
        return orjson.dumps(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


_WRITERS: dict[Format, Callable[[BinaryIO, Sequence[str], Iterable[Sequence[Any]]], int]] = {
    Format.CSV: _write_csv,
    Format.JSONL: _write_jsonl,
}
