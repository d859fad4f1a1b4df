"""vLLM from 0.5.5 to the newest, and the engines that count in the same way.

Facts: the metric files of the releases 0.5.5–0.33 and captured pages (docs/metrics.md).
Names are exact, never prefixes: ``_created`` and ``_total`` share one.
"""

from __future__ import annotations

from monitor.engines.dialect import Dialect, Figure, Figures, Fold
from monitor.model import Engine, Reading, Speculation


def compose(label: str, figures: Figures, draft_size: float | None) -> Reading:
    """A reading from counters that count each draft, draft token and accepted token.

    ``inter_token_latency_seconds`` is observed once per decode step of a request, not once
    per token, so its count is the number of decode steps. The first token of a request comes
    out of the prompt pass: decode tokens are generated tokens less first tokens.
    """
    values = figures.values
    counters = {
        field: values[figure]
        for field, figure in (
            ("output_tokens", "generation"),
            ("requests", "requests"),
            ("prompt_tokens", "prompt"),
            ("drafts", "drafts"),
            ("draft_tokens", "draft_tokens"),
            ("accepted_tokens", "accepted"),
            ("decode_seconds", "itl_sum"),
            ("decode_steps", "itl_count"),
            ("engine_steps", "steps"),
            ("prefix_queries", "prefix_queries"),
            ("prefix_hits", "prefix_hits"),
            ("first_token_seconds", "ttft_sum"),
            ("first_tokens", "ttft_count"),
        )
        if figure in values
    }
    if "accepted" not in values:
        # Drafts alone would read as if not one of them had been accepted.
        counters.pop("drafts", None)
        counters.pop("draft_tokens", None)
    if "generation" in values and "ttft_count" in values:
        counters["decode_tokens"] = values["generation"] - values["ttft_count"]
    if "itl_count" in values and "steps" in values:
        counters["batched_steps"] = values["itl_count"]
    return Reading(
        label=label,
        counters=counters,
        positions=_in_order(figures.positions.get("accepted_by_position", {})),
        running=values.get("running"),
        waiting=values.get("waiting"),
        draft_size=draft_size,
        speculation=_speculation(figures),
    )


def _speculation(figures: Figures) -> Speculation:
    """Configured where drafted and accepted tokens are both there; half of it is a new name."""
    drafted = figures.shows("drafts") or figures.shows("draft_tokens")
    accepted = figures.shows("accepted")
    if drafted and accepted:
        return Speculation.CONFIGURED
    if drafted or accepted or figures.shows("emitted"):
        return Speculation.UNKNOWN_NAMES
    return Speculation.ABSENT


def _in_order(by_position: dict[int, float]) -> tuple[float, ...]:
    """Accepted tokens at position 0, 1, …; empty where one of them is missing."""
    try:
        return tuple([by_position[position] for position in range(len(by_position))])
    except KeyError:
        return ()


_REQUESTS = {
    "generation": Figure(("generation_tokens_total",)),
    "prompt": Figure(("prompt_tokens_total",)),
    "requests": Figure(("request_success_total",)),
    "ttft_sum": Figure(("time_to_first_token_seconds_sum",)),
    "ttft_count": Figure(("time_to_first_token_seconds_count",)),
}
"""Names that vLLM gave and other engines took over."""
_DRAFTS = {
    "drafts": Figure(("spec_decode_num_drafts_total",)),
    "draft_tokens": Figure(("spec_decode_num_draft_tokens_total",)),
    "accepted": Figure(("spec_decode_num_accepted_tokens_total",)),
}

VLLM = Dialect(
    engine=Engine.VLLM,
    prefix=rb"vllm:",
    compose=compose,
    figures={
        **_REQUESTS,
        **_DRAFTS,
        "emitted": Figure(("spec_decode_num_emitted_tokens_total",)),
        "v0_rate": Figure(("spec_decode_draft_acceptance_rate",), fold=Fold.MEAN),
        "v0_efficiency": Figure(("spec_decode_efficiency",), fold=Fold.MEAN),
        "accepted_by_position": Figure(
            ("spec_decode_num_accepted_tokens_per_pos_total",), per_position="position"
        ),
        # 0.10.2–0.11.2 show both names of the same observations; before, only the older.
        "itl_sum": Figure(
            ("inter_token_latency_seconds_sum", "time_per_output_token_seconds_sum")
        ),
        "itl_count": Figure(
            ("inter_token_latency_seconds_count", "time_per_output_token_seconds_count")
        ),
        "steps": Figure(("iteration_tokens_total_count",)),
        "running": Figure(("num_requests_running",)),
        "waiting": Figure(("num_requests_waiting",)),
        "prefix_queries": Figure(("prefix_cache_queries_total", "gpu_prefix_cache_queries_total")),
        "prefix_hits": Figure(("prefix_cache_hits_total", "gpu_prefix_cache_hits_total")),
        "created": Figure(
            ("spec_decode_num_draft_tokens_created", "generation_tokens_created"), fold=Fold.FIRST
        ),
    },
)

