"""Assessments as text for people, in 80 columns, coloured where the terminal is.

Works on the documents of the contract, so that answers from the database look the same as
fresh ones. Whatever a page may have had a hand in goes through ``clean``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from monitor.cli.output import as_ascii, clean, is_plain_terminal, print_text
from monitor.report import format_estimate

Document = Mapping[str, Any]

_STYLES = {
    "healthy": "bold green",
    "neutral": "bold cyan",
    "degraded": "bold yellow",
    "unproven": "bold blue",
    "harmful": "bold red",
    "stalled": "bold red",
    "misreported": "bold magenta",
    "down": "bold red",
}
_PER_DRAFT = "tokens per draft"
_BAR = 30
_NAME = 60
_WIDTH = 100


def print_assessments(documents: Sequence[Document], *, verbose: bool = False) -> None:
    """One block of lines for each target."""
    print_rich(*(_block(document, verbose=verbose) for document in documents))


def print_rich(*parts: RenderableType) -> None:
    """Prints what rich can draw; nothing is written before all of it is drawn."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    console.width = min(console.width, _WIDTH)
    with console.capture() as capture:
        console.print(*parts, sep="\n")
    # Cells are filled up with spaces, which are of no use at the end of a line.
    print_text("\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n")))


def text(value: object, style: str = "", limit: int = 1000) -> Text:
    """Text that is shown as it is, never read as markup."""
    shown = clean(str(value), limit)
    return Text(as_ascii(shown) if is_plain_terminal() else shown, style=style)


def verdict_text(verdict: object) -> Text:
    """The verdict's word in its colour."""
    word = str(verdict or "unknown")
    return text(word.upper().replace("_", " "), _STYLES.get(word, "bold"))


def format_moment(at: str) -> str:
    """A time of a document, to the second: ``2026-11-29 14:31:24Z``."""
    return f"{at[:19].replace('T', ' ')}Z"


def named_rows(rows: Iterable[tuple[str, str]], indent: int = 0) -> Table:
    """Two columns without lines: a dim name and what is to be said of it."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(text(" " * indent + name), text(value))
    return table


def cause_and_action(document: Document) -> list[tuple[str, str]]:
    """The rows that name a cause and what to do, where there is such."""
    return [
        (name, str(document[key]).replace("_", " "))
        for name, key in (("cause", "cause"), ("do", "action"))
        if document.get(key) not in (None, "none")
    ]


def headed_table(*titles: str | Text, left: int | None = None) -> Table:
    """A table without lines; with ``left`` its columns from that one on are figures."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, title in enumerate(titles):
        is_figure = left is not None and index >= left
        heading = text(title) if isinstance(title, str) else title
        table.add_column(heading, justify="right" if is_figure else "left")
    return table


def bar(share: float, width: int) -> Text:
    """A bar that is filled up to a share between 0 and 1."""
    full, rest = ("#", ".") if is_plain_terminal() else ("█", "░")
    filled = round(width * min(max(share, 0.0), 1.0))
    return Text(full * filled, style="green").append(rest * (width - filled), style="dim")


def _block(document: Document, *, verbose: bool) -> RenderableType:
    parts: list[RenderableType] = [_headline(document), text(document.get("sentence") or "")]
    rows = [*_figures(document), *_surroundings(document)]
    if verbose:
        rows += _details(document)
    parts += [Text(), named_rows(rows)]
    for title, table in (
        ("accepted by draft position", _positions(document)),
        ("engines", _engines(document)),
        ("notes", _notes(document)),
    ):
        if table is not None:
            parts += [Text(), text(title, "bold"), Padding(table, (0, 0, 0, 2))]
    return Group(*parts, Text())


def _headline(document: Document) -> Text:
    line = Text().append_text(verdict_text(document.get("verdict")))
    line.append_text(text(f"  {clean(str(document.get('target')), _NAME)}", "bold"))
    about = [document.get("engine"), document.get("engine_version"), document.get("model")]
    known = [clean(str(part), _NAME) for part in about if part]
    return line.append_text(text(f"  {', '.join(known)}", "dim")) if known else line


