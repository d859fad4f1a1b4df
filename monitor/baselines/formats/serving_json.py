"""Results of ``vllm bench serve --save-result`` and of ``sglang.bench_serving``.

Both write one flat JSON object a run, whose latencies are in milliseconds (keys that end in
``_ms``) and whose ``duration`` is in seconds. vLLM writes one object a file (or a line, with
``--append-result``), SGLang one a line. A run with speculation says so: vLLM with
``spec_decode_*``, SGLang with ``accept_length``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monitor.baselines.runs import Figures, Imported, Run, RunError, closed_loop_load
from monitor.model import Engine, Identity

VLLM = "vllm-bench"
SGLANG = "sglang-bench"
_SGLANG_KEYS = ("mean_e2e_latency_ms", "total_output_tokens_retokenized", "accept_length")
_LATENCIES = ("mean_tpot_ms", "mean_itl_ms", "median_itl_ms")


def recognise(document: object) -> str | None:
    """Which of the two tools wrote this object, if any."""
    if not isinstance(document, dict) or not any(key in document for key in _LATENCIES):
        return None
    return SGLANG if any(key in document for key in _SGLANG_KEYS) else VLLM


def read_vllm(documents: Sequence[object]) -> Imported:
    """Runs of ``vllm bench serve``."""
    figures = [Figures(document) for document in documents]
    runs = tuple(_numbered(index, one, _vllm_run) for index, one in enumerate(figures))
    first = figures[0]
    # Other backends name the protocol, not the server: "openai" may be anything.
    engine = Engine.VLLM if first.text("backend") == "vllm" else None
    return Imported(VLLM, runs, Identity(engine, model=_model(figures, "model_id")))


def read_sglang(documents: Sequence[object]) -> Imported:
    """Runs of ``sglang.bench_serving``."""
    figures = [Figures(document) for document in documents]
    runs = tuple(_numbered(index, one, _sglang_run) for index, one in enumerate(figures))
    first, notes = figures[0], []
    if any(one.number("mean_tpot_ms") is None for one in figures):
        notes.append("some runs have no mean_tpot_ms; their mean_itl_ms was taken")
    backend = first.text("backend") or ""
    parallel = first.get("server_info", "tp_size")
    identity = Identity(
        engine=Engine.SGLANG if backend.startswith("sglang") else None,
        engine_version=first.text("server_info", "version"),
        model=_model(figures, "model")
        or first.text("server_info", "served_model_name")
        or first.text("server_info", "model_path"),
        tensor_parallel=parallel if type(parallel) is int else None,
    )
    return Imported(SGLANG, runs, identity, tuple(notes))


def _numbered(index: int, figures: Figures, read: Any) -> Run:
    try:
        run: Run = read(figures)
    except RunError as error:
        raise RunError(f"run {index + 1}: {error}") from None
    return run


def _vllm_run(figures: Figures) -> Run:
    drafts = figures.number("spec_decode_num_drafts")
    if drafts or figures.number("spec_decode_acceptance_length"):
        raise RunError(_SPECULATIVE)
    tpot = figures.seconds_from_ms("mean_tpot_ms")
    if tpot is None:
        raise RunError("mean_tpot_ms is missing: run the tool with --percentile-metrics ttft,tpot")
    return _run(figures, tpot, _vllm_in_flight(figures, tpot))


def _sglang_run(figures: Figures) -> Run:
    if figures.number("accept_length"):
        raise RunError(_SPECULATIVE)
    tpot = figures.seconds_from_ms("mean_tpot_ms")
    if tpot is None:
        tpot = figures.seconds_from_ms("mean_itl_ms")
    if tpot is None:
        raise RunError("neither mean_tpot_ms nor mean_itl_ms is there: use a newer version")
    return _run(figures, tpot, figures.number("concurrency"))


_SPECULATIVE = (
    "it was measured with speculation, which no baseline may be: switch speculation off and"
    " measure again"
)


def _run(figures: Figures, tpot: float, in_flight: float | None) -> Run:
    requests = figures.number("completed") or 0.0
    prompts = figures.number("total_input_tokens")
    deviation = figures.seconds_from_ms("std_tpot_ms")
    return Run(
        running=closed_loop_load(
            figures.number("max_concurrency"), requests, in_flight, paced=_is_paced(figures)
        ),
        tpot=tpot,
        seconds=figures.number("duration") or 0.0,
        requests=requests,
        spread=deviation / tpot if deviation is not None and tpot > 0.0 else None,
        context=prompts / requests if prompts is not None and requests > 0.0 else None,
    )


def _is_paced(figures: Figures) -> bool:
    """Whether requests came at a finite rate; both tools write infinity in their own way."""
    rate = figures.get("request_rate")
    if isinstance(rate, str):
        return rate.strip().lower() not in ("inf", "infinity")
    return isinstance(rate, int | float) and rate not in (0, float("inf"))


def _vllm_in_flight(figures: Figures, tpot: float) -> float | None:
    """Σ time of the requests over the run's duration (Little's law)."""
    duration, requests = figures.number("duration"), figures.number("completed")
    if not duration or not requests:
        return None
    latencies = figures.get("latencies")
    if isinstance(latencies, list) and latencies:
        times = [figure for figure in latencies if isinstance(figure, int | float)]
        return float(sum(times)) / duration
    mean = figures.seconds_from_ms("mean_e2el_ms")
    if mean is None:
        first = figures.seconds_from_ms("mean_ttft_ms")
        tokens = figures.number("total_output_tokens")
        if first is None or tokens is None:
            return None
        mean = first + tpot * max(tokens / requests - 1.0, 0.0)
    return mean * requests / duration


def _model(figures: Sequence[Figures], key: str) -> str | None:
    names = {one.text(key) for one in figures}
    if len(names) > 1:
        shown = ", ".join(sorted(str(name) for name in names))
        raise RunError(f"its runs are of several models ({shown}): import them one by one")
    return names.pop()