LMDEPLOY = Dialect(
    engine=Engine.LMDEPLOY,
    prefix=rb"lmdeploy:",
    compose=compose,
    figures={
        **_REQUESTS,
        **_DRAFTS,
        "accepted_by_position": Figure(
            (
                "spec_decode_num_accepted_tokens_per_pos_total",
                "spec_decode_num_accepted_tokens_per_pos",
            ),
            per_position="position",
        ),
        "running": Figure(("num_requests_running",)),
        "waiting": Figure(("num_requests_waiting",)),
        "created": Figure(("generation_tokens_created",), fold=Fold.FIRST),
    },
)


def _compose_llama_cpp(label: str, figures: Figures, draft_size: float | None) -> Reading:
    """llama.cpp counts predicted tokens and the time they took together, at the end of each."""
    reading = compose(label, figures, draft_size)
    if "itl_sum" in figures.values and "generation" in figures.values:
        reading.counters["decode_tokens"] = figures.values["generation"]
    return reading


LLAMA_CPP = Dialect(
    engine=Engine.LLAMA_CPP,
    prefix=rb"llamacpp:",
    compose=_compose_llama_cpp,
    # Where the slots are shown beside the whole server, only the whole is counted.
    part_label="slot",
    figures={
        "generation": Figure(("tokens_predicted_total",)),
        "prompt": Figure(("prompt_tokens_total",)),
        **_DRAFTS,
        "accepted_by_position": Figure(
            ("spec_decode_num_accepted_tokens_per_pos_total",), per_position="position"
        ),
        "itl_sum": Figure(("tokens_predicted_seconds_total",)),
        "running": Figure(("requests_processing",)),
        "waiting": Figure(("requests_deferred",)),
    },
)


def _compose_tensorrt_llm(label: str, figures: Figures, draft_size: float | None) -> Reading:
    """TensorRT-LLM has no counter of drafts; each draft has a token at the first position.

    Some releases have only the counters per position, whose sums are the totals. A position
    at which nothing was ever accepted has no line of its own.
    """
    drafted = figures.positions.get("drafted_by_position", {})
    accepted = figures.positions.get("accepted_by_position", {})
    if 0 in drafted:
        whole = _in_order(drafted)
        figures.values["drafts"] = drafted[0]
        if "accepted_by_position" not in figures.lost:
            accepted = figures.positions["accepted_by_position"] = {
                **dict.fromkeys(drafted, 0.0),
                **accepted,
            }
        if whole and not figures.shows("draft_tokens"):
            figures.values["draft_tokens"] = sum(whole)
        if accepted.keys() == drafted.keys() and not figures.shows("accepted"):
            figures.values["accepted"] = sum(accepted.values())
    return compose(label, figures, draft_size)


TENSORRT_LLM = Dialect(
    engine=Engine.TENSORRT_LLM,
    prefix=rb"trtllm[:_]",
    compose=_compose_tensorrt_llm,
    vital=frozenset({"draft_tokens", "accepted", "drafted_by_position", "accepted_by_position"}),
    harmless=frozenset({"spec_decode_acceptance_length", "spec_decode_draft_overhead"}),
    figures={
        **_REQUESTS,
        "draft_tokens": Figure(("spec_decode_num_draft_tokens_total",)),
        "accepted": Figure(("spec_decode_num_accepted_tokens_total",)),
        "drafted_by_position": Figure(
            ("spec_decode_drafted_tokens_total",), per_position="token_position"
        ),
        "accepted_by_position": Figure(
            ("spec_decode_accepted_tokens_total",), per_position="token_position"
        ),
        "running": Figure(("num_generation_requests",)),
    },
)
