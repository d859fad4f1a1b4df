"""Why a page could not be fetched, sorted so that failures can be counted by kind."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus

from monitor.model import ScrapeError

_PASSING = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
"""Refusals that need not last, though their status blames the request."""


class FetchKind(StrEnum):
    """The kinds of failure, as the label ``kind`` of ``monitor_scrape_errors_total``."""

    CONNECT = "connect"
    TIMEOUT = "timeout"
    TLS = "tls"
    REFUSED_ADDRESS = "refused_address"
    REDIRECT = "redirect"
    STATUS = "status"
    TOO_LARGE = "too_large"
    CUT_SHORT = "cut_short"
    PROTOCOL = "protocol"


class FetchError(ScrapeError):
    """A page could not be fetched; the text is one line that is free of secrets."""

    def __init__(self, kind: FetchKind, message: str, *, retryable: bool = True) -> None:
        super().__init__(message, retryable=retryable)
        self.kind = kind


def lasts(status: int) -> bool:
    """Whether the same request would be refused again with this HTTP status."""
    blamed = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return blamed and status not in _PASSING
