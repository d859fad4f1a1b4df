"""Runs the web application in a thread of the daemon."""

from __future__ import annotations

import socket
import threading

import uvicorn
from fastapi import FastAPI

from monitor.model import ConfigError

_GRACE_SECONDS = 2


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or a ``ConfigError``: the time to say so is before anything starts."""
    try:
        family, *_, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot listen on {host} port {port}: {reason}") from error


class WebServer:
    """uvicorn in a thread; it leaves the signals to the daemon."""

    def __init__(self, app: FastAPI, sock: socket.socket) -> None:
        self._sock = sock
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [sock]}, name="web", daemon=True
        )

    @property
    def port(self) -> int:
        """The port, also where any free one was asked for."""
        port: int = self._sock.getsockname()[1]
        return port

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Ends; False when it did not within ``timeout``."""
        self._server.should_exit = True
        self._thread.join(timeout)
        return not self._thread.is_alive()
