"""Model servers that play tapes on loopback and then go on by themselves."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass

from monitor.demo.growth import Growth
from monitor.demo.http import EVENTS, Asked, Said, Server, in_json
from monitor.demo.tape import Tape

MODEL = "tiny-py-llama"


class ScaledClock:
    """A clock that starts at a given time and runs ``rate`` times as fast as the machine's."""

    def __init__(self, start: float, rate: float) -> None:
        self.rate = rate
        self._start = start
        self._origin = time.monotonic()

    def utc(self) -> float:
        """Seconds since the Unix epoch, in the story."""
        return self._start + self.monotonic()

    def monotonic(self) -> float:
        """Seconds of the story since the clock was made."""
        return (time.monotonic() - self._origin) * self.rate

    def sleep(self, seconds: float) -> None:
        """Waits for ``seconds`` of the story."""
        time.sleep(seconds / self.rate)


@dataclass(frozen=True, slots=True)
class Life:
    """How a server goes on once its tape is over."""

    begins: float
    """Seconds after the beginning of the story; the tape counts up to here."""
    growth: Growth


class TapeServer:
    """One model server.

    ``/metrics`` shows the page of the moment, or 503 while it is down. With a ``Life``, it also
    gives completions, which take as long as they did when the pages were recorded, and counts
    them on its page.
    """

    def __init__(self, tape: Tape, clock: ScaledClock, life: Life | None = None) -> None:
        self._tape = tape
        self._clock = clock
        self._life = life
        self._lock = threading.Lock()
        self._tokens = 0
        self._running = 0
        self.server = Server(self._answer)
        """Where it listens; it must be started and closed."""

    def _answer(self, asked: Asked) -> Said:
        if asked.path == "/metrics":
            page = self._page()
            return Said(503, b"the server is restarting\n") if page is None else Said(200, page)
        if self._life is None:
            return Said(404, b"not found\n")
        if asked.path == "/v1/models":
            return in_json(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        if asked.method == "POST" and asked.path == "/v1/completions":
            return self._complete(self._life.growth, json.loads(asked.body))
        return Said(404, b"not found\n")

    def _page(self) -> bytes | None:
        now = self._clock.monotonic()
        if self._life is None or now < self._life.begins:
            return self._tape.page(now)
        with self._lock:
            return self._life.growth.page(self._tokens, self._running)

    def _complete(self, growth: Growth, asked: dict[str, object]) -> Said:
        tokens = int(str(asked["max_tokens"]))
        with self._lock:
            self._running += 1
        self._clock.sleep(tokens * growth.seconds_per_token)
        with self._lock:
            self._running -= 1
            self._tokens += tokens
        text = {"model": MODEL, "choices": [{"index": 0, "text": " pass" * tokens}]}
        usage = {"model": MODEL, "choices": [], "usage": {"completion_tokens": tokens}}
        if not asked.get("stream"):
            return in_json(200, {**text, "usage": usage["usage"]})
        events = (json.dumps(text), json.dumps(usage), "[DONE]")
        return Said(200, "".join(f"data: {event}\n\n" for event in events).encode(), EVENTS)
