"""Sessions of requests that are held to one deadline, to checked addresses and to a size.

Redirects are not followed, and neither proxies nor passwords are taken from the environment.
"""

from __future__ import annotations

import io
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, NewConnectionError
from urllib3.exceptions import TimeoutError as Urllib3Timeout

from monitor import __version__
from monitor.settings import Credentials
from monitor.sources import wire
from monitor.sources.address import Address
from monitor.sources.errors import FetchError, FetchKind

MAX_ANSWER = 256 * 1024
"""More than this, headers included, is not read."""
_SHOWN = 120
_TIMEOUTS = (TimeoutError, requests.Timeout, Urllib3Timeout)


@dataclass(slots=True)
class _Guard:
    """What the connections of a session are held to."""

    max_bytes: int
    deadline: float = 0.0

    def remaining(self) -> float:
        return wire.remaining(self.deadline, time.monotonic)


class _Reader(socket.SocketIO):
    """The receiving side of a socket, held to the deadline and to a number of bytes."""

    def __init__(self, sock: socket.socket, guard: _Guard) -> None:
        super().__init__(sock, "r")
        self._plain = sock
        self._guard = guard
        self._left = guard.max_bytes

    def readinto(self, buffer: Any) -> int | None:
        # A timeout starts anew with each read, so that a peer which drips bytes would hold us
        # for ever; each read gets what is left of the whole time.
        self._plain.settimeout(self._guard.remaining())
        count = super().readinto(buffer)
        self._left -= count or 0
        if self._left < 0:
            message = f"the answer is larger than {self._guard.max_bytes} bytes"
            raise FetchError(FetchKind.TOO_LARGE, message)
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


class GuardedSession:
    """Asks one peer, over a session of its own. Not for two threads at a time."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        max_bytes: int = MAX_ANSWER,
    ) -> None:
        self._bearer = credentials.bearer
        self._guard = _Guard(max_bytes)
        self._session = _Session()
        # Neither proxies nor passwords from the environment.
        self._session.trust_env = False
        self._session.verify = (credentials.ca_file or True) if credentials.verify else False
        if credentials.cert_file is not None:
            key_file = credentials.key_file or credentials.cert_file
            self._session.cert = (credentials.cert_file, key_file)
        if credentials.username is not None and credentials.password is not None:
            self._session.auth = (credentials.username, credentials.password.get_secret_value())
        self._session.mount("http://", _Adapter(self._guard))
        self._session.mount("https://", _Adapter(self._guard))

    @contextmanager
    def ask(
        self,
        method: str,
        url: str,
        timeout: float,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[requests.Response]:
        """The answer, of which nothing but the head has been read.

        What is read of it inside of the block is held to the same ``timeout``, in seconds.

        Raises:
            FetchError: there is none, or it redirects; one line without the URL.
        """
        self._guard.deadline = time.monotonic() + timeout
        own = {
            "User-Agent": f"specdec-monitor/{__version__}",
            "Accept-Encoding": "identity",
            # Such requests are rare, and an idle connection that the peer has closed costs a try.
            "Connection": "close",
        }
        if body is not None:
            own["Content-Type"] = "application/json"
        if self._bearer is not None:
            own["Authorization"] = f"Bearer {self._bearer.get_secret_value()}"
        try:
            with self._session.request(
                method,
                url,
                data=body,
                headers={**own, **(headers or {})},
                timeout=timeout,
                allow_redirects=False,
                stream=True,
            ) as response:
                status = response.status_code
                if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
                    message = f"HTTP {status}: a redirect, which is not followed"
                    raise FetchError(FetchKind.REDIRECT, message, retryable=False)
                yield response
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            # The text of such an error repeats the URL, so that it is not passed on.
            raise failure(error, timeout) from None
        finally:
            # A peer may close the connection without having said so; the next request, if it
            # comes at once, would be sent into the void.
            self._session.close()

    def close(self) -> None:
        """Closes the session."""
        self._session.close()


def beginning(response: requests.Response) -> str:
    """The beginning of an answer, where it is meant for people to read; it may hold anything."""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind not in ("text/plain", "application/json"):
        return ""
    try:
        data: bytes = response.raw.read(_SHOWN * 4, decode_content=False)
    except Exception:
        # The status is what counts, and it is there.
        return ""
    return data.decode("utf-8", "replace")


def failure(error: BaseException, timeout: float) -> FetchError:
    """What an error of requests or urllib3 comes from, in one line without the URL."""
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema):
        return FetchError(FetchKind.PROTOCOL, "the URL cannot be used", retryable=False)
    chain = list(_chain(error))
    for found in chain:
        if isinstance(found, FetchError):
            return found
        if isinstance(found, ssl.SSLCertVerificationError):
            reason = found.verify_message[:_SHOWN]
            return FetchError(FetchKind.TLS, f"the certificate is not accepted ({reason})")
        # For urllib3, a refused connection is a kind of time-out.
        if isinstance(found, _TIMEOUTS) and not isinstance(found, NewConnectionError):
            return FetchError(FetchKind.TIMEOUT, f"no answer within {round(timeout, 2):g} s")
    if any(isinstance(found, ssl.SSLError) for found in chain):
        return FetchError(FetchKind.TLS, "TLS failed")
    reasons = (f.strerror for f in chain if isinstance(f, OSError) and f.strerror)
    reason = next(reasons, None) or type(chain[-1]).__name__
    return FetchError(FetchKind.CONNECT, f"the connection failed: {reason[:_SHOWN]}")


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
