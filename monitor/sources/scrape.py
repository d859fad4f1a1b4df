"""Fetches the pages of one target over HTTP, at about a tenth of a millisecond of CPU each.

A scrape is one GET on a connection that stays open. What the usual libraries put around it
(sessions, adapters, cookie jars, proxies from the environment) costs ten times the CPU of the
exchange itself, and none of it is wanted here.
"""

from __future__ import annotations

import io
import socket
import ssl
import time
import zlib
from http import HTTPStatus
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from monitor import __version__
from monitor.model import ConfigError
from monitor.pipeline import Page
from monitor.settings import TargetSettings
from monitor.sources import wire
from monitor.sources.address import Address, authorization, parse_url
from monitor.sources.answer import Answer, read_answer
from monitor.sources.errors import FetchError, FetchKind

_BUFFER = 64 * 1024
_HEADER_ROOM = 256 * 1024
_SHOWN = 400

_LOADS_MAX_BYTES = 4 * 1024 * 1024
_LOADS_SECONDS = 2.0
_LOADS_ABSENT_SECONDS = 3600.0
_LOADS_BROKEN_SECONDS = 60.0
_LOADS_ABSENT = frozenset({400, 401, 403, 404, 405, 501})

# Naming OpenMetrics here, at whatever rank, would make the usual exporters send it.
_ACCEPT = "text/plain;version=0.0.4,*/*;q=0.1"