def _figures(document: Document) -> list[tuple[str, str]]:
    rate, length = document.get("acceptance_rate"), document.get("acceptance_length")
    rows = []
    # Without a window nothing was measured, which the sentence says already.
    if document.get("window"):
        rows = [
            ("acceptance rate", format_estimate(rate, "{:.1f}", " %", scale=100)),
            (
                "acceptance length",
                format_estimate(length, "{:.2f}", f" {_PER_DRAFT}, bonus token included"),
            ),
            ("speedup", format_estimate(document.get("speedup"), "{:.2f}", " times")),
        ]
    even = document.get("break_even")
    if even:
        needed = f"pays from {even['acceptance_length']:.2f} {_PER_DRAFT}"
        share = even.get("acceptance_rate")
        rows.append(("break-even", f"{needed}, {_percent(share)} accepted" if share else needed))
    what_if = document.get("what_if")
    if what_if and what_if.get("note"):
        rows.append(("what if", str(what_if["note"])))
    return rows + cause_and_action(document)


def _surroundings(document: Document) -> list[tuple[str, str]]:
    rows = []
    if load := _load(document.get("load") or {}):
        rows.append(("load", load))
    window = document.get("window")
    if window:
        rows.append(("window", _window(window)))
    baseline = document.get("baseline")
    if baseline:
        low, high = baseline["running_range"]
        fits = "" if baseline["matches"] else "; measured on another kind of server"
        name = clean(str(baseline["name"]), _NAME)
        rows.append(("baseline", f"{name}, {low:g} to {high:g} running requests{fits}"))
    return rows


def _load(load: Document) -> str:
    shown = (
        ("running", "{:.1f} running"),
        ("waiting", "{:.1f} waiting"),
        ("tpot", "{:.4g} ms per token"),
        ("step", "{:.4g} ms per step"),
        ("tokens_per_step", "{:.2f} tokens per step"),
    )
    parts = []
    for key, form in shown:
        value = load.get(key)
        if value is not None:
            parts.append(form.format(value * 1000 if key in ("tpot", "step") else value))
    return ", ".join(parts)


def _window(window: Document) -> str:
    if window.get("lifetime"):
        span = "since the server started"
    else:
        span = f"{window['seconds']:.0f} s up to {format_moment(window['end'])}"
    figures = [
        f"{window[key]:,.0f} {key.replace('_', ' ')}"
        for key in ("drafts", "accepted_tokens")
        if window.get(key) is not None
    ]
    return "; ".join([span, *figures])


def _details(document: Document) -> list[tuple[str, str]]:
    window = document.get("window") or {}
    names = ("draft_tokens", "output_tokens", "requests", "effective_k", "resets")
    rows = [
        (
            name.replace("_", " "),
            f"{window[name]:,.4g}" if name == "effective_k" else f"{window[name]:,.0f}",
        )
        for name in names
        if window.get(name) is not None
    ]
    if document.get("evidence"):
        rows.append(("evidence", str(document["evidence"])))
    return rows


def _positions(document: Document) -> Table | None:
    positions = document.get("positions") or []
    if not positions:
        return None
    table = Table.grid(padding=(0, 2))
    for entry in positions:
        # At the first position the two rates are the same.
        conditional = entry.get("conditional") if entry["position"] else None
        after = f"{_percent(conditional)} once the one before was" if conditional else ""
        filled = bar(entry["rate"], _BAR)
        table.add_row(str(entry["position"]), filled, _percent(entry["rate"]), text(after, "dim"))
    return table


def _engines(document: Document) -> Table | None:
    engines = document.get("engines") or []
    if len(engines) < 2:  # noqa: PLR2004 - one engine is the target itself
        return None
    table = Table.grid(padding=(0, 2))
    for engine in engines:
        length = format_estimate(engine.get("acceptance_length"), "{:.2f}", f" {_PER_DRAFT}")
        name = text(engine.get("label") or "-", limit=_NAME)
        table.add_row(name, verdict_text(engine.get("verdict")), text(length))
    return table


def _notes(document: Document) -> Table | None:
    notes = document.get("notes") or []
    if not notes:
        return None
    table = Table.grid(padding=(0, 1))
    for note in notes:
        table.add_row("-", text(note))
    return table


def _percent(value: float) -> str:
    return f"{value * 100:.1f} %"
