"""The page that a simulated server shows, as vLLM would."""

from __future__ import annotations

from traffic import Server

_COUNTERS = {
    "output_tokens": "generation_tokens_total",
    "requests": "request_success_total",
    "prompt_tokens": "prompt_tokens_total",
    "drafts": "spec_decode_num_drafts_total",
    "draft_tokens": "spec_decode_num_draft_tokens_total",
    "accepted_tokens": "spec_decode_num_accepted_tokens_total",
    "decode_seconds": "inter_token_latency_seconds_sum",
    "decode_steps": "inter_token_latency_seconds_count",
    "engine_steps": "iteration_tokens_total_count",
}


def vllm_page(server: Server) -> bytes:
    """Counters, positions, load and the time of birth."""
    labels = 'engine="0",model_name="m"'
    figures = {name: server.counters[field] for field, name in _COUNTERS.items()}
    figures["time_to_first_token_seconds_count"] = server.counters["requests"]
    figures["time_to_first_token_seconds_sum"] = server.counters["requests"] * 0.1
    figures["generation_tokens_created"] = server.birth
    figures["num_requests_running"] = server.running
    figures["num_requests_waiting"] = 0.0
    lines = [f"vllm:{name}{{{labels}}} {value}" for name, value in figures.items()]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{i}"}} {value}'
        for i, value in enumerate(server.positions)
    ]
    return "\n".join(("# TYPE vllm:num_requests_running gauge", *lines, "")).encode()
