"""What a connection to the web server may take: its place among others, and time to ask."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 200
"""Connections at once, each a file of the process; more are closed at once."""
REQUEST_SECONDS = 10.0
"""How long a connection may be open, or a request under way, before all of it is there."""
_NOT_YET = frozenset({h11.IDLE, h11.SEND_BODY})


class Connection(H11Protocol):
    """A connection of uvicorn that is given up when it does not say what it wants.

    uvicorn itself waits for ever for the first request, and for the end of each.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes the connection, if there is room for one more."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.close()
        else:
            self._expect()

    def data_received(self, data: bytes) -> None:
        """Takes in a part of a request, or all of it."""
        super().data_received(data)
        if self.conn.their_state not in _NOT_YET:
            self._rest()
        elif self._deadline is None:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Lets the connection go."""
        self._rest()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _rest(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
