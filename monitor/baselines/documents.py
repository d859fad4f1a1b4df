"""Baselines, comparisons and answers as the JSON objects that scripts rely on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from monitor.baselines.bench import LevelResult
from monitor.baselines.comparing import Comparison
from monitor.baselines.curves import CurveComparison
from monitor.baselines.paying import Paying, answer
from monitor.baselines.spans import Span
from monitor.health.baseline import Baseline, BaselinePoint
from monitor.report import estimate, iso, number
from monitor.store.baseline_rows import StoredBaseline


def baseline_document(stored: StoredBaseline) -> dict[str, Any]:
    """Everything about one stored baseline."""
    source = stored.provenance
    return {
        "id": stored.id,
        "service": stored.service,
        "name": stored.name,
        "version": stored.version,
        "label": stored.label,
        "active": stored.active,
        "valid": stored.valid,
        "reason": stored.reason,
        "created_at": iso(stored.created_at),
        "deleted_at": _moment(stored.deleted_at),
        "fingerprint": {
            "engine": stored.identity.engine,
            "engine_version": stored.identity.engine_version,
            "model": stored.identity.model,
            "tensor_parallel": stored.identity.tensor_parallel,
        },
        "running_range": list(stored.baseline.running_range),
        "points": [_point(point) for point in stored.points],
        "provenance": {
            "how": source.how,
            "tool": source.tool,
            "files": [asdict(file) for file in source.files],
            "parameters": {
                key: value for key, value in source.parameters.items() if value is not None
            },
            "who": source.who,
            "start": _moment(source.start),
            "end": _moment(source.end),
            "notes": list(source.notes),
        },
    }


def level_document(result: LevelResult, baseline: Baseline | None) -> dict[str, Any]:
    """One level of a load run, and its speedup over a baseline where that reaches."""
    plain = baseline.tpot(float(result.concurrency)) if baseline is not None else None
    return {
        **{key: number(value) for key, value in asdict(result).items()},
        "baseline_tpot": number(plain),
        "speedup": number(plain / result.tpot if plain is not None else None),
    }


def curve_comparison_document(found: CurveComparison) -> dict[str, Any]:
    """Two curves, point by point."""
    return {
        "first": found.first.label,
        "second": found.second.label,
        "loads": [
            {key: number(value) for key, value in asdict(load).items()} for load in found.loads
        ],
        "notes": list(found.notes),
    }


def comparison_document(found: Comparison) -> dict[str, Any]:
    """Two spans side by side."""
    test = found.acceptance
    return {
        "first": _span(found.first),
        "second": _span(found.second),
        "difference": None
        if test is None
        else {
            "acceptance_rate": estimate(test.estimate),
            "equivalent": test.equivalent,
            "p_equivalent": number(test.p_equivalent),
            "different": test.different,
            "p_different": number(test.p_different),
        },
        "suspect_integration": found.integration,
        "positions": [
            {
                "position": pair.position,
                "first": number(pair.first),
                "second": number(pair.second),
                "difference": number(pair.difference),
            }
            for pair in found.positions
        ],
        "sentence": found.sentence,
        "notes": list(found.notes),
    }


def paying_document(found: Paying, dead_band: float) -> dict[str, Any]:
    """Where and when speculation pays."""
    enter, leave = found.dead_band
    return {
        "sentence": found.sentence,
        "crossover": number(found.crossover),
        "dead_band": {"half_width": dead_band, "from": number(enter), "to": number(leave)},
        "uncompared_share": number(found.uncompared),
        "loads": [
            {
                "running": number(entry.running),
                "speedup": estimate(entry.speedup),
                "answer": answer(entry.speedup, dead_band),
                "acceptance_rate": number(entry.acceptance_rate),
                "decode_seconds": number(entry.decode_seconds),
                "share": number(entry.share),
            }
            for entry in found.bins
        ],
        "hours": [
            {
                "hour": entry.hour,
                "speedup": estimate(entry.speedup),
                "answer": answer(entry.speedup, dead_band),
                "running": number(entry.running),
                "decode_seconds": number(entry.decode_seconds),
            }
            for entry in found.hours
        ],
    }


def _span(span: Span) -> dict[str, Any]:
    window, accepted = span.window, span.acceptance
    return {
        "name": span.name,
        "engine": span.identity.engine,
        "model": span.identity.model,
        "start": iso(window.start),
        "end": iso(window.end),
        "requests": number(window.counts.requests),
        "drafts": number(window.counts.drafts),
        "effective_k": number(accepted.k),
        "acceptance_rate": estimate(accepted.rate),
        "acceptance_length": estimate(accepted.length),
        "running": number(span.load.running),
        "tpot": number(span.load.tpot),
        "speedup": estimate(span.speedup),
        "baseline": span.baseline,
    }


def _point(point: BaselinePoint) -> Mapping[str, float | None]:
    return {key: number(value) for key, value in asdict(point).items()}


def _moment(at: float | None) -> str | None:
    return None if at is None else iso(at)


def documents(found: Sequence[StoredBaseline]) -> list[dict[str, Any]]:
    """All of them."""
    return [baseline_document(stored) for stored in found]
