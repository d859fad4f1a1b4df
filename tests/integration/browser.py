"""Debian's Chromium, without a screen, driven by its debugging protocol."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import requests
from websocket import WebSocket, create_connection

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is missing: install Debian's chromium"
)
_PATIENCE = 60.0
_LISTENING = "DevTools listening on "
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--remote-debugging-port=0",
)


class Tab:
    """The one tab of a browser."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._numbers = count(1)
        self.events: list[dict[str, Any]] = []
        """What it has told without being asked."""
        for domain in ("Page", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Has something done; gives the answer."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (message := self._next()).get("id") != number:
            self.events.append(message)
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    def show(self, url: str, *, width: int, height: int = 800) -> None:
        """Loads a page in a window of this size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.events.clear()
        self.call("Page.navigate", url=url)
        while all(event.get("method") != "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        # A page that is loaded again in mid-test would be another one.
        self.value("window.stop()")

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript comes to on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """What the browser had to say against the page."""
        bad = {"Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"}
        return [event for event in self.events if event.get("method") in bad]

    def _next(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv())
        return message


@contextmanager
def browsing(folder: Path) -> Iterator[Tab]:
    """A browser of its own, whose profile is in ``folder``."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if line.startswith(_LISTENING))
            origin = (
                line.removeprefix(_LISTENING).replace("ws://", "http://").split("/devtools")[0]
            )
            tabs = requests.get(f"{origin}/json/list", timeout=_PATIENCE).json()
            address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
            with closing(
                create_connection(address, timeout=_PATIENCE, suppress_origin=True)
            ) as socket:
                yield Tab(socket)
        finally:
            process.terminate()
