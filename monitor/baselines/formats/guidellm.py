"""The JSON report of GuideLLM.

``benchmarks`` holds one object a load. Distributions are ``{successful: {mean: …}, …}``;
``inter_token_latency_ms`` is in milliseconds and leaves the first token out, which is what a
time per output token is here. GuideLLM's own ``time_per_output_token_ms`` spreads the time to
the first token over all tokens in newer versions, so it is only taken where nothing else is.
"""

from __future__ import annotations

from monitor.baselines.runs import Figures, Imported, Run, RunError
from monitor.model import Identity

GUIDELLM = "guidellm"
_MODEL_PLACES = (
    ("config", "backend", "model"),
    ("config", "backend", "kwargs", "model"),
    ("benchmarker", "backend", "model"),
    ("worker", "backend_model"),
    ("args", "model"),
)


def recognise(document: object) -> bool:
    """Whether this is a report of GuideLLM."""
    return isinstance(document, dict) and isinstance(document.get("benchmarks"), list)


def read(document: object) -> Imported:
    """All loads of a report."""
    report = Figures(document)
    entries = report.get("benchmarks")
    if not entries:
        raise RunError("benchmarks is empty: the run was stopped before its first load was done")
    runs: list[Run] = []
    notes: set[str] = set()
    spans: list[tuple[float | None, float | None]] = []
    model = report.text("args", "model")
    for index, entry in enumerate(entries):
        try:
            figures = Figures(entry)
            runs.append(_run(figures, notes))
        except RunError as error:
            raise RunError(f"benchmarks[{index}]: {error}") from None
        model = model or next(
            filter(None, (figures.text(*place) for place in _MODEL_PLACES)), None
        )
        spans.append((figures.number("start_time"), figures.number("end_time")))
    starts = [start for start, _ in spans if start is not None]
    ends = [end for _, end in spans if end is not None]
    return Imported(
        GUIDELLM,
        tuple(runs),
        Identity(model=model),
        tuple(sorted(notes)),
        min(starts, default=None),
        max(ends, default=None),
    )


def _run(figures: Figures, notes: set[str]) -> Run:
    metrics = figures.part("metrics")
    tpot = metrics.seconds_from_ms("inter_token_latency_ms", "successful", "mean")
    if not tpot:
        tpot = metrics.seconds_from_ms("time_per_output_token_ms", "successful", "mean")
        notes.add("time_per_output_token_ms was taken, which may include the first token")
    if not tpot:
        raise RunError(
            "metrics.inter_token_latency_ms.successful.mean is missing: was it streamed?"
        )
    deviation = metrics.seconds_from_ms("inter_token_latency_ms", "successful", "std_dev")
    requests = metrics.number("request_totals", "successful")
    if requests is None:
        requests = metrics.number("inter_token_latency_ms", "successful", "count")
    return Run(
        running=_running(figures, metrics),
        tpot=tpot,
        seconds=figures.number("duration") or 0.0,
        requests=requests or 0.0,
        spread=deviation / tpot if deviation is not None else None,
        context=metrics.number("prompt_token_count", "successful", "mean"),
    )


def _running(figures: Figures, metrics: Figures) -> float:
    """The mean that was measured, over all requests; else what the run was told to keep up."""
    for status in ("total", "successful"):
        mean = metrics.number("request_concurrency", status, "mean")
        if mean:
            return mean
    for place in (("config", "strategy"), ("args", "strategy")):
        streams = figures.number(*place, "streams")
        if streams:
            return streams
    raise RunError("metrics.request_concurrency is missing: its load is not known")
