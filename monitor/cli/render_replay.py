"""What ``monitor replay`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monitor.cli.output import print_text
from monitor.cli.plot import plot
from monitor.cli.render import headed_table, print_rich, text
from monitor.replay.outcome import Found, Move, sentences
from monitor.report import iso

Results = Mapping[str, Sequence[tuple[str, Found]]]
"""What was found, by service and variant."""
_HEADINGS = ("alerts", "over in 10 min", "rollbacks", "GPU-hours saved")


def document(results: Results, start: float, end: float, notes: Sequence[str]) -> dict[str, Any]:
    """Everything as plain values."""
    return {
        "schema": "monitor.replay/1",
        "start": iso(start),
        "end": iso(end),
        "services": [
            {"service": service, "variants": [_variant(name, found) for name, found in entries]}
            for service, entries in results.items()
        ],
        "notes": list(notes),
    }


def _variant(name: str, found: Found) -> dict[str, Any]:
    return {
        "variant": name,
        "looks": found.looks,
        "alerts": [
            {
                "rule": one.rule,
                "target": one.target,
                "severity": one.severity,
                "at": iso(one.at),
                "ended_at": _time(one.ended_at),
            }
            for one in found.fired
        ],
        "recovered_within_10_minutes": found.brief,
        "rollbacks": [_move(move) for move in found.moves],
        "gpu_hours_saved": found.gpu_hours,
    }


def _move(move: Move) -> dict[str, Any]:
    noticed = move.noticed_at
    return {
        "at": iso(move.at),
        "cure": move.cure,
        "sentence": move.sentence,
        "noticed_at": _time(noticed),
        "seconds_before_noticed": None if noticed is None else noticed - move.at,
        "loss_ended_at": _time(move.ended_at),
        "gpu_hours_saved": move.gpu_hours,
    }


def _time(at: float | None) -> str | None:
    return None if at is None else iso(at)


def print_results(
    results: Results, start: float, end: float, notes: Sequence[str], swept: str | None
) -> None:
    """One variant in sentences, several side by side, a sweep with a plot."""
    print_text(f"{iso(start)} to {iso(end)}")
    for service, entries in results.items():
        print_text(f"\n{service}: {entries[0][1].looks:,} looks")
        if len(entries) == 1:
            print_text("\n".join(f"  {line}" for line in sentences(entries[0][1])))
            continue
        _print_table(entries, swept or "")
        if swept is not None:
            points = [(float(name), float(len(found.fired))) for name, found in entries]
            print_text(plot(points, unit="alerts"))
        else:
            for name, found in entries:
                print_text("\n".join([f"{name}:", *(f"  {line}" for line in sentences(found))]))
    for note in notes:
        print_text(f"note: {note}")


def _print_table(entries: Sequence[tuple[str, Found]], title: str) -> None:
    table = headed_table(title, *_HEADINGS, left=1)
    for name, found in entries:
        hours = found.gpu_hours
        cells = (len(found.fired), found.brief, len(found.moves))
        shown = "-" if hours is None else f"{hours:.3g}"
        table.add_row(text(name), *(text(cell) for cell in cells), text(shown))
    print_rich(table)
