"""A table of one's own: ``running,tpot[,seconds][,requests][,context]`` with a header.

``tpot`` is in seconds, ``tpot_ms`` in milliseconds; only one of them may be there.
"""

from __future__ import annotations

import csv
import io
import math

from monitor.baselines.runs import Imported, Run, RunError

CSV = "csv"
_KNOWN = ("running", "tpot", "tpot_ms", "seconds", "requests", "context")
_MOST_LINES = 10_000


def recognise(first_line: str) -> bool:
    """Whether this is the header of such a table."""
    names = [name.strip().lower() for name in first_line.split(",")]
    return "running" in names


def read(text: str) -> Imported:
    """All lines of the table."""
    rows = csv.reader(io.StringIO(text))
    header = _header(next(rows, []))
    runs: list[Run] = []
    for line, row in enumerate(rows, start=2):
        if not any(cell.strip() for cell in row):
            continue
        if len(runs) == _MOST_LINES:
            raise RunError(f"has more than {_MOST_LINES} lines")
        try:
            runs.append(_run(header, row))
        except RunError as error:
            raise RunError(f"line {line}: {error}") from None
    if not runs:
        raise RunError("has a header but no lines")
    return Imported(CSV, tuple(runs))


def _header(cells: list[str]) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    for name in names:
        if name not in _KNOWN:
            shown = name[:40] if name.isprintable() else "?"
            raise RunError(f"line 1: column {shown!r} is not one of {', '.join(_KNOWN)}")
    if len(set(names)) < len(names):
        raise RunError("line 1: a column is there twice")
    if "running" not in names or ("tpot" in names) == ("tpot_ms" in names):
        raise RunError("line 1: write running,tpot (seconds) or running,tpot_ms (milliseconds)")
    return names


def _run(header: list[str], row: list[str]) -> Run:
    if len(row) != len(header):
        raise RunError(f"{len(row)} cells under {len(header)} columns")
    cells = {
        name: _number(name, cell)
        for name, cell in zip(header, row, strict=True)
        if cell.strip() or name in ("running", "tpot", "tpot_ms")
    }
    tpot = cells["tpot"] if "tpot" in cells else cells["tpot_ms"] / 1000.0
    return Run(
        running=cells["running"],
        tpot=tpot,
        seconds=cells.get("seconds", 0.0),
        requests=cells.get("requests", 0.0),
        context=cells.get("context"),
    )


def _number(name: str, cell: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        raise RunError(f"{name}: {cell.strip()[:40]!r} is no number") from None
    if not math.isfinite(number) or number < 0.0:
        raise RunError(f"{name}: must be a number from 0 on")
    return number
