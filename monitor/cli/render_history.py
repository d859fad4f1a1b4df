"""The table of ``monitor history``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monitor.cli.render import format_moment, headed_table, print_rich, text, verdict_text

_COLUMNS = (
    ("drafts", "drafts", "{:.0f}"),
    ("rate", "acceptance_rate", "{:.3f}"),
    ("length", "acceptance_length", "{:.2f}"),
    ("speedup", "speedup", "{:.2f}"),
    ("running", "running", "{:.1f}"),
    ("ms/token", "tpot", "{:.1f}"),
)


def print_history(rows: Sequence[Mapping[str, Any]]) -> None:
    """One line for each step."""
    if not rows:
        print_rich(text("nothing is known of this time"))
        return
    table = headed_table("at", "verdict", *(title for title, _, _ in _COLUMNS), left=2)
    # One space between the columns, so that a row fits on a line of 80 characters.
    table.padding = (0, 1, 0, 0)
    for row in rows:
        figures = [_figure(row[key], form, key) for _, key, form in _COLUMNS]
        table.add_row(format_moment(row["at"]), verdict_text(row["verdict"]), *figures)
    print_rich(table)


def _figure(value: float | None, form: str, key: str) -> str:
    if value is None:
        return "-"
    return form.format(value * 1000 if key == "tpot" else value)
