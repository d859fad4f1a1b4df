"""Requests that were answered, and those that failed, on pages of real servers and of none."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from monitor.engines.served import Served, read_served

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize(
    ("page", "served"),
    [
        ("vllm/02-ngram-c16-2end.prom.gz", Served(47.0, 0.0)),
        # Clients that went away got an answer as well, though the engine never ended it.
        ("vllm/16-abort-3.prom.gz", Served(13.0, 0.0)),
        # Health checks that failed while the model loaded are no failures of requests.
        ("sglang/real-server-0.5.23-cpu/05_high.prom.gz", Served(5.0, 0.0)),
    ],
)
def test_pages_of_real_servers(page: str, served: Served) -> None:
    assert read_served(gzip.decompress((DATA / page).read_bytes())) == served


def test_errors_are_those_of_the_server() -> None:
    page = b"""# TYPE http_requests counter
http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 90
http_requests_total{handler="/v1/completions",method="POST",status="4xx"} 4
http_requests_total{handler="/v1/completions",method="POST",status="5xx"} 6
http_requests_total{handler="/health",method="GET",status="5xx"} 50
vllm:request_success_total{finished_reason="length",model_name="m"} 80
vllm:request_success_total{finished_reason="error",model_name="m"} 8
"""
    assert read_served(page) == Served(100.0, 8.0)


def test_sglang_counts_whole_statuses() -> None:
    page = b"""sglang:http_requests_total{endpoint="/generate",method="POST"} 12
sglang:http_responses_total{endpoint="/generate",method="POST",status_code="200"} 9
sglang:http_responses_total{endpoint="/generate",method="POST",status_code="503"} 2
"""
    assert read_served(page) == Served(11.0, 2.0)


def test_a_page_that_does_not_tell_is_no_page_without_failures() -> None:
    assert read_served(b"vllm:generation_tokens_total 5\n") == Served(None, None)
    old = b'vllm:request_success_total{finished_reason="stop"} 5\n'
    assert read_served(old) == Served(5.0, None)
