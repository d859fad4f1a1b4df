"""The profile export of AIPerf, as JSON or CSV; GenAI-Perf's CSV has the same form.

Each metric names its unit, in ``unit`` or in brackets behind its name, and is refused without
one. One file is one load. ``inter_token_latency`` leaves the first token out.
"""

from __future__ import annotations

import csv
import io
import re

from monitor.baselines.runs import Figures, Imported, Run, RunError, closed_loop_load
from monitor.model import Identity

AIPERF = "aiperf"
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
_LIMIT_PLACES = (
    ("input_config", "loadgen", "concurrency"),
    ("input_config", "concurrency"),
    ("input_config", "perf_analyzer", "stimulus", "concurrency"),
)
_RATE_PLACES = (("input_config", "loadgen", "request_rate"), ("input_config", "request_rate"))
_NAME = re.compile(r"(?P<name>[^()]+?)\s*(?:\((?P<unit>[^()]+)\))?")


def recognise(document: object) -> bool:
    """Whether this is a profile export in JSON."""
    if not isinstance(document, dict):
        return False
    records = document.get("records")
    metrics = records if isinstance(records, dict) else document
    latency = metrics.get("inter_token_latency")
    return isinstance(latency, dict) and "avg" in latency


def recognise_csv(first_line: str) -> bool:
    """Whether this is the head of a profile export in CSV."""
    return first_line.lower().startswith("metric,")


def read(document: object) -> Imported:
    """The one load of a JSON export."""
    export = Figures(document)
    metrics = export.part("records") if isinstance(export.get("records"), dict) else export
    limit = next(filter(None, (export.number(*place) for place in _LIMIT_PLACES)), None)
    paced = any(export.number(*place) for place in _RATE_PLACES)
    if export.get("was_cancelled") is True:
        raise RunError("the run was cancelled; its figures are not of a steady load")
    return Imported(AIPERF, (_run(metrics, limit, paced=paced),), Identity(model=_model(export)))


def read_csv(text: str) -> Imported:
    """The one load of a CSV export, whose load follows from its rate and latency."""
    metrics: dict[str, dict[str, object]] = {}
    header: list[str] = []
    for line, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        if not row or not row[0].strip():
            continue
        if row[0].strip().lower() == "metric":
            header = [cell.strip().lower() for cell in row]
            continue
        if "gpu_index" in (cell.lower() for cell in row):
            break
        match = _NAME.fullmatch(row[0].strip())
        place = next((header.index(key) for key in ("avg", "value") if key in header), None)
        if match is None or place is None or len(row) <= place or not row[place].strip():
            continue
        key = match["name"].strip().lower().replace(" ", "_")
        metrics[key] = {"avg": _cell(line, row[place]), "unit": match["unit"]}
        if "std" in header and header.index("std") < len(row):
            metrics[key]["std"] = _cell(line, row[header.index("std")] or "0")
    return Imported(AIPERF, (_run(Figures(metrics), None, paced=False),))


def _cell(line: int, text: str) -> float:
    try:
        # Thousands are set off by commas in some versions.
        return float(text.replace(",", ""))
    except ValueError:
        raise RunError(f"line {line}: {text.strip()!r} is no number") from None


def _run(metrics: Figures, limit: float | None, *, paced: bool) -> Run:
    tpot = _seconds(metrics, "inter_token_latency")
    if tpot is None:
        raise RunError("inter_token_latency is missing: run the tool with --streaming")
    requests = metrics.number("request_count", "avg") or 0.0
    deviation = metrics.number("inter_token_latency", "std")
    mean = metrics.number("inter_token_latency", "avg")
    return Run(
        running=closed_loop_load(limit, requests, _in_flight(metrics), paced=paced),
        tpot=tpot,
        seconds=_seconds(metrics, "benchmark_duration") or 0.0,
        requests=requests,
        spread=deviation / mean if deviation is not None and mean else None,
        context=metrics.number("input_sequence_length", "avg"),
    )


def _in_flight(metrics: Figures) -> float | None:
    mean = metrics.number("effective_concurrency", "avg")
    if mean:
        return mean
    latency = _seconds(metrics, "request_latency")
    rate = metrics.number("request_throughput", "avg")
    return latency * rate if latency is not None and rate is not None else None


def _seconds(metrics: Figures, name: str) -> float | None:
    value = metrics.number(name, "avg")
    if value is None:
        return None
    unit = metrics.text(name, "unit")
    if unit is None or unit.strip().lower() not in _SECONDS:
        raise RunError(f"the unit of {name} is {unit or 'missing'}, not ns, us, ms or s")
    return value * _SECONDS[unit.strip().lower()]


def _model(export: Figures) -> str | None:
    names = export.get("input_config", "endpoint", "model_names")
    if isinstance(names, list) and names and isinstance(names[0], str):
        return names[0]
    items = export.get("input_config", "models", "items")
    if isinstance(items, list) and items and isinstance(items[0], dict):
        name = items[0].get("name")
        return name if isinstance(name, str) else None
    return None
