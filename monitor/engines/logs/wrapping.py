"""Takes a line out of what containers, collectors and terminals wrap around it.

Known are docker's json-file, ``docker compose logs``, ``kubectl logs`` with ``--timestamps`` and
``--prefix``, the CRI format of nodes, ``journalctl`` as text and as JSON, ``logcli`` as text and
as JSON lines, and the colours of terminals.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from monitor.engines.logs.window import LogLine

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_POD = re.compile(r"\[((?:pod|job)/[^\]\s]+)\] ")
_COMPOSE = re.compile(r"([\w.-]{1,128})\s+\| ")
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)\s+"
)
_CRI = re.compile(r"(?:stdout|stderr) [FP] ")
_LABELS = re.compile(r"(\{[^}]*\})\s+")
_JOURNAL = re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ ([\w.@/-]+)(?:\[\d+\])?: ")
_TEXTS = ("log", "line", "MESSAGE", "message", "msg", "text")
_TIMES = ("time", "timestamp", "ts", "@timestamp", "__REALTIME_TIMESTAMP", "tsNs")
_SOURCES = ("container_name", "pod", "_SYSTEMD_UNIT", "CONTAINER_NAME")
_FRACTION = 9
_EPOCH_UNITS = (1e17, 1e9), (1e14, 1e6), (1e11, 1e3), (0.0, 1.0)
"""From this size on a number counts in parts of a second: nano, micro, milli, whole."""


def unwrap(line: str) -> LogLine:
    """The line itself, and what its wrapping told about time and place."""
    line = _COLOUR.sub("", line.rstrip("\r\n"))
    if line.startswith("{"):
        found = _from_json(line)
        if found is not None:
            return found
    return _from_text(line)


def _from_json(line: str) -> LogLine | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    text = next((record[key] for key in _TEXTS if isinstance(record.get(key), str)), None)
    if text is None:
        return None
    at = next((_time(record[key]) for key in _TIMES if key in record), None)
    inner = _from_text(_COLOUR.sub("", text.rstrip("\r\n")))
    return LogLine(inner.text, inner.at if at is None else at, _source(record) or inner.source)


def _source(record: Mapping[str, Any]) -> str:
    labels = record.get("labels")
    places = [record, labels] if isinstance(labels, dict) else [record]
    found = (place[key] for place in places for key in _SOURCES if key in place)
    return str(next(found, ""))


def _from_text(line: str) -> LogLine:
    """Takes off one wrapping after the other, from the left."""
    at, source = None, ""
    if match := _POD.match(line) or _COMPOSE.match(line) or _JOURNAL.match(line):
        source, line = match[1], line[match.end() :]
    if match := _RFC3339.match(line):
        at, line = _moment(*match.groups()), line[match.end() :]
        for wrapping in (_CRI, _LABELS):
            if inner := wrapping.match(line):
                source, line = source or (inner[1] if inner.re.groups else ""), line[inner.end() :]
    return LogLine(line, at, source)


def _time(value: object) -> float | None:
    """Seconds since the epoch from what a collector calls a time."""
    if isinstance(value, str):
        match = _RFC3339.match(value + " ")
        if match:
            return _moment(*match.groups())
    try:
        number = float(str(value))
    except ValueError:
        return None
    return next((number / unit for least, unit in _EPOCH_UNITS if number >= least), None)


def _moment(day: str, fraction: str | None, zone: str) -> float | None:
    try:
        whole = datetime.fromisoformat(f"{day}{zone}").timestamp()
    except ValueError:
        return None
    return whole + (int(fraction.ljust(_FRACTION, "0")) / 1e9 if fraction else 0.0)
