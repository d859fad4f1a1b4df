"""Reads one HTTP/1.1 answer from a stream: as much of the protocol as a scrape needs.

``http.client`` would do, but it parses the header as an e-mail message, which takes more CPU
than all the rest of a scrape together.

Failures are built-in exceptions, so that they join those of the socket: ``EOFError`` for an
answer cut short, ``ConnectionAbortedError`` for none at all, ``ValueError`` for what is not
HTTP, and ``FetchError`` for one that is too large.
"""

from __future__ import annotations

import io
import re
import zlib
from http import HTTPStatus
from typing import NamedTuple

from monitor.sources.errors import FetchError, FetchKind

_MAX_LINE = 16 * 1024
_MAX_LINES = 200
_GZIP = 16 + zlib.MAX_WBITS
_STATUS_LINE = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: .*)?\r?\n", re.DOTALL)
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\r?\n", re.DOTALL)
_BODILESS = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    location: str
    body: bytes
    """Unpacked, if it came packed."""
    closes: bool
    """Whether the connection cannot be used again."""


class _Head(NamedTuple):
    status: int
    minor: int
    """1 for HTTP/1.1."""
    fields: dict[bytes, bytes]

    @property
    def closes(self) -> bool:
        connection = self.fields.get(b"connection", b"").lower()
        if self.minor == 0:
            return b"keep-alive" not in connection
        return b"close" in connection


def read_answer(stream: io.BufferedReader, limit: int) -> Answer:
    """Reads an answer whose body, packed or not, has at most ``limit`` bytes."""
    head = _read_head(stream)
    while head.status < HTTPStatus.OK:
        if head.status == HTTPStatus.SWITCHING_PROTOCOLS:
            raise ValueError("the server switches protocols")
        head = _read_head(stream)
    body, delimited = _read_body(stream, head, limit)
    location = head.fields.get(b"location", b"").decode("latin-1")
    return Answer(head.status, location, _unpack(body, head, limit), head.closes or not delimited)


def _read_head(stream: io.BufferedReader) -> _Head:
    line = _read_line(stream)
    if not line:
        raise ConnectionAbortedError
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise ValueError("no status line")
    return _Head(int(match[2]), int(match[1]), _read_fields(stream))


def _read_fields(stream: io.BufferedReader) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for _ in range(_MAX_LINES):
        line = _read_line(stream)
        if line in {b"\r\n", b"\n"}:
            return fields
        if not line:
            raise EOFError
        name, colon, value = line.partition(b":")
        if not colon:
            raise ValueError("a header line without a colon")
        fields[name.lower()] = value.strip()
    raise ValueError("too many header lines")


def _read_line(stream: io.BufferedReader) -> bytes:
    line = stream.readline(_MAX_LINE)
    if line and not line.endswith(b"\n"):
        if len(line) < _MAX_LINE:
            raise EOFError
        raise ValueError("a header line is too long")
    return line


def _read_body(stream: io.BufferedReader, head: _Head, limit: int) -> tuple[bytes, bool]:
    """The body as sent, and whether its end was told by more than the connection's end."""
    if head.status in _BODILESS:
        return b"", True
    coding = head.fields.get(b"transfer-encoding", b"").lower()
    if coding:
        if coding != b"chunked":
            raise ValueError("an unknown transfer encoding")
        return _read_chunks(stream, limit), True
    announced = head.fields.get(b"content-length")
    if announced is None:
        body = stream.read(limit + 1)
        _check_size(len(body), limit)
        return body, False
    if not announced.isdigit():
        raise ValueError("a content length that is no number")
    length = int(announced)
    _check_size(length, limit)
    return _read_exactly(stream, length), True


def _read_chunks(stream: io.BufferedReader, limit: int) -> bytes:
    chunks: list[bytes] = []
    total = 0
    while size := _read_chunk_size(stream):
        total += size
        _check_size(total, limit)
        chunks.append(_read_exactly(stream, size))
        if _read_line(stream) not in {b"\r\n", b"\n"}:
            raise ValueError("a chunk does not end where it should")
    # What may follow the last chunk is a header again; nobody sends anything of use there.
    _read_fields(stream)
    return b"".join(chunks)


def _read_chunk_size(stream: io.BufferedReader) -> int:
    line = _read_line(stream)
    if not line:
        raise EOFError
    match = _CHUNK_SIZE.fullmatch(line)
    if match is None:
        raise ValueError("no chunk size")
    return int(match[1], 16)


def _read_exactly(stream: io.BufferedReader, length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data


def _unpack(body: bytes, head: _Head, limit: int) -> bytes:
    """Unpacks gzip, never beyond the limit: a megabyte of it can hold a gigabyte."""
    coding = head.fields.get(b"content-encoding", b"").lower()
    if coding in {b"", b"identity"} or not body:
        return body
    if coding not in {b"gzip", b"x-gzip"}:
        raise ValueError("an unknown content encoding")
    unpacker = zlib.decompressobj(_GZIP)
    unpacked = unpacker.decompress(body, limit + 1)
    _check_size(len(unpacked), limit)
    if not unpacker.eof:
        raise EOFError
    return unpacked


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise FetchError(FetchKind.TOO_LARGE, f"the page is larger than {limit} bytes")
