"""Servers whose counters grow as those of a busy one, with each look at them."""

from __future__ import annotations

from dataclasses import dataclass

from scrape_peers import NOT_FOUND, Conversation, answer, asks_aside

LOAD = 4
ENGINE_STEPS = 1000.0
K = 3


@dataclass
class Busy:
    """Always ``LOAD`` requests run; each look finds the figures of some more seconds.

    With ``accepted`` tokens a draft it speculates; without, a step gives one token.
    """

    step: float = 0.010
    """Seconds of a decode step."""
    accepted: float | None = None
    looks: int = 0

    def __call__(self, conversation: Conversation) -> None:
        """Answers each request for the metrics with the next page."""
        while (head := conversation.request()) is not None:
            if asks_aside(head):
                conversation.send(NOT_FOUND)
            else:
                self.looks += 1
                conversation.send(answer(self.page()))

    def page(self) -> bytes:
        """The page after so many looks."""
        steps, requests = self.looks * ENGINE_STEPS * LOAD, self.looks * 20.0
        tokens = steps * (1.0 + (self.accepted or 0.0)) + requests
        figures = {
            "num_requests_running": float(LOAD),
            "generation_tokens_total": tokens,
            "request_success_total": requests,
            "time_to_first_token_seconds_sum": requests * 0.1,
            "time_to_first_token_seconds_count": requests,
            "inter_token_latency_seconds_sum": self.looks * ENGINE_STEPS * LOAD * self.step,
            "inter_token_latency_seconds_count": steps,
            "iteration_tokens_total_count": self.looks * ENGINE_STEPS,
        }
        if self.accepted is not None:
            figures |= {
                "spec_decode_num_drafts_total": steps,
                "spec_decode_num_draft_tokens_total": steps * K,
                "spec_decode_num_accepted_tokens_total": steps * self.accepted,
            }
        lines = (
            f'vllm:{name}{{engine="0",model_name="m"}} {value}' for name, value in figures.items()
        )
        return "\n".join(("# TYPE vllm:num_requests_running gauge", *lines, "")).encode()


def quick() -> Busy:
    """Speculation that pays: 6.4 ms a token instead of 10."""
    return Busy(step=0.016, accepted=1.5)


def slow() -> Busy:
    """Speculation that costs: 16 ms a token instead of 10."""
    return Busy(step=0.040, accepted=1.5)
