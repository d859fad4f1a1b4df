"""Pages of a vLLM server at a steady load, for the tests of baselines."""

from __future__ import annotations

from dataclasses import dataclass

BIRTH = 1_700_000_000.0
NOON = 1_800_000_000.0


@dataclass
class Server:
    """A server that decodes at one load and speed; the figures grow with ``advance``."""

    running: float = 1.0
    tpot: float = 0.01
    draft_length: float | None = None
    """Acceptance length; None is a server without speculation."""
    context: float = 50.0
    decode_seconds: float = 5000.0
    tokens: float = 500_000.0
    steps: float = 500_000.0
    requests: float = 5_000.0
    prompts: float = 250_000.0
    drafts: float = 0.0
    accepted: float = 0.0

    def advance(self, seconds: float) -> Server:
        tokens = self.running * seconds / self.tpot
        self.decode_seconds += self.running * seconds
        self.tokens += tokens
        length = self.draft_length or 1.0
        self.steps += tokens / length / self.running
        self.requests += tokens / 100.0
        self.prompts += tokens / 100.0 * self.context
        if self.draft_length is not None:
            self.drafts += tokens / length
            self.accepted += tokens / length * (length - 1.0)
        return self

    def page(self) -> bytes:
        per_request_steps = self.tokens / (self.draft_length or 1.0)
        counters = {
            "generation_tokens_total": self.tokens + self.requests,
            "prompt_tokens_total": self.prompts,
            'request_success_total;finished_reason="stop"': self.requests,
            "inter_token_latency_seconds_sum": self.decode_seconds,
            "inter_token_latency_seconds_count": per_request_steps,
            "time_to_first_token_seconds_sum": self.requests * 0.05,
            "time_to_first_token_seconds_count": self.requests,
            "iteration_tokens_total_count": self.steps,
        }
        if self.draft_length is not None:
            counters |= {
                "spec_decode_num_drafts_total": self.drafts,
                "spec_decode_num_draft_tokens_total": 3.0 * self.drafts,
                "spec_decode_num_accepted_tokens_total": self.accepted,
            }
        lines = ["# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {BIRTH}"]
        for key, value in counters.items():
            name, _, more = key.partition(";")
            labels = ",".join(filter(None, ['model_name="demo"', 'engine="0"', more]))
            lines.append(f"vllm:{name}{{{labels}}} {value}")
        lines.append(f'vllm:num_requests_running{{model_name="demo",engine="0"}} {self.running}')
        return ("\n".join(lines) + "\n").encode()
