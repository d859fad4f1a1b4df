"""Reads the few series that matter out of a Prometheus or OpenMetrics text page, fast.

A page has 56–70 KB and 450 or more series of which about 20 are needed. A full parse takes
9.6 ms (prometheus_client), a regular expression that begins with a literal prefix 0.06 ms;
so a page is searched for the wanted names only, and label texts, which do not change from
scrape to scrape, are parsed once and remembered. The reference parser checks this one in a
property test.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

from monitor.model import PageError

_LABEL = rb'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*"(?:[^"\\\n]|\\.)*"\s*'
_LABEL_BLOCK = re.compile(rb"\{(?:" + _LABEL + rb",)*(?:" + _LABEL + rb")?\}")
_ONE_LABEL = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\\n]|\\.)*)"')
_STRICT_LINE = re.compile(
    rb"[a-zA-Z_:][a-zA-Z0-9_:]*[ \t]*(" + _LABEL_BLOCK.pattern + rb")?[ \t]+(\S+)"
    rb"(?:[ \t]+-?[0-9.]+)?[ \t]*(?:# \{.*)?$"
)
_ESCAPE = re.compile(r'\\([\\"n])')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONGEST_LABEL_TEXT = 16_384
"""A longer label text is not remembered, so that a hostile page cannot fill the memory."""


class Series(NamedTuple):
    """One wanted line of a page."""

    name: bytes
    labels: bytes
    """The text between and with the braces, or empty."""
    value: float


class Scan(NamedTuple):
    """The wanted series of a page and what was wrong with it."""

    series: list[Series]
    damaged: frozenset[bytes]
    """Names of which a line could not be used; their sums are not to be trusted."""
    notes: tuple[str, ...]


def normalise(body: bytes) -> bytes:
    """Brings a page to the form that the scan expects.

    Line ends become ``\\n``, a byte order mark goes, and a line end is put in front so that
    each series follows one. Raises ``PageError`` for what is no metrics page at all, or is
    one that was cut short: a half number must never be taken for a counter that fell.
    """
    if body.startswith(_BYTE_ORDER_MARK):
        body = body[len(_BYTE_ORDER_MARK) :]
    if b"\r" in body:
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not body.strip():
        raise PageError("the page is empty")
    start = body[:512].lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"{", b"[")) or b"\x00" in start:
        raise PageError("not a metrics page: it begins like HTML, XML, JSON or binary data")
    if not body.endswith(b"\n"):
        body = _closed(body)
    return b"\n" + body


def _closed(body: bytes) -> bytes:
    """Accepts a missing last line end only where nothing can have been cut off.

    An OpenMetrics page says where it ends. An excerpt copied by hand has no comment lines
    and often no last line end either.
    """
    if body.endswith(b"# EOF") or not (body.startswith(b"#") or b"\n#" in body):
        return body + b"\n"
    raise PageError("the page is cut short: its last line does not end")


def pattern(prefix: bytes, names: list[str]) -> re.Pattern[bytes]:
    """The search for ``names`` (without the prefix) after the literal start ``\\n`` + prefix.

    ``prefix`` may continue in ``[:_]``, because some releases and routers write one for the
    other.
    """
    alternatives = b"|".join(re.escape(name).encode() for name in sorted(names, reverse=True))
    return re.compile(
        rb"\n" + prefix + rb"(" + alternatives + rb")[ \t]*(\{[^\n]*\})?[ \t]+([^ \t\n]+)([^\n]*)"
    )


def scan(page: bytes, wanted: re.Pattern[bytes]) -> Scan:
    """Finds the series that ``wanted`` names in a normalised page."""
    found: list[Series] = []
    seen: set[tuple[bytes, bytes]] = set()
    damaged: set[bytes] = set()
    notes: list[str] = []
    for name, labels, text, rest in wanted.findall(page):
        if rest and b"}" in labels[:-1] and b"#" in labels:
            # An exemplar after the value has braces too, which the quick search ran into.
            labels, text = _strict(name + labels + b" " + text + rest)  # noqa: PLW2901
        value = _number(text)
        if value is None or not (labels == b"" or _is_label_block(labels)):
            damaged.add(name)
            notes.append(f"{_show(name)}: a value or label that cannot be read was skipped")
        elif (name, labels) in seen:
            damaged.add(name)
            notes.append(f"{_show(name)}: the same series stands twice on the page; not used")
        else:
            seen.add((name, labels))
            found.append(Series(name, labels, value))
    damaged.update(_broken_lines(page, notes))
    return Scan(found, frozenset(damaged), tuple(dict.fromkeys(notes)))


def _strict(line: bytes) -> tuple[bytes, bytes]:
    """Label text and value text of one line by the full grammar, or two empty ones."""
    match = _STRICT_LINE.match(line)
    return (match[1] or b"", match[2]) if match else (b"", b"")


def _number(text: bytes) -> float | None:
    """A finite number; NaN and infinity are what an exporter says when it knows nothing."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _broken_lines(page: bytes, notes: list[str]) -> Iterator[bytes]:
    """Names of the lines that are not exposition format, and a note if there are any.

    Looking at every line is slow and almost never needed: where as many braces open as
    close before a value, no label block is torn.
    """
    if page.count(b"{") == page.count(b"} "):
        return
    broken = 0
    for line in page.split(b"\n"):
        if line and not line.startswith(b"#") and not _STRICT_LINE.match(line):
            broken += 1
            name = re.match(rb"[a-zA-Z_:][a-zA-Z0-9_:]*", line)
            if name:
                yield re.split(rb"[:_]", name[0], maxsplit=1)[-1]
                yield name[0]
    if broken:
        lines = "1 malformed line was" if broken == 1 else f"{broken} malformed lines were"
        notes.append(f"{lines} skipped")


@lru_cache(maxsize=8192)
def _known_label_block(text: bytes) -> bool:
    return _LABEL_BLOCK.fullmatch(text) is not None


def _is_label_block(text: bytes) -> bool:
    if len(text) > _LONGEST_LABEL_TEXT:
        return _LABEL_BLOCK.fullmatch(text) is not None
    return _known_label_block(text)


def parse_labels(text: bytes) -> dict[str, str]:
    """Label names and values of a label text that ``scan`` found valid."""
    return {
        name.decode(): _ESCAPE.sub(_unescape, value.decode("utf-8", "replace"))
        for name, value in _ONE_LABEL.findall(text)
    }


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _show(name: bytes) -> str:
    return name.decode("utf-8", "replace")[:120]


def process_start(page: bytes) -> float | None:
    """``process_start_time_seconds``: when the process behind the page began."""
    at = page.find(b"\nprocess_start_time_seconds ")
    if at < 0:
        return None
    line = page[at + 1 : page.find(b"\n", at + 1)]
    return _number(line.split()[1])


def has_metrics(page: bytes) -> bool:
    """Whether any line is a metric: a name, perhaps labels, and a number."""
    for line in page.split(b"\n"):
        match = _STRICT_LINE.match(line)
        if match is None:
            continue
        with contextlib.suppress(ValueError):
            float(match[2])
            return True
    return False
