"""Requests without a pause through a router or proxy, while something is changed behind it."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from plain_workers import MODEL

_BODY = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "x"}]})
_PATIENCE = 60.0


class Load:
    """Some clients that ask one after the other, and note who answered."""

    def __init__(self, port: int, clients: int, key: str) -> None:
        self._port = port
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        self._over = threading.Event()
        self._moved = threading.Condition()
        self.answers: list[str] = []
        """Names of the workers, in the order in which they answered."""
        self.failures: list[str] = []
        self._counts = [0] * clients
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(clients)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(_PATIENCE)

    def next(self, count: int) -> Counter[str]:
        """Who gives the next ``count`` answers."""
        with self._moved:
            start = len(self.answers)
            self._wait(lambda: len(self.answers) >= start + count)
            return Counter(self.answers[start : start + count])

    def settle(self) -> None:
        """Lets those answers come that were on their way already."""
        with self._moved:
            wanted = [count + 2 for count in self._counts]
            self._wait(lambda: all(a >= b for a, b in zip(self._counts, wanted, strict=True)))

    def _wait(self, is_so: Callable[[], bool]) -> None:
        assert self._moved.wait_for(lambda: is_so() or self.failures, _PATIENCE), "no answers"
        assert not self.failures, self.failures[:3]

    def _ask(self, number: int) -> None:
        while not self._over.is_set():
            try:
                name, problem = self._once(), None
            except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
                name, problem = "", repr(error)
            with self._moved:
                self._counts[number] += 1
                if problem is None:
                    self.answers.append(name)
                else:
                    self.failures.append(problem)
                self._moved.notify_all()

    def _once(self) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_PATIENCE)
        try:
            connection.request("POST", "/v1/chat/completions", _BODY, self._headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != http.client.OK:
                raise ValueError(f"HTTP {answer.status}: {content[:200]!r}")
            document: dict[str, Any] = json.loads(content)
            name: str = document["choices"][0]["message"]["content"]
            return name
        finally:
            connection.close()


@contextmanager
def load(port: int, *, clients: int = 3, key: str = "any") -> Iterator[Load]:
    """Clients that ask until the block is left."""
    running = Load(port, clients, key)
    running.start()
    try:
        yield running
    finally:
        running.stop()
    assert not running.failures, running.failures[:3]


def wait_until(is_so: Callable[[], bool], what: str, tries: int = 600) -> None:
    """Looks until something is so, for at most a minute."""
    pause = threading.Event()
    for _ in range(tries):
        if is_so():
            return
        pause.wait(0.1)
    raise AssertionError(f"{what} did not come true")
