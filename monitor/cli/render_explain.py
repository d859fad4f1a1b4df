"""Explanations and references as text for people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from monitor.cli.output import clean, is_plain_terminal
from monitor.cli.plot import plot_over_time
from monitor.cli.render import (
    bar,
    cause_and_action,
    format_moment,
    named_rows,
    print_rich,
    text,
    verdict_text,
)
from monitor.cli.render_status import format_age
from monitor.cli.times import parse_time
from monitor.report import format_estimate

Document = Mapping[str, Any]
Rows = list[tuple[str, str]]

_NAME = 60
_BAR = 40
_WORTH_A_PLOT = 0.1
"""Share of the alarm that evidence must have reached to be drawn."""
_EFFECTS = {
    "assumed": "assumed, until it is learnt",
    "learnt": "learnt from healthy history",
    "positions": "the least that the spread between positions allows",
}
_QUANTITIES = {
    "acceptance_rate": "acceptance rate",
    "step": "time of a step",
    "load": "running requests",
}


def print_explanation(document: Document, moment: float) -> None:
    """The whole explanation, the answer first."""
    parts: list[RenderableType] = [*_headline(document, moment), Text()]
    parts += _plots(document)
    for title, rows in (
        ("how the figures follow", _figures(document)),
        ("what is normal", _normal(document)),
        ("changes found in the past", _changes(document)),
    ):
        if rows:
            parts += [text(title, "bold"), named_rows(rows, indent=2), Text()]
    parts += [text("the rules in order", "bold"), _ladder(document["ladder"]), Text()]
    if document["outlook"]:
        said = [turn["sentence"] for turn in document["outlook"]]
        parts += [text("what would change it", "bold"), _list(said), Text()]
    if document["notes"]:
        parts += [text("notes", "bold"), _list(document["notes"]), Text()]
    print_rich(Group(*parts))


def print_reference(document: Document, now: float) -> None:
    """What is normal by hour of day, as bars, and what else was learnt."""
    headline = text(document["target"], "bold", _NAME)
    reference = document["reference"]
    if reference is None:
        print_rich(headline, text("nothing is learnt yet: no page told which server this is"))
        return
    parts: list[RenderableType] = [headline, named_rows(_learnt(document, now), indent=2), Text()]
    if any(hour["requests"] for hour in reference["hours"]):
        title = "accepted by hour of day, UTC, and the requests behind it"
        parts += [text(title, "bold"), _hours(reference), Text()]
    orders = [("order", _order(order, now)) for order in document["orders"]]
    if orders:
        parts.append(named_rows(orders, indent=2))
    print_rich(Group(*parts))


# -- the answer ----------------------------------------------------------------------------


def _headline(document: Document, moment: float) -> list[RenderableType]:
    verdict = document["verdict"]
    line = Text().append_text(verdict_text(verdict["verdict"] if verdict else None))
    line.append_text(text(f"  {clean(document['target'], _NAME)}", "bold"))
    if verdict and verdict["since"]:
        age = format_age(verdict["since"], moment)
        line.append_text(text(f"  for {age}, since {format_moment(verdict['since'])}", "dim"))
    again = document["judged_again"]
    # The stored sentence is that of the change; judged again, it has the figures of the moment.
    source = again if again and again["agrees"] else verdict or {}
    parts = [line, text(source.get("sentence") or "no verdict was stored yet")]
    explained = ("explained", f"as of {format_moment(document['at'])}")
    return [*parts, named_rows([*cause_and_action(source), explained], indent=2)]


def _plots(document: Document) -> list[RenderableType]:
    history = document["history"]
    if not history:
        return []
    span = parse_time(history[0]["start"]), parse_time(history[-1]["end"])
    marks = [100.0 * level for level in _levels(document)]
    alarm = document["detector"]["threshold"]
    drawn = [
        ("acceptance_rate", "accepted, and what it is judged against", "%", 100.0, marks),
        ("speedup", "speedup", "times", 1.0, [1.0]),
    ]
    if any(part["drop_evidence"] > _WORTH_A_PLOT * alarm for part in history):
        drawn.append(("drop_evidence", "evidence of a fall", "nats", 1.0, [alarm]))
    parts: list[RenderableType] = []
    for key, title, unit, scale, levels in drawn:
        # Far above the alarm more evidence tells nothing, and would flatten the way there.
        most = 2.0 * alarm if key == "drop_evidence" else math.inf
        points = [(_middle(p), min(scale * p[key], most)) for p in history if p[key] is not None]
        plot = plot_over_time(points, span, unit=unit, marks=levels, moment=_turned(document))
        if plot:
            parts += [text(title, "bold"), Text(plot), Text()]
    return parts


def _levels(document: Document) -> list[float]:
    """The lines that acceptance is judged against: the threshold, and what is normal."""
    reference = document["reference"]
    normal = reference["normal"] if reference else None
    found = [document["threshold"]]
    return [*found, normal["rate"]] if normal else found


def _turned(document: Document) -> float | None:
    """When acceptance changed, if it did."""
    steps = [c for c in document["changes"] if c["of"] == "acceptance_rate" and c["matters"]]
    at = steps[0]["at"] if steps else document["detector"]["drop"]["changed_at"]
    return parse_time(at) if at else None


def _middle(part: Document) -> float:
    return (parse_time(part["start"]) + parse_time(part["end"])) / 2.0


# -- the figures ---------------------------------------------------------------------------


def _figures(document: Document) -> Rows:
    sums, accepted, gain = document["sums"], document["acceptance"], document["speedup"]
    if sums is None:
        return []
    seconds = parse_time(sums["end"]) - parse_time(sums["start"])
    rows = [("window", f"{seconds:.0f} s up to {format_moment(sums['end'])}{_tried(document)}")]
    if sums["draft_tokens"] > 0:
        rate = format_estimate(accepted["rate"], "{:.1f}", " %", scale=100.0)
        tokens = f"{sums['accepted_tokens']:,.0f} of {sums['draft_tokens']:,.0f} draft tokens"
        rows.append(("acceptance rate", f"{tokens} = {rate}"))
    if accepted["length"] is not None:
        length = format_estimate(accepted["length"], "{:.2f}", " tokens per draft")
        rows.append(("acceptance length", length))
    if accepted["design_effect"] is not None:
        rows.append(
            (
                "samples",
                f"{sums['draft_tokens']:,.0f} draft tokens / {accepted['design_effect']:.1f}"
                f" = {accepted['samples']:,.0f} independent ones"
                f" ({accepted['samples_needed']:.0f} needed)",
            )
        )
        rows.append(("design effect", _EFFECTS[accepted["design_effect_from"]]))
    if accepted["requests"] is not None:
        needed = f"({accepted['requests_needed']} needed)"
        rows.append(("requests", f"{accepted['requests']:,.0f} {needed}"))
    rows.append(("speedup", _speedup(gain)))
    even = gain["break_even"]
    if even:
        rows.append(("break-even", f"{even['length']:.2f} tokens per draft{_share(even['rate'])}"))
    return rows


def _share(rate: float | None) -> str:
    """The break-even rate as a clause; beyond 0–100 % it needs other words."""
    if rate is None or rate <= 0.0:
        return ""
    if rate >= 1.0:
        return ", which accepting all of them would not give"
    return f", {100.0 * rate:.1f} % accepted"


def _tried(document: Document) -> str:
    """The shorter windows that could not decide."""
    short = [w for w in document["windows"] if not w["decided"]]
    if not short:
        return ""
    said = ", ".join(f"{w['seconds']:g} s {w['verdict']}" for w in short)
    return f" ({said})"


def _speedup(gain: Document) -> str:
    if gain["speedup"] is None:
        return f"not known: {gain['why_not']}"
    shown = format_estimate(gain["speedup"], "{:.2f}", " times")
    if not gain["compared_seconds"]:
        return shown
    needed = f"{gain['baseline_seconds']:,.1f} s that {clean(str(gain['baseline']), _NAME)} needs"
    return f"{needed} / {gain['compared_seconds']:,.1f} s of decoding = {shown}"


def _normal(document: Document) -> Rows:
    reference, detector = document["reference"], document["detector"]
    rows = []
    if reference is not None:
        rows.append(("reference", _reference(reference)))
    for name, key in (("fall", "drop"), ("rise", "rise"), ("slowdown", "slowdown")):
        rows.append((f"evidence of a {name}", _evidence(detector[key], detector["threshold"])))
    return rows


def _reference(reference: Document) -> str:
    if reference["pinned"] is not None:
        return f"{100.0 * reference['pinned']:.1f} %, pinned"
    normal = reference["normal"]
    if normal is None:
        seen = f"{reference['requests']:,.0f} of {reference['requests_needed']:.0f}"
        return f"not learnt yet: {seen} requests"
    over = {1: "at this hour of day", 24: "over the whole day"}.get(
        normal["hours"], f"over {normal['hours']} hours of the day"
    )
    until = reference["learnt_until"]
    learnt = f", learnt until {format_moment(until)}" if until else ""
    return (
        f"{100.0 * normal['rate']:.1f} % {over}, {normal['requests']:,.0f} requests behind it"
        f"{learnt}"
    )


def _evidence(cusum: Document, threshold: float) -> str:
    parts = [f"{cusum['evidence']:.1f} of {threshold:.0f}"]
    if cusum["left_zero_at"]:
        parts.append(f"left zero at {format_moment(cusum['left_zero_at'])}")
    if cusum["alarm_at"]:
        parts.append(f"alarm at {format_moment(cusum['alarm_at'])}")
    return ", ".join(parts)


def _changes(document: Document) -> Rows:
    return [
        (
            _QUANTITIES[change["of"]],
            f"{change['kind']} at {format_moment(change['at'])} ± {change['error']:.0f} s:"
            f" {_amount(change, 'before')} → {_amount(change, 'after')}"
            + ("" if change["matters"] else ", too small to count"),
        )
        for change in document["changes"]
    ]


def _amount(change: Document, side: str) -> str:
    forms = {"acceptance_rate": (100.0, "{:.1f} %"), "step": (1000.0, "{:.1f} ms")}
    scale, form = forms.get(change["of"], (1.0, "{:.1f}"))
    return form.format(scale * change[side])


# -- the rules -----------------------------------------------------------------------------


def _ladder(rungs: Sequence[Document]) -> RenderableType:
    yes, no = (">", "-") if is_plain_terminal() else ("▶", "·")
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=30)
    table.add_column(overflow="fold")
    for rung in rungs:
        style = "bold" if rung["decided"] else "dim"
        table.add_row(
            text(yes if rung["decided"] else no, style),
            text(rung["asks"], style),
            text(("yes: " if rung["decided"] else "no: ") + rung["because"], style),
        )
    return Padding(table, (0, 0, 0, 2))


def _list(lines: Iterable[str]) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    for line in lines:
        table.add_row("-", text(line))
    return Padding(table, (0, 0, 0, 2))


# -- the reference -------------------------------------------------------------------------


def _learnt(document: Document, now: float) -> Rows:
    reference = document["reference"]
    effect = reference["design_effect"]
    rows = [
        ("server", _server(document)),
        ("now", _reference(reference)),
        ("requests", f"{reference['requests']:,.0f}"),
        ("design effect", f"{effect:.1f}" if effect is not None else "not learnt yet"),
        ("spread", _or_assumed(reference["spread"], "{:.4f}")),
        ("correlation", _or_assumed(reference["correlation"], "{:.2f}")),
    ]
    if reference["positions"]:
        shares = ", ".join(f"{100.0 * share:.0f} %" for share in reference["positions"])
        rows.append(("positions", shares))
    rows.append(("stored", f"{format_age(document['at'], now)} ago"))
    return rows


def _server(document: Document) -> str:
    """The server that the reference is of: another one has another normal."""
    named = {"draft_size": "k = {}", "tensor_parallel": "tensor parallel {}"}
    known = [
        named.get(name, "{}").format(clean(str(part), _NAME))
        for name, part in document["server"].items()
        if part is not None
    ]
    return ", ".join(known) or "unknown"


def _or_assumed(figure: Document, form: str) -> str:
    shown = form.format(figure["value"])
    return shown if figure["learnt"] else f"{shown}, assumed until it is learnt"


def _hours(reference: Document) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right")
    for hour in reference["hours"]:
        rate = hour["rate"]
        now = "bold" if hour["hour"] == reference["hour"] else ""
        table.add_row(
            text(f"{hour['hour']:02}", now),
            bar(rate, _BAR) if rate is not None else Text(""),
            text(f"{100.0 * rate:.1f} %" if rate is not None else "-", now),
            text(f"{hour['requests']:,.0f}", "dim"),
        )
    return Padding(table, (0, 0, 0, 2))


def _order(order: Document, now: float) -> str:
    what = f"{order['kind']} at {100.0 * order['rate']:.4g} %" if order["rate"] else order["kind"]
    who = clean(order["who"], _NAME)
    return f"{what}, given by {who} {format_age(order['at'], now)} ago, waits for the daemon"
