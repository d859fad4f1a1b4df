"""Asks a Prometheus-compatible API for raw samples: Prometheus, VictoriaMetrics, Mimir, Thanos.

Only raw counters are asked for, by an instant query for a range (``{…}[1h]``), which gives the
samples as they were scraped, with their own times. Queries over steps would give what was last
known at times nobody looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from monitor.clock import Clock
from monitor.logs import REDACTOR
from monitor.model import ScrapeError
from monitor.settings import Credentials
from monitor.sources.errors import FetchError, FetchKind, lasts
from monitor.sources.session import GuardedSession

TRIES = 5
FIRST_WAIT = 1.0
"""Seconds before the second try; each further wait is twice as long."""
MAX_BYTES = 32 * 1024 * 1024
"""A larger answer is not read: its samples would take half a gigabyte of memory."""
_SHOWN = 200
_TOO_MUCH = frozenset(
    {
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


class TooMuchError(ScrapeError):
    """A shorter span might be answered."""


class Range(NamedTuple):
    """The raw samples of one series."""

    labels: Mapping[str, str]
    values: Sequence[tuple[float, str]]
    """Pairs of seconds since the epoch and text."""


class Answer(NamedTuple):
    """The samples of a span, and how many bytes they came in."""

    ranges: Sequence[Range]
    size: int


class PrometheusApi:
    """One API. Not for two threads at a time.

    Args:
        url: what stands before ``/api/v1``.
        clock: sleeps between tries.
        org: value of ``X-Scope-OrgID``, by which Mimir and Cortex tell tenants apart.
        timeout: seconds for one answer.
    """

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        *,
        clock: Clock,
        org: str | None = None,
        timeout: float = 60.0,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.warnings: list[str] = []
        """What the server had to say beside its answers, such as that a store was away."""
        self._base = url.rstrip("/") + "/api/v1/"
        self._host = urlsplit(url).netloc.rpartition("@")[2]
        self._clock = clock
        self._timeout = timeout
        self._session = GuardedSession(credentials, max_bytes=max_bytes)
        self._headers = {"Accept": "application/json"}
        if org is not None:
            self._headers["X-Scope-OrgID"] = org

    def close(self) -> None:
        """Closes the session."""
        self._session.close()

    def series(self, selector: str, start: float, end: float) -> list[Mapping[str, str]]:
        """The labels of all series of a span. Raises ``ScrapeError``."""
        parameters = {"match[]": selector, "start": _time(start), "end": _time(end)}
        data, _ = self._ask("series", parameters)
        if not isinstance(data, list):
            raise _strange("series")
        return [_labels(found) for found in data]

    def samples(self, selector: str, start: float, end: float) -> Answer:
        """The raw samples later than ``start`` up to ``end``.

        Raises:
            TooMuchError: the span is too long for one answer.
            ScrapeError: there is none; one line.
        """
        span = max(round((end - start) * 1000.0), 1)
        parameters = {"query": f"{selector}[{span}ms]", "time": _time(end)}
        data, size = self._ask("query", parameters)
        if not isinstance(data, dict) or data.get("resultType") != "matrix":
            raise _strange("query")
        return Answer(list(_ranges(data.get("result"))), size)

    def _ask(self, path: str, parameters: Mapping[str, str]) -> tuple[Any, int]:
        """The ``data`` of an answer and its size; tries again what may pass."""
        wait = FIRST_WAIT
        for number in range(1, TRIES + 1):
            try:
                return self._try(path, parameters)
            except TooMuchError:
                raise
            except FetchError as error:
                if not error.retryable or number == TRIES:
                    text = f"{self._host}: {error}"
                    raise FetchError(error.kind, text, retryable=error.retryable) from None
            self._clock.sleep(wait)
            wait *= 2.0
        raise AssertionError("the last try returns or raises")

    def _try(self, path: str, parameters: Mapping[str, str]) -> tuple[Any, int]:
        url = f"{self._base}{path}"
        # A GET, because some gateways let nothing else through; selectors are short.
        full = f"{url}?{urlencode(parameters)}"
        try:
            with self._session.ask("GET", full, self._timeout, headers=self._headers) as response:
                body = response.content
                status = response.status_code
        except FetchError as error:
            if error.kind is FetchKind.TOO_LARGE:
                raise TooMuchError(str(error)) from None
            raise
        document = _parsed(body)
        if status >= HTTPStatus.BAD_REQUEST:
            raise _refusal(status, document)
        if document is None:
            text = "the answer is no JSON: is it the API of Prometheus, and was all of it sent?"
            raise FetchError(FetchKind.PROTOCOL, text, retryable=_is_cut(body))
        if document.get("status") != "success":
            raise _refusal(HTTPStatus.OK, document)
        for key in ("warnings", "infos"):
            self._note(document.get(key))
        if document.get("isPartial") is True:
            # VictoriaMetrics has a word of its own for it.
            self._note(["the answer is partial"])
        return document.get("data"), len(body)

    def _note(self, said: object) -> None:
        for one in said if isinstance(said, list) else ():
            text = _shown(one)
            if text not in self.warnings:
                self.warnings.append(text)


def _ranges(result: object) -> Iterator[Range]:
    if not isinstance(result, list):
        raise _strange("query")
    for one in result:
        # A native histogram has others in its place, which are not needed.
        values = one.get("values", []) if isinstance(one, dict) else None
        if not isinstance(values, list) or not all(map(_is_sample, values)):
            raise _strange("query")
        yield Range(_labels(one.get("metric")), values)


def _is_sample(value: object) -> bool:
    match value:
        case [int() | float(), str(text)]:
            # It becomes the end of a line of a page: it must not be more than that.
            return text.isascii() and text.isprintable() and " " not in text
    return False


def _labels(found: object) -> Mapping[str, str]:
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise _strange("series")
    return found


def _parsed(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _is_cut(body: bytes) -> bool:
    """Whether an answer begins as it should: then its end was lost, and may come next time."""
    return body.lstrip()[:1] == b"{"


def _refusal(status: int, document: Mapping[str, Any] | None) -> ScrapeError:
    said = _shown((document or {}).get("error", ""))
    text = f"HTTP {status}{f': {said}' if said else ''}"
    if status in _TOO_MUCH:
        return TooMuchError(text)
    return FetchError(FetchKind.STATUS, text, retryable=not lasts(status))


def _strange(path: str) -> FetchError:
    text = f"the answer to /api/v1/{path} is not what Prometheus answers"
    return FetchError(FetchKind.PROTOCOL, text, retryable=False)


def _shown(text: object) -> str:
    return REDACTOR.text(" ".join(str(text).split()))[:_SHOWN]


def _time(at: float) -> str:
    return f"{at:.3f}"
