"""How many requests a server has answered, and how many of them with an error of its own.

Facts, from captured pages: vLLM counts answers by the first digit of their status
(``http_requests_total{handler, method, status}``), SGLang by the whole status
(``sglang:http_responses_total{endpoint, method, status_code}``). vLLM's engine also counts ends of
requests by their reason, ``error`` among them in newer releases; a stream that breaks off has had
its status 200 long before.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from monitor.engines import exposition

_PATHS = frozenset(
    {
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/generate",
        "/inference/v1/generate",
    }
)
"""Where tokens are asked for; health checks that fail while a model loads are no failures."""
_ANSWERS = exposition.pattern(rb"(?:sglang[:_])?", ("http_requests_total", "http_responses_total"))
_ENDS = exposition.pattern(rb"vllm:", ("request_success_total",))


class Served(NamedTuple):
    """Cumulative counts; None where the page does not tell."""

    requests: float | None
    failures: float | None


def read_served(body: bytes) -> Served:
    """The counts of a page that has been read as a metrics page before."""
    page = exposition.tidy(exposition.normalise(body))
    answers = [
        (value, labels.get("status") or labels.get("status_code"))
        for labels, value in _rows(page, _ANSWERS)
        if (labels.get("handler") or labels.get("endpoint")) in _PATHS
    ]
    # SGLang also counts requests that came in, without a status.
    known = [(value, status) for value, status in answers if status]
    ends = [(value, labels.get("finished_reason")) for labels, value in _rows(page, _ENDS)]
    requests = [sum(value for value, _ in found) for found in (known, ends) if found]
    failures = []
    if known:
        failures.append(sum((v for v, status in known if status.startswith("5")), 0.0))
    if any(reason == "error" for _, reason in ends):
        failures.append(sum(v for v, reason in ends if reason == "error"))
    # What fails before it is streamed is counted by both, so that they must not be added up.
    return Served(max(requests, default=None), max(failures, default=None))


def _rows(page: bytes, wanted: re.Pattern[bytes]) -> list[tuple[dict[str, str], float]]:
    lines = exposition.check(exposition.find(page, wanted))
    return [
        (exposition.parse_labels(labels), value)
        for labels, value in zip(lines.labels, lines.values, strict=True)
    ]
