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
from monitor.engines.about import join
from monitor.model import ConfigError
from monitor.pipeline import Page
from monitor.settings import TargetSettings
from monitor.sources import wire
from monitor.sources.address import Address, authorization, parse_url
from monitor.sources.answer import Answer, read_answer
from monitor.sources.errors import FetchError, FetchKind
from monitor.sources.side import ABSENT_SECONDS, BROKEN_SECONDS, SIDE_SECONDS, SidePage

_BUFFER = 64 * 1024
_HEADER_ROOM = 256 * 1024
_SHOWN = 400

_LOADS_MAX_BYTES = 4 * 1024 * 1024
_ABOUT_MAX_BYTES = 1024 * 1024
_ABOUT_SECONDS = 3600.0
"""How long what a server said about itself is taken to hold, unless it starts anew."""

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
        self._loads = self._side("/v1/loads", _LOADS_MAX_BYTES)
        self._version = self._side("/version", _ABOUT_MAX_BYTES)
        # vLLM collects facts about its machine for this page, which takes it seconds.
        self._vllm_info = self._side(
            "/server_info?config_format=json", _ABOUT_MAX_BYTES, ABSENT_SECONDS
        )
        self._sglang_info = tuple(
            self._side(path, _ABOUT_MAX_BYTES) for path in ("/server_info", "/get_server_info")
        )
        self._about_after = clock()
        self._pages = 0
        """Pages that came over the connection."""

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
            self.ask_again()
            raise FetchError(
                error.kind, self._clean(str(error)), retryable=error.retryable
            ) from None
        self._pages += 1
        loads = self._fetch_loads(answer.body, deadline)
        return Page(answer.body, loads, self._fetch_about(answer.body, deadline))

    def ask_again(self) -> None:
        """Asks the server about itself with the next page: it may have started anew."""
        self._about_after = self._clock()

    def close(self) -> None:
        """Closes the connection; the next fetch opens another."""
        # Two threads may come here at once when the monitor ends.
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()

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

    def _side(self, path: str, max_bytes: int, broken_seconds: float = BROKEN_SECONDS) -> SidePage:
        request = self._build(f"{self._address.base_path}{path}", "application/json")
        return SidePage(request, max_bytes, broken_seconds)

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
                if self._pages > 1:
                    # A connection that used to outlive a round has ended. Where none does,
                    # because the server soon closes idle ones, a new one says nothing.
                    self.ask_again()
                self._pages = 0
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

    def _fetch_loads(self, metrics: bytes, deadline: float) -> bytes | None:
        """SGLang's ``/v1/loads``, the best source there is; without it the page must do."""
        now = self._clock()
        if now < self._loads.not_before:
            return None
        if b"sglang" not in metrics:
            # The search is a third of the cost of a fetch; what a server is changes seldom.
            self._loads.not_before = now + BROKEN_SECONDS
            return None
        return self._fetch_side(self._loads, deadline)

    def _fetch_about(self, metrics: bytes, deadline: float) -> bytes | None:
        """What the server tells about itself, now and then: it only changes with a restart."""
        now = self._clock()
        if now < self._about_after:
            return None
        if b"sglang" in metrics:
            about = self._fetch_info(deadline)
        elif b"vllm" in metrics or b"trtllm" in metrics:
            about = self._fetch_version(deadline)
        else:
            about = None
        self._about_after = now + (_ABOUT_SECONDS if about is not None else BROKEN_SECONDS)
        return about

    def _fetch_version(self, deadline: float) -> bytes | None:
        """The release, and with vLLM's development mode the whole configuration, too."""
        version = self._fetch_side(self._version, deadline)
        if version is None:
            return None
        info = self._fetch_side(self._vllm_info, deadline)
        return join([version] if info is None else [version, info])

    def _fetch_info(self, deadline: float) -> bytes | None:
        """SGLang's configuration, under the name that this release has for it."""
        for page in self._sglang_info:
            body = self._fetch_side(page, deadline)
            if body is not None or not page.absent:
                return body
        return None

    def _fetch_side(self, page: SidePage, deadline: float) -> bytes | None:
        """A page beside the metrics, if it is to be had and may be asked for now."""
        now = self._clock()
        if now < page.not_before:
            return None
        try:
            answer = self._get(page.request, min(deadline, now + SIDE_SECONDS), page.max_bytes)
        except FetchError:
            self.close()
            self._pages = 0
            page.failed(now)
            return None
        return page.body_of(answer, now)

    def _clean(self, message: str) -> str:
        """The message in one printable line, with anything secret blotted out."""
        for secret in self._secrets:
            message = message.replace(secret, "***")
        line = "".join(char if char.isprintable() else " " for char in message)
        return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not accepted ({error.verify_message})"
    if not error.reason:
        # What the server says after its side of the handshake may be lost with the connection.
        return "the server broke off; it may require a client certificate"
    return error.reason.lower().replace("_", " ")


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
