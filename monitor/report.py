"""An assessment as the JSON object of docs/command-line.md, and how its figures are shown."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from monitor.model import Assessment, EngineVerdict, Estimate, Window

_DIGITS = ".9g"
"""Significant digits of printed numbers: more than any figure is worth, without noise."""


def iso(at: float) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    return (
        datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def to_document(assessment: Assessment) -> dict[str, Any]:
    """The target object of ``monitor check --json``; what cannot be known is None."""
    a = assessment
    return {
        "target": a.target,
        "at": iso(a.at),
        "engine": a.identity.engine,
        "engine_version": a.identity.engine_version,
        "model": a.identity.model,
        "method": a.identity.method,
        "draft_size": a.identity.draft_size,
        "tensor_parallel": a.identity.tensor_parallel,
        "verdict": a.verdict,
        "cause": a.cause,
        "action": a.action,
        "sentence": a.sentence,
        "window": _window(a.window) if a.window is not None else None,
        "acceptance_rate": estimate(a.acceptance_rate),
        "acceptance_length": estimate(a.acceptance_length),
        "positions": [
            {"position": p.position, "rate": number(p.rate), "conditional": number(p.conditional)}
            for p in a.positions
        ],
        "speedup": estimate(a.speedup),
        "break_even": (
            {
                "acceptance_length": number(a.break_even.acceptance_length),
                "acceptance_rate": number(a.break_even.acceptance_rate),
            }
            if a.break_even is not None
            else None
        ),
        "what_if": (
            {
                "best_k": a.what_if.best_k,
                "speedup": number(a.what_if.speedup),
                "wasted": number(a.what_if.wasted),
                "note": a.what_if.note,
            }
            if a.what_if is not None
            else None
        ),
        "load": {
            "running": number(a.load.running),
            "waiting": number(a.load.waiting),
            "tpot": number(a.load.tpot),
            "step": number(a.load.step),
            "tokens_per_step": number(a.load.tokens_per_step),
            "coverage": number(a.load.coverage),
        },
        "evidence": a.evidence,
        "baseline": (
            {
                "name": a.baseline.name,
                "matches": a.baseline.matches,
                "running_range": list(a.baseline.running_range),
            }
            if a.baseline is not None
            else None
        ),
        "engines": [_engine(e) for e in a.engines],
        "notes": list(a.notes),
    }


def _window(window: Window) -> dict[str, Any]:
    counts = window.counts
    sized = counts.draft_tokens > 0.0 and counts.unsized_drafts <= 0.0
    counted = counts.drafts > 0.0 and counts.uncounted_draft_tokens <= 0.0
    return {
        "start": iso(window.start),
        "end": iso(window.end),
        "seconds": number(window.end - window.start),
        "lifetime": window.lifetime,
        "drafts": number(counts.drafts) if counts.uncounted_draft_tokens <= 0.0 else None,
        "draft_tokens": number(counts.draft_tokens) if counts.unsized_drafts <= 0.0 else None,
        "accepted_tokens": number(max(counts.accepted_tokens, 0.0)),
        "output_tokens": number(counts.output_tokens),
        "requests": number(counts.requests),
        "effective_k": number(counts.draft_tokens / counts.drafts) if sized and counted else None,
        "resets": int(counts.resets),
    }


def _engine(engine: EngineVerdict) -> dict[str, Any]:
    return {
        "label": engine.label,
        "verdict": engine.verdict,
        "cause": engine.cause,
        "acceptance_rate": estimate(engine.acceptance_rate),
        "acceptance_length": estimate(engine.acceptance_length),
    }


def estimate(found: Estimate | None) -> dict[str, float | None] | None:
    """A figure and its limits."""
    if found is None:
        return None
    return {"value": number(found.value), "low": number(found.low), "high": number(found.high)}


def format_estimate(
    value: Mapping[str, Any] | None,
    form: str,
    unit: str = "",
    *,
    scale: float = 1.0,
    to: str = " to ",
    unknown: str = "not known",
) -> str:
    """``15.6 % (9.9 to 23.7)``: what ``estimate`` gave, for people."""
    if value is None or value.get("value") is None:
        return unknown
    shown = form.format(value["value"] * scale) + unit
    low, high = value.get("low"), value.get("high")
    if low is None or high is None:
        return shown
    return f"{shown} ({form.format(low * scale)}{to}{form.format(high * scale)})"


def number(value: float | None) -> float | None:
    """A plain JSON number: whole counts without a fraction, the rest without noise."""
    if value is None:
        return None
    if value == int(value) and abs(value) < 1e15:  # noqa: PLR2004
        return int(value)
    return float(format(value, _DIGITS))
