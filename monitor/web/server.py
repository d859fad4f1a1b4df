"""Runs the web application in a thread of the daemon."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from monitor.model import ConfigError
from monitor.web.connection import Connection

_GRACE_SECONDS = 2
_TICK_SECONDS = 1.0


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


class _Server(uvicorn.Server):
    """Wakes up once a second and when it is to end.

    The ten times a second of the usual loop cost a monitor of thirty scrapes a second as much
    as storing what they gave.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()

    async def main_loop(self) -> None:
        """Serves until ``end``."""
        self._loop = asyncio.get_running_loop()
        # The tick renews the date header, and tells when it is time to end.
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _TICK_SECONDS)

    def end(self) -> None:
        """Makes the server end; from any thread."""
        self.should_exit = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ending.set)


class WebServer:
    """uvicorn in a thread; it leaves the signals to the daemon."""

    def __init__(self, app: FastAPI, sock: socket.socket) -> None:
        self._sock = sock
        config = uvicorn.Config(
            app,
            http=Connection,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        self._server = _Server(config)
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
        self._server.end()
        self._thread.join(timeout)
        return not self._thread.is_alive()
