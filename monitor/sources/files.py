"""Opens files that somebody has kept, packed or not."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import zstandard

from monitor.model import ConfigError

STDIN = "-"
_BUFFER = 256 * 1024
UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError)
"""What reading of a damaged or vanished file may raise."""


def _zstd(file: io.BufferedReader) -> io.BufferedIOBase:
    packed = zstandard.ZstdDecompressor().stream_reader(
        file, read_across_frames=True, closefd=False
    )
    return io.BufferedReader(packed, _BUFFER)


_PACKERS: tuple[tuple[bytes, Callable[[io.BufferedReader], io.BufferedIOBase]], ...] = (
    (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    (b"\x28\xb5\x2f\xfd", _zstd),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ", lzma.LZMAFile),
)
"""How files of each kind begin: names lie, and pipes have none."""


def unpacked(file: io.BufferedReader) -> io.BufferedIOBase:
    """The content of a file, unpacked as it is read, whatever it was packed with."""
    begins = file.peek(8)
    return next((opens for magic, opens in _PACKERS if begins.startswith(magic)), _plain)(file)


def _plain(file: io.BufferedReader) -> io.BufferedIOBase:
    return file


@contextmanager
def opened(name: str) -> Iterator[io.BufferedIOBase]:
    """The content of a file, or of standard input, unpacked as it is read.

    Raises:
        ConfigError: it cannot be opened, or not be read to its end.
    """
    try:
        with _raw(name) as raw:
            yield unpacked(io.BufferedReader(raw, _BUFFER))
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
