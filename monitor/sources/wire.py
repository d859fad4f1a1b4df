"""Sockets with one deadline for everything, and TLS."""

from __future__ import annotations

import io
import os
import select
import socket
import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from monitor.settings import Credentials
from monitor.sources.address import Address, is_forbidden
from monitor.sources.errors import FetchError, FetchKind

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Clock = Callable[[], float]
_Peer = tuple[socket.AddressFamily, tuple[Any, ...]]

_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


class DeadlineReader(io.RawIOBase):
    """The receiving side of a socket, cut off at a deadline and at a number of bytes.

    A socket's timeout starts anew with each read, so that a peer which drips bytes holds a
    reader for ever. Here each read gets only what is left of the whole time.
    """

    def __init__(self, sock: socket.socket, deadline: float, limit: int, clock: Clock) -> None:
        super().__init__()
        self._sock = sock
        self._deadline = deadline
        self._limit = limit
        self._clock = clock
        self.received = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Receives what there is, within what is left of the time."""
        self._sock.settimeout(remaining(self._deadline, self._clock))
        count = self._sock.recv_into(buffer)
        self.received += count
        if self.received > self._limit:
            raise FetchError(FetchKind.TOO_LARGE, f"the answer is larger than {self._limit} bytes")
        return count


def remaining(deadline: float, clock: Clock) -> float:
    """The seconds left; raises ``TimeoutError`` when there are none."""
    left = deadline - clock()
    if left <= 0:
        raise TimeoutError
    return left


def has_input(sock: socket.socket) -> bool:
    """Whether an idle connection is unusable: closed by the peer, or with stray bytes on it."""
    poller = select.poll()
    poller.register(sock, _READABLE)
    return bool(poller.poll(0))


def send(sock: socket.socket, data: bytes) -> None:
    """Sends everything.

    A server that refuses us in the middle of TLS says why and closes, maybe before we have
    sent anything: then the reason is still there to be read, and is raised instead.
    """
    try:
        sock.sendall(data)
    except ssl.SSLEOFError:
        sock.recv(1)
        raise


def connect(
    address: Address, credentials: Credentials, deadline: float, clock: Clock
) -> socket.socket:
    """Connects to the first address of the host that answers, with TLS for https."""
    sock = _connect_tcp(address, deadline, clock)
    if address.scheme == "http":
        return sock
    try:
        context = _tls_context(credentials)
        sock.settimeout(remaining(deadline, clock))
        return context.wrap_socket(sock, server_hostname=address.host)
    except BaseException:
        sock.close()
        raise


def _connect_tcp(address: Address, deadline: float, clock: Clock) -> socket.socket:
    peers = _resolve(address)
    failure: OSError = TimeoutError()
    for tried, (family, peer) in enumerate(peers):
        # The first of several addresses may be a black hole; it must not eat all the time.
        share = remaining(deadline, clock) / (len(peers) - tried)
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(share)
            sock.connect(peer)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            sock.close()
            failure = error
        else:
            return sock
    raise failure


def _resolve(address: Address) -> list[_Peer]:
    """The numeric addresses of the host.

    They are checked here, after the name was looked up and before the first packet: what is
    connected to is the very address that was checked, whatever the name says a moment later.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise FetchError(
            FetchKind.CONNECT, f"the host name {address.host} cannot be resolved"
        ) from error
    for *_, peer in found:
        if is_forbidden(str(peer[0])):
            raise FetchError(
                FetchKind.REFUSED_ADDRESS,
                f"{address.host} is {peer[0]}, a link-local or metadata address, "
                "which is never connected to",
                retryable=False,
            )
    return [(family, peer) for family, *_, peer in found]


def _tls_context(credentials: Credentials) -> ssl.SSLContext:
    files = (credentials.ca_file, credentials.cert_file, credentials.key_file)
    # Certificates are renewed in place, so that the files' times are part of the key.
    return _cached_context(files, tuple(map(_changed_at, files)), credentials.verify)


def _changed_at(file: str | None) -> int:
    if file is None:
        return 0
    try:
        return os.stat(file).st_mtime_ns
    except OSError as error:
        raise _unusable(file, error) from error


@lru_cache(maxsize=128)
def _cached_context(
    files: tuple[str | None, str | None, str | None],
    _stamps: tuple[int, ...],
    verify: bool,  # noqa: FBT001 - part of the cache key
) -> ssl.SSLContext:
    """One context for all targets with the same files: loading the system's CAs takes 10 ms."""
    ca_file, cert_file, key_file = files
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise _unusable(ca_file or "of the system's CAs", error) from error
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if cert_file is not None:
        try:
            context.load_cert_chain(cert_file, key_file, password=_no_password)
        except (OSError, ValueError) as error:
            both = f"{key_file} for {cert_file}" if key_file else cert_file
            raise _unusable(both, error) from error
    return context


def _unusable(file: str, error: Exception) -> FetchError:
    # ssl.SSLError is an OSError too.
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    message = f"the file {file} cannot be used: {reason}"
    return FetchError(FetchKind.TLS, message, retryable=False)


def _no_password() -> str:
    # Without this, OpenSSL would ask for the key's password on the terminal.
    raise ValueError("encrypted private key")
