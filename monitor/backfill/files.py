"""Opens the files of the past, packed or not, within limits."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zstandard

from monitor.model import ConfigError

STDIN = "-"
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BUFFER = 256 * 1024
UNREADABLE = (OSError, EOFError, zlib.error, zstandard.ZstdError)
"""What reading of a damaged or vanished file may raise."""


@contextmanager
def opened(name: str) -> Iterator[io.BufferedIOBase]:
    """The content of a file, or of standard input, unpacked as it is read.

    What it is packed with is told by its first bytes.

    Raises:
        ConfigError: it cannot be opened, or not be read to its end.
    """
    try:
        with _raw(name) as raw:
            yield _unpacked(io.BufferedReader(raw, _BUFFER))
    except UNREADABLE as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else ""
        raise ConfigError(f"{name}: cannot be read: {reason or error or 'cut short'}") from None


@contextmanager
def _raw(name: str) -> Iterator[io.FileIO]:
    if name == STDIN:
        yield io.FileIO(sys.stdin.fileno(), closefd=False)
        return
    with io.FileIO(Path(name)) as file:
        yield file


def _unpacked(file: io.BufferedReader) -> io.BufferedIOBase:
    begins = file.peek(4)[:4]
    if begins.startswith(_GZIP):
        return gzip.GzipFile(fileobj=file)
    if begins == _ZSTD:
        packed = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return io.BufferedReader(packed, _BUFFER)
    return file
