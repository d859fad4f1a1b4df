"""POST with requests, within one deadline, to checked addresses, without redirects."""

from __future__ import annotations

import io
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from monitor import __version__
from monitor.alerting.notifiers.base import PASSING
from monitor.alerting.payload import plain
from monitor.alerting.receivers import AlertmanagerSettings, WebhookSettings
from monitor.logs import REDACTOR
from monitor.model import DeliveryError
from monitor.settings import Credentials
from monitor.sources import wire
from monitor.sources.address import Address
from monitor.sources.errors import FetchError

MAX_ANSWER = 256 * 1024
"""More than this, headers included, is not read."""
_SHOWN = 120
_BAD_REQUEST, _SERVER_ERROR = 400, 500
_OK, _REDIRECT = 200, 300


@dataclass(slots=True)
class _Guard:
    """What the connections of a session are held to."""

    deadline: float = 0.0

    def remaining(self) -> float:
        return wire.remaining(self.deadline, time.monotonic)


class _Reader(socket.SocketIO):
    """The receiving side of a socket, held to the deadline and to a number of bytes."""

    def __init__(self, sock: socket.socket, guard: _Guard) -> None:
        super().__init__(sock, "r")
        self._plain = sock
        self._guard = guard
        self._left = MAX_ANSWER

    def readinto(self, buffer: Any) -> int | None:
        # A timeout starts anew with each read, so that a peer which drips bytes would hold us
        # for ever; each read gets what is left of the whole time.
        self._plain.settimeout(self._guard.remaining())
        count = super().readinto(buffer)
        self._left -= count or 0
        if self._left < 0:
            raise OSError("the answer is too large")
        return count


