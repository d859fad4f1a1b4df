"""Receivers on loopback that behave as bad ones do."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Behave = Callable[[socket.socket, "Peer"], None]


@dataclass
class Request:
    """What a receiver was sent."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Peer:
    """A receiver and what it has heard so far."""

    port: int
    requests: list[Request] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


def read_request(sock: socket.socket) -> Request:
    stream = sock.makefile("rb")
    line = stream.readline().decode().strip()
    headers = {}
    while header := stream.readline().decode().strip():
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    return Request(line, headers, stream.read(int(headers.get("content-length", 0))))


def answers(*texts: str) -> Behave:
    """Answers with each text in turn, and with the last one for ever."""

    def behave(sock: socket.socket, peer: Peer) -> None:
        text = texts[min(len(peer.requests), len(texts)) - 1]
        sock.sendall(text.replace("\n", "\r\n").encode())

    return behave


def status(line: str, *headers: str, body: str = "") -> str:
    return "\n".join([f"HTTP/1.1 {line}", *headers, f"Content-Length: {len(body)}", "", body])


def hang(_sock: socket.socket, peer: Peer) -> None:
    peer.done.wait(30)


def drip(sock: socket.socket, peer: Peer) -> None:
    """One byte of a header now and then, for ever."""
    sock.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not peer.done.wait(0.02):
        sock.sendall(b"x")


def flood(sock: socket.socket, peer: Peer) -> None:
    """Headers without end."""
    sock.sendall(b"HTTP/1.1 200 OK\r\n")
    while not peer.done.is_set():
        sock.sendall(b"X-Long: " + b"x" * 60_000 + b"\r\n")


def endless_body(sock: socket.socket, peer: Peer) -> None:
    sock.sendall(b"HTTP/1.1 500 Oops\r\nContent-Type: text/plain\r\n\r\n")
    while not peer.done.is_set():
        sock.sendall(b"y" * 65_536)


def reset(sock: socket.socket, _peer: Peer) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextmanager
def receiver(behave: Behave) -> Iterator[Peer]:
    """A receiver that reads each request and then behaves."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = Peer(server.getsockname()[1])

        def serve(sock: socket.socket) -> None:
            with sock, suppress(OSError, ValueError):
                peer.requests.append(read_request(sock))
                behave(sock, peer)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    sock, _ = server.accept()
                    threading.Thread(target=serve, args=(sock,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield peer
        finally:
            peer.done.set()
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join(5)
