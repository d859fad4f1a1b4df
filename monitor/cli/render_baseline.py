"""Baselines, load runs and comparisons as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from monitor.cli.output import clean
from monitor.cli.plot import plot
from monitor.cli.render import (
    format_moment,
    headed_table,
    named_rows,
    print_rich,
    text,
)
from monitor.cli.render_status import format_age
from monitor.report import format_estimate

Document = Mapping[str, Any]

_NAME = 40
_WORTH_SAYING = 0.01
"""Share of the decode time beyond the baseline that is told."""
_ANSWERS = {"pays": "green", "costs": "bold red", "neutral": "cyan", "undecided": "blue"}


def print_baselines(documents: Sequence[Document], now: float) -> None:
    """One line for each baseline."""
    if not documents:
        print_rich(
            text("no baseline is stored yet: 'monitor baseline record', 'import' or 'bench'")
        )
        return
    table = headed_table("id", "service", "name", "loads", "from", "age", "")
    for one in documents:
        low, high = one["running_range"]
        state = "active" if one["active"] else "deleted" if one["deleted_at"] else ""
        if not one["valid"]:
            state = f"{state} by force".strip()
        table.add_row(
            text(one["id"]),
            text(one["service"], limit=_NAME),
            text(f"{clean(one['name'], _NAME)}#{one['version']}", "bold" if one["active"] else ""),
            text(f"{low:.3g}-{high:.3g}"),
            text(one["provenance"]["how"]),
            text(format_age(one["created_at"], now)),
            text(state),
        )
    print_rich(table)


def print_baseline(one: Document, now: float) -> None:
    """One baseline with all that is behind it."""
    headline = text(one["label"], "bold", _NAME)
    headline.append_text(text(f"  {clean(one['service'], _NAME)}  id {one['id']}", "dim"))
    headline.append_text(text("  active" if one["active"] else "", "green"))
    parts: list[RenderableType] = [headline]
    if not one["valid"]:
        parts.append(text(f"stored by force: {one['reason']}", "yellow"))
    parts += [Text(), _points(one["points"]), Text()]
    curve = [(max(p["running"], 1.0), p["tpot"] * 1000.0) for p in one["points"]]
    parts += [
        Text(plot(curve, unit="ms/token")),
        Padding(text("running requests", "dim"), (0, 0, 1, 9)),
        named_rows(_origin(one, now), indent=2),
    ]
    print_rich(Group(*parts))


def print_stored(one: Document) -> None:
    """One line that says what was stored under which name."""
    low, high = one["running_range"]
    state = ", active" if one["active"] else ""
    print_rich(
        text(
            f"stored as {one['label']} (id {one['id']}) of service {one['service']}:"
            f" {len(one['points'])} loads from {low:.3g} to {high:.3g}{state}"
        )
    )
    if not one["active"]:
        print_rich(
            text(f"'monitor baseline activate {one['id']}' makes it the service's own", "dim")
        )


def print_levels(documents: Sequence[Document], *, against: str | None) -> None:
    """The levels of a load run, and a plot of them."""
    columns = ["running", "ms/token", "TTFT ms", "requests", "errors", "tokens/chunk"]
    table = headed_table(*columns, *(["baseline", "speedup"] if against else []), left=0)
    for one in documents:
        row = [
            f"{one['concurrency']}",
            f"{one['tpot'] * 1000.0:.2f}",
            f"{one['ttft'] * 1000.0:.0f}",
            f"{one['requests']}",
            f"{one['errors']}",
            f"{one['tokens_per_chunk']:.2f}",
        ]
        if against:
            row += [_ms(one["baseline_tpot"]), _figure(one["speedup"], "{:.2f}")]
        table.add_row(*(text(cell) for cell in row))
    shown = [(float(one["concurrency"]), one["tpot"] * 1000.0) for one in documents]
    parts: list[RenderableType] = [table, Text(), Text(plot(shown, unit="ms/token"))]
    if against:
        gains = [
            (float(one["concurrency"]), one["speedup"]) for one in documents if one["speedup"]
        ]
        parts += [Text(), text(f"speedup against {against}", "bold")]
        parts.append(
            Text(plot(gains, unit="times", mark=1.0)) if gains else text("no load in common")
        )
    print_rich(Group(*parts))


def print_curves(one: Document) -> None:
    """Two curves side by side."""
    table = headed_table(
        "running", f"{one['first']} ms", f"{one['second']} ms", "difference", left=0
    )
    for load in one["loads"]:
        table.add_row(
            text(f"{load['running']:.3g}"),
            text(_ms(load["first_tpot"])),
            text(_ms(load["second_tpot"])),
            text(f"{load['difference'] * 100.0:+.1f} %"),
        )
    print_rich(Group(table, *_notes(one["notes"])))


def print_comparison(one: Document) -> None:
    """Two spans side by side."""
    sides = one["first"], one["second"]
    table = headed_table("", *(text(side["name"], limit=_NAME) for side in sides), "difference")
    for name, cells in _comparison_rows(one):
        table.add_row(text(name, "dim"), *(text(cell) for cell in cells))
    parts: list[RenderableType] = [text(one["sentence"], "bold"), Text(), table]
    print_rich(Group(*parts, *_notes(one["notes"])))


def print_paying(one: Document) -> None:
    """Where and when speculation pays."""
    parts: list[RenderableType] = [text(one["sentence"], "bold")]
    band = one["dead_band"]
    if band["from"] is not None and band["to"] is not None:
        parts.append(
            text(
                f"between {band['from']:.3g} and {band['to']:.3g} running requests it makes less"
                f" than {band['half_width'] * 100.0:g} % of difference"
            )
        )
    if one["loads"]:
        loads = headed_table("running", "speedup", "limits", "", "accepted", "decoding", left=0)
        for entry in one["loads"]:
            accepted = _share(entry["acceptance_rate"])
            loads.add_row(*_paying_row(f"{entry['running']:.3g}", entry, accepted))
        curve = [(entry["running"], entry["speedup"]["value"]) for entry in one["loads"]]
        parts += [Text(), loads, Text(), Text(plot(curve, unit="times", mark=1.0))]
        hours = headed_table("hour UTC", "speedup", "limits", "", "running", "decoding", left=0)
        for entry in one["hours"]:
            running = _figure(entry["running"], "{:.1f}")
            hours.add_row(*_paying_row(f"{entry['hour']:02d}", entry, running))
        parts += [Padding(text("running requests", "dim"), (0, 0, 1, 9)), hours]
    if one["uncompared_share"] > _WORTH_SAYING:
        share = one["uncompared_share"] * 100.0
        parts.append(
            text(f"{share:.0f} % of the decode time was at loads that the baseline does not cover")
        )
    print_rich(Group(*parts, *_notes(one["notes"])))


def _paying_row(first: str, entry: Document, about: str) -> list[Text]:
    gain = entry["speedup"]
    limits = f"{gain['low']:.2f}-{gain['high']:.2f}" if gain["low"] is not None else "-"
    return [
        text(first),
        text(f"{gain['value']:.2f}"),
        text(limits),
        text(entry["answer"], _ANSWERS[entry["answer"]]),
        text(about),
        text(f"{entry['decode_seconds']:.0f} s"),
    ]


def _comparison_rows(one: Document) -> list[tuple[str, list[str]]]:
    sides, test = (one["first"], one["second"]), one["difference"]
    delta = _estimate(test["acceptance_rate"], "{:+.3f}") if test is not None else "-"
    rows = [
        ("acceptance rate", [*(_estimate(s["acceptance_rate"], "{:.3f}") for s in sides), delta]),
        ("acceptance length", [_estimate(s["acceptance_length"], "{:.2f}") for s in sides]),
        ("speedup", [_estimate(s["speedup"], "{:.2f}") for s in sides]),
        ("running", [_figure(s["running"], "{:.1f}") for s in sides]),
        ("ms/token", [_ms(s["tpot"]) for s in sides]),
        ("requests", [_figure(s["requests"], "{:.0f}") for s in sides]),
    ]
    for pair in one["positions"]:
        cells = [_figure(pair["first"], "{:.3f}"), _figure(pair["second"], "{:.3f}")]
        cells.append(_figure(pair["difference"], "{:+.3f}"))
        rows.append((f"position {pair['position']}", cells))
    return [(name, [*cells, *[""] * (3 - len(cells))]) for name, cells in rows]


def _points(points: Sequence[Document]) -> Table:
    table = headed_table(
        "running", "ms/token", "seconds", "requests", "spread", "prompt tokens", "cached", left=0
    )
    for point in points:
        table.add_row(
            text(f"{point['running']:.3g}"),
            text(_ms(point["tpot"])),
            text(_figure(point["seconds"] or None, "{:.0f}")),
            text(_figure(point["requests"] or None, "{:.0f}")),
            text(_share(point["spread"])),
            text(_figure(point["context"], "{:.0f}")),
            text(_share(point["prefix_hit_share"])),
        )
    return table


def _origin(one: Document, now: float) -> list[tuple[str, str]]:
    source = one["provenance"]
    rows = [
        ("from", f"{source['how']}, {source['tool']}, by {source['who'] or 'unknown'}"),
        (
            "stored",
            f"{format_moment(one['created_at'])}, {format_age(one['created_at'], now)} ago",
        ),
    ]
    if source["start"] and source["end"]:
        span = f"{format_moment(source['start'])} to {format_moment(source['end'])}"
        rows.append(("measured", span))
    rows += [
        (name.replace("_", " "), str(value)) for name, value in one["fingerprint"].items() if value
    ]
    rows += [("file", f"{file['name']}  sha256 {file['sha256']}") for file in source["files"]]
    rows += [(name.replace("_", " "), str(value)) for name, value in source["parameters"].items()]
    return rows + [("note", str(note)) for note in source["notes"]]


def _notes(notes: Sequence[str]) -> list[RenderableType]:
    return [Text(), *(text(f"- {note}", "yellow") for note in notes)] if notes else []


def _ms(seconds: float | None) -> str:
    return _figure(None if seconds is None else seconds * 1000.0, "{:.2f}")


def _share(value: float | None) -> str:
    return _figure(None if value is None else value * 100.0, "{:.0f} %")


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _estimate(value: Document | None, form: str) -> str:
    return format_estimate(value, form, unknown="-")