class Scraper:
    """Keeps one connection to one target. Not for two threads at a time."""

    def __init__(self, settings: TargetSettings, *, clock: wire.Clock = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._address = parse_url(settings.url)
        self._sock: socket.socket | None = None
        self._secrets = _secrets(self._address, settings)
        self._request = self._build(self._address.resource, _ACCEPT)
        self._loads_request = self._build(
            f"{self._address.base_path}/v1/loads", "application/json"
        )
        self._loads_after = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def fetch(self, deadline: float | None = None) -> Page:
        """The target's pages, all within ``deadline`` on the clock ``time.monotonic``.

        Raises:
            FetchError: a ``ScrapeError`` with one line free of secrets.
        """
        if deadline is None:
            deadline = self._clock() + self._settings.timeout
        try:
            answer = self._get(self._request, deadline, self._settings.max_bytes)
            self._check_status(answer)
        except FetchError as error:
            self.close()
            raise FetchError(
                error.kind, self._clean(str(error)), retryable=error.retryable
            ) from None
        return Page(answer.body, self._loads(answer.body, deadline))

    def close(self) -> None:
        """Closes the connection; the next fetch opens another."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def abort(self) -> None:
        """Ends a fetch of another thread early: it sees the connection as closed."""
        sock = self._sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def _build(self, resource: str, accept: str) -> bytes:
        # No compression is asked for, though it is understood: inflating a page costs us as
        # much CPU as fetching it, and deflating costs the model server's event loop ten times
        # that.
        lines = [
            f"GET {resource} HTTP/1.1",
            f"Host: {self._address.authority}",
            f"User-Agent: specdec-monitor/{__version__}",
            f"Accept: {accept}",
            "Accept-Encoding: identity",
        ]
        secret = authorization(self._address, self._settings.credentials)
        if secret is not None:
            if not secret.isprintable() or not secret.isascii():
                raise ConfigError(
                    f"target {self._settings.name}: the token holds a line break or another "
                    "character that a header cannot carry"
                )
            lines.append(f"Authorization: {secret}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")

    def _get(self, request: bytes, deadline: float, limit: int) -> Answer:
        """One exchange, with every failure turned into a ``FetchError``."""
        try:
            return self._exchange(request, deadline, limit)
        except TimeoutError as error:
            raise FetchError(
                FetchKind.TIMEOUT, f"no complete answer within {self._settings.timeout:g} s"
            ) from error
        except ssl.SSLError as error:
            raise FetchError(FetchKind.TLS, f"TLS failed: {_tls_reason(error)}") from error
        except (EOFError, zlib.error) as error:
            raise FetchError(FetchKind.CUT_SHORT, "the page was cut short") from error
        except ConnectionRefusedError as error:
            raise FetchError(
                FetchKind.CONNECT, f"connection refused by {self._address.authority}"
            ) from error
        except ConnectionError as error:
            raise FetchError(
                FetchKind.CUT_SHORT, "the server closed the connection without a whole answer"
            ) from error
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise FetchError(
                FetchKind.CONNECT, f"no connection to {self._address.authority}: {reason}"
            ) from error
        except ValueError as error:
            raise FetchError(
                FetchKind.PROTOCOL, f"the answer is not understood: {error}"
            ) from error

    def _exchange(self, request: bytes, deadline: float, limit: int) -> Answer:
        if self._sock is not None and wire.has_input(self._sock):
            self.close()
        reused = self._sock is not None
        try:
            return self._once(request, deadline, limit)
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            # A server may close an idle connection at the very moment it is used again; that
            # says nothing about the server. On a fresh connection, it does.
            if not reused:
                raise
        return self._once(request, deadline, limit)

    def _once(self, request: bytes, deadline: float, limit: int) -> Answer:
        try:
            if self._sock is None:
                self._sock = wire.connect(
                    self._address, self._settings.credentials, deadline, self._clock
                )
            self._sock.settimeout(wire.remaining(deadline, self._clock))
            wire.send(self._sock, request)
            reader = wire.DeadlineReader(self._sock, deadline, limit + _HEADER_ROOM, self._clock)
            answer = read_answer(io.BufferedReader(reader, _BUFFER), limit)
        except BaseException:
            self.close()
            raise
        if answer.closes:
            self.close()
        return answer

    def _check_status(self, answer: Answer) -> None:
        status = answer.status
        if status == HTTPStatus.OK:
            return
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            raise FetchError(
                FetchKind.REDIRECT,
                f"HTTP {status} redirects to {_shown(answer.location)}, which is not followed",
                retryable=False,
            )
        hint = {401: ": credentials are missing or wrong", 403: ": access is denied"}
        raise FetchError(
            FetchKind.STATUS,
            f"HTTP {status}{hint.get(status, '')}",
            retryable=status >= HTTPStatus.INTERNAL_SERVER_ERROR
            or status == HTTPStatus.TOO_MANY_REQUESTS,
        )

    def _loads(self, metrics: bytes, deadline: float) -> bytes | None:
        """SGLang's ``/v1/loads``, the best source there is; without it the page must do."""
        now = self._clock()
        if now < self._loads_after:
            return None
        if b"sglang" not in metrics:
            # The search is a third of the cost of a fetch; what a server is changes seldom.
            self._loads_after = now + _LOADS_BROKEN_SECONDS
            return None
        try:
            answer = self._get(
                self._loads_request, min(deadline, now + _LOADS_SECONDS), _LOADS_MAX_BYTES
            )
        except FetchError:
            self.close()
            self._loads_after = now + _LOADS_BROKEN_SECONDS
            return None
        if answer.status == HTTPStatus.OK:
            return answer.body
        absent = answer.status in _LOADS_ABSENT
        self._loads_after = now + (_LOADS_ABSENT_SECONDS if absent else _LOADS_BROKEN_SECONDS)
        return None

    def _clean(self, message: str) -> str:
        """The message in one printable line, with anything secret blotted out."""
        for secret in self._secrets:
            message = message.replace(secret, "***")
        line = "".join(char if char.isprintable() else " " for char in message)
        return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not accepted ({error.verify_message})"
    if isinstance(error, ssl.SSLEOFError):
        return "the server closed the connection"
    return (error.reason or "unknown reason").lower().replace("_", " ")


def _shown(location: str) -> str:
    """A redirect's target for a message: no user name, no password, no query."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return "an address that is not a URL"
    authority = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{authority}{parts.path}" if authority else parts.path or "nowhere"


def _secrets(address: Address, settings: TargetSettings) -> tuple[str, ...]:
    credentials = settings.credentials
    held = [
        secret.get_secret_value()
        for secret in (credentials.bearer, credentials.password)
        if secret is not None
    ]
    held += [address.password or "", *(value for _, value in parse_qsl(address.query))]
    # A secret of two characters would blot out half of every message.
    return tuple(secret for secret in held if len(secret) >= 4)  # noqa: PLR2004
