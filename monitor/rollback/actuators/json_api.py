"""Orders and questions in JSON over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import requests
from pydantic import SecretStr

from monitor.rollback.actuators.failing import PeerError
from monitor.settings import Credentials
from monitor.sources.errors import lasts
from monitor.sources.session import GuardedSession, beginning

MAX_DOCUMENT = 4 * 1024 * 1024
"""Bytes; a router lists some thousand workers in as many."""


class JsonApi:
    """One peer. Not for two threads at a time."""

    def __init__(
        self, url: str, *, bearer: SecretStr | None = None, ca_file: str | None = None
    ) -> None:
        self._url = url
        credentials = Credentials(bearer=bearer, ca_file=ca_file)
        self._session = GuardedSession(credentials, max_bytes=MAX_DOCUMENT)

    def get(self, path: str, timeout: float, headers: Mapping[str, str] | None = None) -> Any:
        """The document at ``path``; raises ``FetchError`` or ``PeerError``."""
        with self._session.ask("GET", self._url + path, timeout, headers=headers) as answer:
            _check(answer)
            content = answer.raw.read(MAX_DOCUMENT, decode_content=False)
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise PeerError("the answer is not JSON") from None

    def order(
        self,
        method: str,
        path: str,
        timeout: float,
        document: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Sends an order; returns once it was answered with success."""
        body = None if document is None else encode(document)
        self.send(method, path, timeout, body, headers)

    def send(
        self,
        method: str,
        path: str,
        timeout: float,
        body: bytes | None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """The same with a body that is encoded already, because it was signed."""
        with self._session.ask(method, self._url + path, timeout, body, headers) as answer:
            _check(answer)


def encode(document: object) -> bytes:
    """The bytes of a document."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()


def _check(answer: requests.Response) -> None:
    status = answer.status_code
    if status >= HTTPStatus.BAD_REQUEST:
        said = beginning(answer)
        raise PeerError(f"HTTP {status}{f': {said}' if said else ''}", lasting=lasts(status))
