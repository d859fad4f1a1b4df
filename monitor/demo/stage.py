"""Everything of the demo that is not the monitor: servers, router, clients and a pager."""

from __future__ import annotations

import json
import queue
import secrets
from collections.abc import Iterator
from contextlib import ExitStack

from monitor.demo.clients import Clients, Felt
from monitor.demo.growth import Growth
from monitor.demo.http import Asked, Said, Server, in_json
from monitor.demo.router import SHARE_PATH, Router
from monitor.demo.servers import Life, ScaledClock, TapeServer
from monitor.demo.tape import Story

LIVE_FROM = 221.0
"""Seconds after the beginning: from here on, what the servers of "code" count is served live."""
_PACES = {"code-spec": (224.4, 268.1), "code-plain": (57.3, 112.3)}
"""Stretches of the tapes with four requests at a time; live traffic goes on at their pace."""


class Stage:
    """All of it, as a context manager."""

    def __init__(self, story: Story, clock: ScaledClock) -> None:
        self.key = secrets.token_bytes(32)
        """Signs orders to the router."""
        self._pages: queue.SimpleQueue[dict[str, object]] = queue.SimpleQueue()
        self._servers = {
            name: TapeServer(tape, clock, life(story, name)) for name, tape in story.tapes.items()
        }
        self._pager = Server(self._page)
        self._router = Router(self.urls["code-spec"], self.urls["code-plain"], self.key)
        self._clients = Clients(self._router.server.url, clock, LIVE_FROM)
        self._open = ExitStack()

    @property
    def urls(self) -> dict[str, str]:
        """The address of each server by the name of its tape."""
        return {name: tape.server.url for name, tape in self._servers.items()}

    @property
    def hook(self) -> str:
        """Where the router takes orders."""
        return self._router.server.url + SHARE_PATH

    @property
    def pager(self) -> str:
        """Where alerts are sent."""
        return self._pager.url

    @property
    def share(self) -> float:
        """The share of the requests that the router gives to the plain server."""
        return self._router.share

    def paged(self) -> Iterator[dict[str, object]]:
        """What has come over the pager since it was looked at last."""
        while not self._pages.empty():
            yield self._pages.get()

    def felt(self) -> Felt:
        """What the clients have noticed."""
        return self._clients.felt()

    def __enter__(self) -> Stage:
        servers = [tape.server for tape in self._servers.values()]
        parts: list[Server | Clients] = [*servers, self._pager, self._router.server, self._clients]
        for part in parts:
            part.start()
            self._open.callback(part.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _page(self, asked: Asked) -> Said:
        self._pages.put(json.loads(asked.body))
        return in_json(200, {})


def life(story: Story, name: str, begins: float = LIVE_FROM) -> Life | None:
    """How the server behind a tape goes on live; None for one that only plays its tape."""
    if name not in _PACES:
        return None
    tape, (first, last) = story.tapes[name], _PACES[name]
    pages = (tape.page(LIVE_FROM), tape.page(first), tape.page(last))
    if None in pages:
        raise ValueError(f"the tape of {name} has a gap where its pace is to be read")
    return Life(begins, Growth(*(page for page in pages if page is not None)))
