"""An assessment as the JSON object that scripts rely on (docs/command-line.md)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from monitor.model import Assessment, EngineVerdict, Estimate, Window

_DIGITS = 9
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
        "verdict": a.verdict,
        "cause": a.cause,
        "action": a.action,
        "sentence": a.sentence,
        "window": _window(a.window) if a.window is not None else None,
        "acceptance_rate": _estimate(a.acceptance_rate),
        "acceptance_length": _estimate(a.acceptance_length),
        "positions": [
            {"position": p.position, "rate": _n(p.rate), "conditional": _n(p.conditional)}
            for p in a.positions
        ],
        "speedup": _estimate(a.speedup),
        "break_even": (
            {
                "acceptance_length": _n(a.break_even.acceptance_length),
                "acceptance_rate": _n(a.break_even.acceptance_rate),
            }
            if a.break_even is not None
            else None
        ),
        "what_if": (
            {
                "best_k": a.what_if.best_k,
                "speedup": _n(a.what_if.speedup),
                "wasted": _n(a.what_if.wasted),
                "note": a.what_if.note,
            }
            if a.what_if is not None
            else None
        ),
        "load": {
            "running": _n(a.load.running),
            "waiting": _n(a.load.waiting),
            "tpot": _n(a.load.tpot),
            "step": _n(a.load.step),
            "tokens_per_step": _n(a.load.tokens_per_step),
            "coverage": _n(a.load.coverage),
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
        "seconds": _n(window.end - window.start),
        "lifetime": window.lifetime,
        "drafts": _n(counts.drafts) if counts.uncounted_draft_tokens <= 0.0 else None,
        "draft_tokens": _n(counts.draft_tokens) if counts.unsized_drafts <= 0.0 else None,
        "accepted_tokens": _n(max(counts.accepted_tokens, 0.0)),
        "output_tokens": _n(counts.output_tokens),
        "requests": _n(counts.requests),
        "effective_k": _n(counts.draft_tokens / counts.drafts) if sized and counted else None,
        "resets": int(counts.resets),
    }


def _engine(engine: EngineVerdict) -> dict[str, Any]:
    return {
        "label": engine.label,
        "verdict": engine.verdict,
        "cause": engine.cause,
        "acceptance_rate": _estimate(engine.acceptance_rate),
        "acceptance_length": _estimate(engine.acceptance_length),
    }


def _estimate(estimate: Estimate | None) -> dict[str, float | None] | None:
    if estimate is None:
        return None
    return {"value": _n(estimate.value), "low": _n(estimate.low), "high": _n(estimate.high)}


def _n(value: float | None) -> float | None:
    """A plain JSON number: whole counts without a fraction, the rest without noise."""
    if value is None:
        return None
    if value == int(value) and abs(value) < 1e15:  # noqa: PLR2004
        return int(value)
    return float(f"{value:.{_DIGITS}g}")