class _Socket:
    """A socket whose readers are held to the guard."""

    def __init__(self, sock: socket.socket, guard: _Guard) -> None:
        self._sock = sock
        self._guard = guard

    def makefile(self, *_args: object, **_kwargs: object) -> io.BufferedReader:
        # As socket.makefile does: the socket stays open until its reader is closed.
        self._sock._io_refs += 1  # type: ignore[attr-defined]
        return io.BufferedReader(_Reader(self._sock, self._guard))

    def sendall(self, data: Any) -> None:
        self._sock.settimeout(self._guard.remaining())
        wire.send(self._sock, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def _connect(host: str, port: int, guard: _Guard) -> socket.socket:
    """A TCP connection to an address that was checked after the name had been looked up."""
    address = Address("http", host, port, "/", "")
    sock = wire.connect(address, Credentials(), guard.deadline, time.monotonic)
    sock.settimeout(guard.remaining())
    return sock


def _pools(guard: _Guard) -> dict[str, Any]:
    """The pools by scheme, whose connections know the guard."""

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _connect(self.host, self.port, guard)

        def connect(self) -> None:
            super().connect()
            self.sock: Any = _Socket(self.sock, guard)

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _connect(self.host, self.port, guard)

        def connect(self) -> None:
            super().connect()
            self.sock: Any = _Socket(self.sock, guard)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls: Any = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls: Any = Secure

    return {"http": PlainPool, "https": SecurePool}


class _Adapter(HTTPAdapter):
    def __init__(self, guard: _Guard) -> None:
        self._guard = guard
        super().__init__(max_retries=0)

    def init_poolmanager(
        self,
        connections: int,
        maxsize: int,
        block: bool = False,  # noqa: FBT001, FBT002 - the signature of requests
        **kwargs: Any,
    ) -> None:
        self.poolmanager = PoolManager(connections, maxsize=maxsize, block=block, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _pools(self._guard)


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002
        """Nowhere, so that what stands there is not even looked at."""
        return None


class HttpClient:
    """Posts to one receiver, over a session of its own. Not for two threads at a time."""

    def __init__(self, timeout: float, kind: WebhookSettings | AlertmanagerSettings) -> None:
        self._timeout = timeout
        self._bearer = kind.bearer
        self._guard = _Guard()
        self._session = _Session()
        # Neither proxies nor passwords from the environment.
        self._session.trust_env = False
        self._session.verify = kind.ca_file or True
        self._session.mount("http://", _Adapter(self._guard))
        self._session.mount("https://", _Adapter(self._guard))

    def post(self, url: str, body: bytes, headers: Mapping[str, str], now: float) -> str:
        """Posts, and says with which status, one of success, it was answered.

        Raises:
            DeliveryError: for all else, in one line without the URL.
        """
        self._guard.deadline = time.monotonic() + self._timeout
        own = {
            "Content-Type": "application/json",
            "User-Agent": f"specdec-monitor/{__version__}",
            "Accept-Encoding": "identity",
            # Alerts are rare, and an idle connection that the peer has closed costs a try.
            "Connection": "close",
        }
        if self._bearer is not None:
            own["Authorization"] = f"Bearer {self._bearer.get_secret_value()}"
        try:
            with self._session.post(
                url,
                data=body,
                headers={**own, **headers},
                timeout=self._timeout,
                allow_redirects=False,
                stream=True,
            ) as response:
                return f"HTTP {self._judge(response, now)}"
        except FetchError as error:
            raise DeliveryError(str(error), permanent=not error.retryable) from None
        except (requests.RequestException, OSError, ValueError) as error:
            # The text of such an error repeats the URL, so that it is not passed on.
            raise self._failure(error) from None

    def close(self) -> None:
        """Closes the session."""
        self._session.close()

    def _judge(self, response: requests.Response, now: float) -> int:
        status = response.status_code
        if _OK <= status < _REDIRECT:
            # The receiver has it; whatever else it says, or how slowly, changes nothing.
            return status
        if _REDIRECT <= status < _BAD_REQUEST:
            raise DeliveryError(
                f"HTTP {status}: a redirect, which is not followed", permanent=True
            )
        raise DeliveryError(
            f"HTTP {status}{_said(response)}",
            permanent=status < _SERVER_ERROR and status not in PASSING,
            retry_after=_retry_after(response.headers.get("Retry-After"), now),
        )

    def _failure(self, error: BaseException) -> DeliveryError:
        if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema):
            return DeliveryError("the URL of the receiver cannot be used", permanent=True)
        chain = list(_chain(error))
        for found in chain:
            if isinstance(found, ssl.SSLCertVerificationError):
                return DeliveryError(
                    f"the certificate is not accepted ({plain(found.verify_message, _SHOWN)})"
                )
            if isinstance(found, TimeoutError | requests.Timeout):
                return DeliveryError(f"no answer within {self._timeout:g} s")
        if any(isinstance(found, ssl.SSLError) for found in chain):
            return DeliveryError("TLS failed")
        reasons = (f.strerror for f in chain if isinstance(f, OSError) and f.strerror)
        reason = next(reasons, None) or type(chain[-1]).__name__
        return DeliveryError(f"the connection failed: {plain(reason, _SHOWN)}")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and those that led to it, also where they only were put into its arguments."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        found = waiting.pop(0)
        if isinstance(found, BaseException) and id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += [*found.args, getattr(found, "reason", None)]
            waiting += [found.__cause__, found.__context__]


def _said(response: requests.Response) -> str:
    """The beginning of an answer, where it is meant for people to read."""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind not in ("text/plain", "application/json"):
        return ""
    try:
        data = response.raw.read(_SHOWN * 4, decode_content=False)
    except Exception:
        # The status is what counts, and it is there.
        return ""
    text = plain(REDACTOR.text(data.decode("utf-8", "replace")), _SHOWN)
    return f": {text}" if text else ""


def _retry_after(header: str | None, now: float) -> float | None:
    """Seconds from a number or from a date."""
    if header is None:
        return None
    header = header.strip()
    if header.isascii() and header.isdigit():
        return float(header[:9])
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None
