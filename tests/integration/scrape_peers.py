"""Servers on loopback that do with each connection exactly what a test tells them to."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

PATIENCE = 30.0
"""How long a test waits for what should happen at once, before it calls it a failure."""


class Conversation:
    """The server's end of one connection."""

    def __init__(self, sock: socket.socket, peer: Peer) -> None:
        self._sock = sock
        self._peer = peer
        self._received = b""

    def request(self) -> bytes | None:
        """The next request's head; None when the client has closed."""
        while b"\r\n\r\n" not in self._received:
            piece = self._sock.recv(65536)
            if not piece:
                return None
            self._received += piece
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        self._peer.requests.append(head)
        return head

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def hang(self) -> None:
        """Says nothing until the test is over."""
        self._peer.over.wait(PATIENCE)

    def closed_by_client(self) -> None:
        """Waits until the client has closed."""
        while self._sock.recv(65536):
            pass


Script = Callable[[Conversation], None]


class Peer:
    """Accepts connections and plays ``script`` on each in a thread of its own."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.over = threading.Event()
        self.ended = threading.Semaphore(0)
        """Released once for each conversation that is over, with the socket closed."""
        self._script = script
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/metrics"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(PATIENCE)
        for sock in list(self._open):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads[1:]:
            thread.join(PATIENCE)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._converse, args=(sock,))
            self._open.append(sock)
            self._threads.append(thread)
            thread.start()

    def _converse(self, plain: socket.socket) -> None:
        sock = plain
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(plain, server_side=True)
                self._open.append(sock)
            self._script(Conversation(sock, self))
        except OSError:
            pass  # The client went away, which many of these tests are about.
        finally:
            sock.close()
            self.ended.release()


def answer(
    body: bytes, status: str = "200 OK", fields: str = "", *, length: int | None = None
) -> bytes:
    """An answer with a Content-Length, which may be a lie."""
    size = len(body) if length is None else length
    head = f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{fields}\r\n"
    return head.encode() + body


def packed(body: bytes) -> bytes:
    """The answer of a server that compresses."""
    return answer(gzip.compress(body), fields="Content-Encoding: gzip\r\n")


NOT_FOUND = answer(b"no", "404 Not Found")
_ASIDE = (b"/v1/loads", b"/version", b"/server_info", b"/get_server_info")


def asks_aside(head: bytes) -> bool:
    """Whether a request is for one of the pages beside the metrics."""
    path = head.split(b" ", 2)[1].partition(b"?")[0]
    return path.endswith(_ASIDE)


def always(data: bytes) -> Script:
    """Gives the same page each time, on a connection that stays open, and nothing beside it."""

    def script(conversation: Conversation) -> None:
        while (head := conversation.request()) is not None:
            conversation.send(NOT_FOUND if asks_aside(head) else data)

    return script


def once(data: bytes) -> Script:
    """Answers one request and closes."""

    def script(conversation: Conversation) -> None:
        if conversation.request() is not None:
            conversation.send(data)

    return script
