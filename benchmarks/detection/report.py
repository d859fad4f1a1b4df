"""Renders the results into docs/detection.md, between two marks."""

from __future__ import annotations

from math import exp, factorial
from pathlib import Path
from textwrap import fill
from typing import Any

_DOCUMENT = Path(__file__).parents[2] / "docs" / "detection.md"
_BEGIN, _END = "<!-- measured: begin -->", "<!-- measured: end -->"

_RARE = 0.05


def span(seconds: float | None) -> str:
    """Seconds as people say them."""
    if seconds is None:
        return "never"
    if seconds < 600.0:
        return f"{seconds:.0f} s"
    if seconds < 7200.0:
        return f"{seconds / 60.0:.0f} min"
    if seconds < 72.0 * 3600.0:
        return f"{seconds / 3600.0:.1f} h"
    return f"{seconds / 86_400.0:.1f} d"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _wrapped(text: str) -> str:
    return fill(text, 100, break_long_words=False, break_on_hyphens=False)


def most_alarms(seen: int) -> float:
    """The mean beyond which so few alarms would be seen in less than 5 % of cases (Poisson)."""
    low, high = 0.0, 20.0 + 3.0 * seen
    while high - low > 1e-6:
        mean = (low + high) / 2.0
        chance = sum(exp(-mean) * mean**number / factorial(number) for number in range(seen + 1))
        low, high = (mean, high) if chance > _RARE else (low, mean)
    return low


def false_alarms(cells: list[dict[str, Any]]) -> str:
    """False alarms of each cell, with the limit that the months allow to state."""
    rows = []
    for cell in cells:
        months = cell["months"]
        rows.append(
            [
                cell["cell"],
                f"{cell['requests_per_day']:.0f}",
                f"{months:.1f}",
                str(cell["false_alarms"]),
                f"{cell['false_alarms'] / months:.2f}",
                f"{most_alarms(cell['false_alarms']) / months:.2f}",
                f"{cell['highest_evidence']:.1f}",
                str(cell["false_rises"]),
                str(cell["false_verdicts"]),
            ]
        )
    head = ["traffic", "requests/day", "months", "false alarms", "per 30 d", "at most"]
    return _table([*head, "most evidence", "of a rise", "false verdicts"], rows)


def delays(cells: list[dict[str, Any]]) -> str:
    """Delays of each fault beside the published ones, the rule and the bound."""
    rows = []
    for cell in cells:
        published = cell.get("published") or [""] * len(cell["cases"])
        for case, old in zip(cell["cases"], published, strict=True):
            ratio = case["ratio"]
            rows.append(
                [
                    cell["cell"],
                    case["case"],
                    f"{span(case['median'])} / {span(case['p99'])}",
                    f"{case['missed']} of {case['runs']}",
                    old,
                    f"{span(case['rule_median'])} / {span(case['rule_p99'])}",
                    "" if case["bound"] is None else span(case["bound"]),
                    "" if ratio is None else f"{ratio:.1f}",
                ]
            )
    head = ["traffic", "fault", "median / p99", "missed", "profile given"]
    return _table([*head, "rule, median / p99", "bound", "median / bound"], rows)


def rule_thresholds(cells: list[dict[str, Any]]) -> str:
    """The threshold of the rule that gives one false alarm in 30 days."""
    said = [f"{cell['cell']}: {cell['rule_threshold']:.2f}" for cell in cells]
    return _wrapped("Thresholds of the rule: " + "; ".join(said) + ".")


def learnt(cells: list[dict[str, Any]]) -> str:
    """What was learnt by when, beside the truth; mean over the replicas."""
    rows = [
        [cell["cell"], str(steps[0]["day"]), *_learnt_figures(steps)]
        for cell in cells
        for steps in zip(*cell["learnt"], strict=True)
    ]
    head = ["traffic", "day", "hours read together", "bias", "rms error", "worst hour"]
    return _table([*head, "s²", "acf", "φ"], rows)


def _learnt_figures(steps: tuple[dict[str, Any], ...]) -> list[str]:
    def mean(name: str, digits: int) -> str:
        values = [step[name] for step in steps if step[name] is not None]
        known = [value for value in values if value == value]  # noqa: PLR0124 - not a number
        return f"{sum(known) / len(known):.{digits}f}" if known else "–"

    hours = max((step["hours"] or 0 for step in steps), default=0)
    return [
        str(hours) if hours else "–",
        mean("bias", 3),
        mean("error", 3),
        mean("worst", 3),
        mean("spread", 4),
        mean("correlation", 1),
        mean("design_effect", 0),
    ]


def aftermath(rows: list[dict[str, Any]]) -> str:
    """What is left after a fault of a day."""
    return _table(
        [
            "traffic",
            "fall",
            "found after",
            "cleared while it lasted",
            "cleared after",
            "alarms afterwards",
            "learnt of the fault",
        ],
        [
            [
                row["cell"],
                f"−{row['drop']:.2f}",
                span(row["found_seconds"]),
                str(row["cleared_early"]),
                span(row["cleared_seconds"]),
                str(row["alarms_after"]),
                f"{row['learnt_of_the_fault']:.3f}",
            ]
            for row in rows
        ],
    )


def drifts(rows: list[dict[str, Any]]) -> str:
    """How far acceptance sank before a slow drift was found."""
    return _table(
        ["traffic", "−0.15 within", "found after", "sunk by then", "learnt by then"],
        [
            [
                row["cell"],
                f"{row['days']} d",
                "never" if row["found_hours"] is None else f"{row['found_hours']:.0f} h",
                "" if row["sunk_by"] is None else f"{row['sunk_by']:.3f}",
                f"{row['learnt_of_the_drift']:.3f}",
            ]
            for row in rows
        ],
    )


def render(results: dict[str, Any]) -> str:
    """All tables as one text."""
    cells = results["cells"]
    learnt_from = ", ".join(results["learns_from"])
    seeds = sorted({str(cell["seed"]) for cell in cells})
    minutes = sum(cell["cpu_seconds"] for cell in cells) / 60.0
    parts = [
        _wrapped(
            f"Base seed {', '.join(seeds)}; {minutes:.0f} minutes of CPU time for {len(cells)}"
            f" kinds of traffic; learnt from windows that were {learnt_from}."
        ),
        "### False alarms",
        false_alarms(cells),
        "### Delays",
        delays(cells),
        rule_thresholds(cells),
        "### What was learnt",
        learnt(cells),
    ]
    if results.get("aftermath"):
        parts += ["### After a fault of 24 h", aftermath(results["aftermath"])]
    if results.get("drifts"):
        parts += ["### Drifts slower than a day", drifts(results["drifts"])]
    return "\n\n".join(parts)


def write(results: dict[str, Any]) -> None:
    """Puts the tables into the document."""
    text = _DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(_BEGIN, 1)
    after = rest.split(_END, 1)[1]
    body = f"{before}{_BEGIN}\n\n{render(results)}\n\n{_END}{after}"
    _DOCUMENT.write_text(body, encoding="utf-8")
