"""The part of a metrics page that a decision rests on, for the audit."""

from __future__ import annotations

MAX_LINES = 40
_LENGTH = 300
_TELLING = (
    b"spec",
    b"accept",
    b"num_requests_running",
    b"num_running_reqs",
    b"num_requests_waiting",
    b"num_queue_reqs",
    b"generation_tokens",
    b"process_start_time",
)


def excerpt(page: bytes) -> list[str]:
    """The lines about speculation and load, as they were; comments and histograms left out."""
    lines = []
    for line in page.splitlines():
        if line.startswith(b"#") or b"_bucket" in line:
            continue
        if any(word in line for word in _TELLING):
            lines.append(line[:_LENGTH].decode("utf-8", "replace"))
            if len(lines) == MAX_LINES:
                break
    return lines
