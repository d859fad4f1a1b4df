"""The one place that talks to a Grafana: its legacy HTTP API (11.6 to 13), by uid only.

Requests are those of grafana-api-sdk. What is kept from it is how it reads answers (it loses the
status and the reason, and logs by itself), its ten retries, and its habit of following redirects:
the transport below it is our own session, held to a deadline, a size and checked addresses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import httpx
from grafana_api.api import Api
from grafana_api.model import APIModel, RequestsMethods

from monitor.alerting.wording import plain
from monitor.clock import Clock, SystemClock
from monitor.logs import REDACTOR
from monitor.model import GrafanaError
from monitor.settings import Credentials, GrafanaSettings
from monitor.sources.errors import FetchError
from monitor.sources.session import GuardedSession

MAX_ANSWER = 16 * 1024 * 1024
"""Bytes of an answer that are read; a dashboard may have some hundred thousand."""
TRIES = 3
FIRST_WAIT = 0.5
"""Seconds before a request is tried again; twice that the next time."""
_PASSING = frozenset({429, 502, 503, 504})
_SHOWN = 200


class Answer(NamedTuple):
    """What Grafana answered."""

    status: int
    body: Any
    """The JSON of it; None where there is none."""


class Grafana:
    """One Grafana. Not for two threads at a time."""

    def __init__(self, settings: GrafanaSettings, clock: Clock | None = None) -> None:
        self.url = settings.url.rstrip("/")
        self._clock = clock or SystemClock()
        self._session = GuardedSession(Credentials(ca_file=settings.ca_file), max_bytes=MAX_ANSWER)
        self._transport = _Transport(self._session, settings.timeout)
        self._api = _Api(
            APIModel(
                host=self.url,
                token=settings.token.get_secret_value(),
                headers=None,
                timeout=settings.timeout,
                retries=0,
                follow_redirects=False,
            ),
            self._transport,
        )

    def close(self) -> None:
        """Closes the session."""
        self._session.close()

    def health(self) -> dict[str, Any]:
        """What it says about itself; raises ``GrafanaError`` where no Grafana answers."""
        answer = self._ask("GET", "/api/health", None, "health")
        if answer.status == HTTPStatus.NOT_FOUND or not isinstance(answer.body, dict):
            raise GrafanaError(f"health: no Grafana answers at {self.url}")
        found: dict[str, Any] = self._accepted(answer, "health").body
        return found

    def find(self, path: str, what: str) -> Any:
        """The JSON of what is there; None if it is not."""
        answer = self._ask("GET", path, None, what)
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        return self._accepted(answer, what).body

    def get(self, path: str, what: str) -> Any:
        """The JSON of what must be there."""
        return self._accepted(self._ask("GET", path, None, what), what).body

    def put(self, path: str, body: Mapping[str, Any], what: str) -> Any:
        """Puts something where it belongs; the same again changes nothing."""
        return self._accepted(self._ask("PUT", path, body, what), what).body

    def post(self, path: str, body: Mapping[str, Any], what: str, *, again: bool = True) -> Any:
        """Makes something; unless ``again``, a request whose answer was lost is not repeated."""
        return self._accepted(self._ask("POST", path, body, what, again=again), what).body

    def patch(self, path: str, body: Mapping[str, Any], what: str) -> Any:
        """Changes a part of something."""
        return self._accepted(self._ask("PATCH", path, body, what), what).body

    def delete(self, path: str, what: str) -> bool:
        """Takes something away; False if it was not there."""
        answer = self._ask("DELETE", path, None, what)
        if answer.status == HTTPStatus.NOT_FOUND:
            return False
        self._accepted(answer, what)
        return True

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        what: str,
        *,
        again: bool = True,
    ) -> Answer:
        """Tries a few times while the failure is one that passes."""
        text = None if body is None else json.dumps(body, allow_nan=False)
        for number in range(TRIES):
            last = number == TRIES - 1 or not again
            try:
                self._api.call_the_api(path, RequestsMethods(method), text)
                answer = self._transport.answer(what)
            except FetchError as error:
                if last or not error.retryable:
                    raise GrafanaError(f"{what}: {self.url}: {error}") from None
            else:
                if last or answer.status not in _PASSING:
                    return answer
            self._clock.sleep(FIRST_WAIT * 2.0**number)
        raise AssertionError("the last try returns or raises")

    def _accepted(self, answer: Answer, what: str) -> Answer:
        if answer.status < HTTPStatus.MULTIPLE_CHOICES:
            return answer
        said = _said(answer.body)
        raise GrafanaError(f"{what}: {_reason(answer.status, said)}", status=answer.status)


class _Api(Api):  # type: ignore[misc]
    """The library's requests over our transport."""

    def __init__(self, model: APIModel, transport: httpx.BaseTransport) -> None:
        super().__init__(model)
        self._transport = transport

    def create_the_http_api_client(self, headers: dict[str, str] | None = None) -> httpx.Client:
        """A client for one request; the library makes one for each."""
        return httpx.Client(transport=self._transport, headers=headers, trust_env=False)


class _Transport(httpx.BaseTransport):
    """Sends over a guarded session and keeps the answer, of which the library sees nothing."""

    def __init__(self, session: GuardedSession, timeout: float) -> None:
        self._session = session
        self._timeout = timeout
        self._status = 0
        self._content = b""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request."""
        sent = ("authorization", "accept")
        headers = {name: request.headers[name] for name in sent if name in request.headers}
        body = request.read() or None
        url = str(request.url)
        with self._session.ask(request.method, url, self._timeout, body, headers) as response:
            # Held to the deadline and the size of the session while it is read.
            self._content = response.raw.read(decode_content=False)
            self._status = response.status_code
        return httpx.Response(HTTPStatus.OK, json={})

    def answer(self, what: str) -> Answer:
        """The last answer; raises ``GrafanaError`` where it is none of a Grafana."""
        try:
            body = json.loads(self._content) if self._content.strip() else None
        except (ValueError, RecursionError):
            body = None
            if self._status not in _PASSING:
                fault = f"HTTP {self._status} with something else than JSON"
                hint = "is this the address of a Grafana, and no proxy or login page before it?"
                # A page instead of an answer comes from something that is no Grafana.
                status = self._status if self._status >= HTTPStatus.BAD_REQUEST else None
                raise GrafanaError(f"{what}: {fault}; {hint}", status=status) from None
        return Answer(self._status, body)


def _said(body: Any) -> str:
    said = body.get("message") if isinstance(body, dict) else None
    return plain(REDACTOR.text(said), _SHOWN) if isinstance(said, str) else ""


def _reason(status: int, said: str) -> str:
    more = f" ({said})" if said else ""
    if status == HTTPStatus.UNAUTHORIZED:
        return f"the token is not accepted{more}: use one of a service account of this Grafana"
    if status == HTTPStatus.FORBIDDEN:
        return (
            f"the token may not do this{more}: give the service account the role Editor, "
            "and Admin for data sources"
        )
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and "provenance" in said:
        return f"kept by another way of provisioning{more}: take it away there first"
    return f"HTTP {status}{more}"
