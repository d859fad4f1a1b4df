"""Reads the few series that matter out of a Prometheus or OpenMetrics text page, fast.

A page has 56–82 KB and 450 or more series of which about 20 are needed. A full parse takes
10 ms (prometheus_client), a regular expression that begins with a literal prefix 0.05 ms; so a
page is searched for the wanted names only. Everything that takes longer is done when the
lines found are not those of the page before (see ``layout``). The reference parser checks
this one in a property test.

No expression here backtracks over more than one brace at a time (possessive quantifiers), so
that a hostile line of megabytes costs no more than its length.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from math import isfinite
from typing import NamedTuple

from monitor.model import PageError

LARGEST = 1e18
"""Counters above this have lost their units to rounding; nothing real is so large."""
LONGEST_LABELS = 16_384
"""A longer label text is not read: a page must not fill the memory with its labels."""
MOST_LINES = 50_000
"""A page with more wanted lines than this is not read."""
LARGEST_LOOK = 1 << 20
"""Pages up to this size are also looked through for malformed lines among the unwanted ones."""
_LARGE_PAGE = 1 << 22

_LABEL = (
    rb'[ \t]*+[a-zA-Z_][a-zA-Z0-9_]*+[ \t]*+=[ \t]*+"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"[ \t]*+'
)
_LABEL_BLOCK = re.compile(rb"\{(?:" + _LABEL + rb",)*+(?:" + _LABEL + rb")?+[ \t]*+\}")
_ONE_LABEL = re.compile(
    rb'([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"([^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+)"'
)
_LINE = re.compile(
    rb"[a-zA-Z_:][a-zA-Z0-9_:]*+(?:[ \t]*+(" + _LABEL_BLOCK.pattern + rb")[ \t]*+|[ \t]++)"
    rb"([^ \t\n{}]++)(?:[ \t]++[-+0-9.eE]++)?+(?:[ \t]++# \{[^\n]*+)?+[ \t]*+$"
)
_MALFORMED = re.compile(rb"\n(?!#|\n|" + _LINE.pattern[:-1] + rb"(?:\n|\Z))(?P<line>[^\n]++)")
_ESCAPE = re.compile(r'\\([\\"n])')
_INDENTED = re.compile(rb"\n[ \t]++")
_ANY_METRIC = re.compile(
    rb"\n[a-zA-Z_:][a-zA-Z0-9_:]*+(?:\{[^\n]*\}[ \t]*+|[ \t]++)"
    rb"(?:[-+]?+[0-9][-+0-9.eE]*+|NaN|[-+]?+Inf)(?=[ \t\n])"
)
_PROCESS_START = re.compile(rb"\nprocess_start_time_seconds[ \t]++([^ \t\n]++)[ \t]*+\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_IS_JSON = re.compile(rb'\{\s*+(?:"(?:[^"\\]|\\.)*+"\s*+:|\}|$)')
"""A brace may also begin a series whose name is quoted: ``{"a.name"} 1``."""
_NO_PAGE = (b"<!doctype", b"<html", b"<?xml", b"[")


class Lines(NamedTuple):
    """The wanted lines of a page, taken apart but not yet checked."""

    names: tuple[bytes, ...]
    labels: tuple[bytes, ...]
    """The texts between and with the braces, or empty."""
    values: tuple[bytes, ...]
    rests: tuple[bytes, ...]
    """What follows the values: nothing, a timestamp, an exemplar."""


class Checked(NamedTuple):
    """The usable lines of a page, and what was wrong with the others."""

    names: tuple[bytes, ...]
    labels: tuple[bytes, ...]
    values: tuple[float, ...]
    damaged: frozenset[bytes]
    """Names of which a line could not be used; no sum over them is to be trusted."""
    notes: tuple[str, ...]


def normalise(body: bytes) -> bytes:
    """Brings a page to the form that ``find`` expects: each line follows a line end.

    Raises ``PageError`` for what is no metrics page at all, or is one that was cut short: a
    half number must never be taken for a counter that fell.
    """
    if body.startswith(_BYTE_ORDER_MARK):
        body = body[len(_BYTE_ORDER_MARK) :]
    if not body or body.isspace():
        raise PageError("the page is empty")
    start = body[:512]
    if b"\r" in start:
        body = _with_plain_line_ends(body)
    start = start.lstrip().lower()
    if start.startswith(_NO_PAGE) or b"\x00" in start or _IS_JSON.match(start):
        raise PageError("not a metrics page: it begins like HTML, XML, JSON or binary data")
    if not body.endswith(b"\n"):
        body = _closed(body)
    return b"\n" + body


def tidy(page: bytes) -> bytes:
    """Removes what only odd pages have: foreign line ends further down, indented lines."""
    if b"\r" in page:
        page = _with_plain_line_ends(page)
    if b"\n " in page or b"\n\t" in page:
        page = _INDENTED.sub(b"\n", page)
    return page


def _with_plain_line_ends(body: bytes) -> bytes:
    return body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _closed(body: bytes) -> bytes:
    """Accepts a missing last line end only where nothing can have been cut off.

    An OpenMetrics page says where it ends. An excerpt copied by hand has no comment lines
    and often no last line end either.
    """
    if body.endswith(b"\n# EOF") or not (body.startswith(b"#") or b"\n#" in body):
        return body + b"\n"
    raise PageError("the page is cut short: its last line does not end")


def pattern(prefix: bytes, names: Iterable[str]) -> re.Pattern[bytes]:
    """The search for whole lines of ``names`` (without the prefix)."""
    return re.compile(
        rb"\n" + prefix + rb"(" + _any_of(names) + rb")"
        rb"(?:[ \t]*+(\{[^\n]*\})[ \t]*+|[ \t]++)([^ \t\n]++)([^\n]*+)"
    )


def beginnings(prefix: bytes, names: Iterable[str]) -> re.Pattern[bytes]:
    """The search for lines that begin with ``names``, whatever follows."""
    return re.compile(rb"\n" + prefix + rb"(" + _any_of(names) + rb")(?![a-zA-Z0-9_:])")


def _any_of(names: Iterable[str]) -> bytes:
    """An expression for ``names`` that decides letter by letter, which saves a fifth."""
    by_letter: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        by_letter.setdefault(name[:1], []).append(name[1:])
    ends = by_letter.pop("", None) is not None
    if not by_letter:
        return b""
    branches = [re.escape(first).encode() + _any_of(rest) for first, rest in by_letter.items()]
    if len(branches) == 1 and not ends:
        return branches[0]
    return b"(?:" + b"|".join(branches) + b")" + (b"?" if ends else b"")


def find(page: bytes, wanted: re.Pattern[bytes]) -> Lines:
    """The lines that ``wanted`` names in a normalised page.

    Raises ``PageError`` where there are more than any server shows.
    """
    if len(page) > _LARGE_PAGE:
        some = islice(wanted.finditer(page), MOST_LINES + 1)
        found = [match.groups(b"") for match in some]
    else:
        found = wanted.findall(page)
    if not found:
        return Lines((), (), (), ())
    if len(found) > MOST_LINES:
        raise PageError(f"the page shows more than {MOST_LINES} lines of what is read")
    return Lines(*zip(*found, strict=True))


def numbers(texts: Iterable[bytes]) -> tuple[float, ...] | None:
    """The values of a page without any oddity among them, else None.

    A counter that is negative, infinite or NaN says that the exporter knows nothing.
    """
    try:
        values = tuple(map(float, texts))
    except ValueError:
        return None
    # A sum that is NaN is not below anything.
    usable = not values or (sum(values) < LARGEST and min(values) >= 0.0)
    return values if usable else None


def check(lines: Lines) -> Checked:
    """Looks at each wanted line by the full grammar."""
    good: list[tuple[bytes, bytes, float]] = []
    damaged: set[bytes] = set()
    for name, labels, text, rest in zip(*lines, strict=True):
        if rest or not _is_label_block(labels):
            # An exemplar after the value has braces too, which the quick search ran into.
            line = _LINE.match(name + labels + b" " + text + rest)
            labels, text = (line[1] or b"", line[2]) if line else (b"", b"")  # noqa: PLW2901
        value = _number(text)
        if value is None or len(labels) > LONGEST_LABELS:
            damaged.add(name)
        else:
            good.append((name, labels, value))
    names, blocks, values = zip(*good, strict=True) if good else ((), (), ())
    notes = (f"{name.decode()}: a value or label that cannot be read" for name in sorted(damaged))
    return Checked(names, blocks, values, frozenset(damaged), tuple(notes))


def _is_label_block(text: bytes) -> bool:
    return not text or _LABEL_BLOCK.fullmatch(text) is not None


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    usable = isfinite(value) and 0.0 <= value < LARGEST and b"_" not in text
    return value if usable else None


def torn(page: bytes, begun: re.Pattern[bytes], lines: Lines) -> frozenset[bytes]:
    """Names of wanted lines that begin well and then are no lines."""
    missing = Counter(begun.findall(page))
    missing.subtract(lines.names)
    return frozenset(name for name, number in missing.items() if number > 0)


def malformed(page: bytes) -> list[bytes]:
    """The lines that are not exposition format."""
    if len(page) > LARGEST_LOOK:
        return []
    return [match["line"] for match in _MALFORMED.finditer(page)]


def parse_labels(text: bytes) -> dict[str, str]:
    """Label names and values of a label text that ``check`` found valid."""
    return {
        name.decode(): _ESCAPE.sub(_unescape, value.decode("utf-8", "replace"))
        for name, value in _ONE_LABEL.findall(text)
    }


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def process_start(page: bytes) -> float | None:
    """``process_start_time_seconds``: when the process behind the page began."""
    match = _PROCESS_START.search(page)
    return _number(match[1]) if match else None


def has_metrics(page: bytes) -> bool:
    """Whether any line is a metric: a name, perhaps labels, and a number."""
    return _ANY_METRIC.search(page) is not None
