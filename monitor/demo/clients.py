"""Clients of the demo: they ask through the router, one request after the other."""

from __future__ import annotations

import http.client
import json
import threading
from collections import deque
from typing import NamedTuple

from monitor.demo.http import JSON
from monitor.demo.servers import MODEL, ScaledClock

CLIENTS = 4
"""As many as the recorded traffic had."""
TOKENS = 96
REMEMBERED = 40
"""Answers that the time per token is taken from."""
_PATIENCE = 60.0
_BODY = json.dumps({"model": MODEL, "prompt": "def", "max_tokens": TOKENS})


class Felt(NamedTuple):
    """What clients have noticed."""

    answers: int
    failures: int
    seconds_per_token: float | None
    """Of the last answers, in seconds of the story."""


class Clients:
    """Asks from ``begins`` on, in seconds after the beginning of the story, until closed."""

    def __init__(self, url: str, clock: ScaledClock, begins: float) -> None:
        self._host = url.removeprefix("http://")
        self._clock = clock
        self._begins = begins
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._answers = self._failures = 0
        self._last: deque[float] = deque(maxlen=REMEMBERED)
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(CLIENTS)]

    def start(self) -> None:
        """Begins to wait for the time to ask."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stops asking."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def felt(self) -> Felt:
        """What has been noticed so far."""
        with self._lock:
            took = sum(self._last) / len(self._last) if self._last else None
            return Felt(self._answers, self._failures, took)

    def _ask(self) -> None:
        wait = self._begins - self._clock.monotonic()
        self._over.wait(max(wait, 0.0) / self._clock.rate)
        while not self._over.is_set():
            began = self._clock.monotonic()
            is_good = self._once()
            took = self._clock.monotonic() - began
            with self._lock:
                self._answers += is_good
                self._failures += not is_good
                if is_good:
                    self._last.append(took / TOKENS)

    def _once(self) -> bool:
        connection = http.client.HTTPConnection(self._host, timeout=_PATIENCE)
        try:
            connection.request("POST", "/v1/completions", _BODY, {"Content-Type": JSON})
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            return False
        else:
            return answer.status == http.client.OK
        finally:
            connection.close()
