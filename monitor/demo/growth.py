"""How a metrics page goes on from a recorded one, token by token."""

from __future__ import annotations

import re

_LINE = re.compile(rb"^([a-zA-Z_:][^ {]*)(\{.*\})? ([^ ]+)$", re.MULTILINE)
_COUNTERS = (b"_total", b"_sum", b"_count", b"_bucket")
_TOKENS = b"vllm:generation_tokens_total"
_DECODE_SECONDS = b"vllm:inter_token_latency_seconds_sum"
_RUNNING = b"vllm:num_requests_running"


class Growth:
    """Goes on from a page of vLLM at the pace that was recorded between two others.

    Each counter, buckets of histograms included, grows by what a token added to it between
    ``first`` and ``last``, so that everything that can be read off a page keeps its proportion:
    tokens per draft, time per token, requests, errors.
    """

    def __init__(self, page: bytes, first: bytes, last: bytes) -> None:
        before, after = _values(first), _values(last)
        tokens = _one(after, _TOKENS) - _one(before, _TOKENS)
        self._page = page
        self._per_token = {
            series: (value - before[series]) / tokens
            for series, value in after.items()
            if series in before and series.partition(b"{")[0].endswith(_COUNTERS)
        }
        self.seconds_per_token = _one(self._per_token, _DECODE_SECONDS)
        """What a client waits for each token."""

    def page(self, tokens: float, running: int) -> bytes:
        """The page after ``tokens`` more, with so many requests running now."""

        def grown(match: re.Match[bytes]) -> bytes:
            name, labels = match[1], match[2] or b""
            slope = self._per_token.get(name + labels)
            if name == _RUNNING:
                value = float(running)
            elif slope:
                value = float(match[3]) + slope * tokens
            else:
                return match[0]
            return name + labels + b" " + repr(value).encode()

        return _LINE.sub(grown, self._page)


def _values(page: bytes) -> dict[bytes, float]:
    return {name + labels: float(value) for name, labels, value in _LINE.findall(page)}


def _one(values: dict[bytes, float], name: bytes) -> float:
    """The value of a metric that has a single series."""
    return next(value for series, value in values.items() if series.partition(b"{")[0] == name)
