"""Looks at one server: a short completion, its metrics page, a sign that it loads."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from monitor.alerting.wording import plain
from monitor.baselines.stream import Reply, Request, RequestError, ask, first_model, pieces
from monitor.clock import Clock
from monitor.engines.reader import PageReader
from monitor.engines.served import read_served
from monitor.logs import REDACTOR
from monitor.model import PageError, Reading, ScrapeError
from monitor.rollback.evidence import Completion, Pulse
from monitor.settings import TargetSettings
from monitor.sources.address import parse_url
from monitor.sources.errors import FetchError
from monitor.sources.scrape import Scraper
from monitor.sources.session import GuardedSession, beginning

TOKENS = 8
"""Asked for with each completion: several decode steps, and next to no load."""
_MAX_ANSWER = 1024 * 1024
_SHOWN = 160
_NO_SUCH_PATH = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})


class ServerProbe:
    """One server. Not for two threads at a time."""

    def __init__(self, settings: TargetSettings, model: str | None, clock: Clock) -> None:
        self.name = settings.name
        self._settings = settings
        self._model = model
        self._clock = clock
        address = parse_url(settings.url)
        self._base = f"{address.scheme}://{address.authority}{address.base_path}"
        self._metrics = f"{address.scheme}://{address.authority}{address.resource}"
        self._is_chat = False
        self._scraper = Scraper(settings)
        self._reader = PageReader(settings.engine, settings.draft_size)
        self._birth: float | None = None
        self._shown: dict[str, set[str]] = {}
        """Which engines of the server have shown a counter since it started."""

    def complete(self, timeout: float) -> Completion:
        """Asks for a few tokens; whatever goes wrong is part of the answer."""
        at, started = self._clock.utc(), self._clock.monotonic()
        transport = _Transport(self._settings, self._base, timeout)
        try:
            model = self._model or first_model(transport)
            # The number keeps a cache from answering for the engine.
            prompt = f"Count on from {round(at * 1000)}:"
            reply = self._ask(transport, model, prompt, timeout)
        except (RequestError, FetchError) as error:
            took = self._clock.monotonic() - started
            return Completion(self.name, at, took, error=_line(error))
        finally:
            transport.close()
        took = self._clock.monotonic() - started
        return Completion(self.name, at, took, reply.tokens, reply.model)

    def pulse(self, timeout: float) -> Pulse:
        """Reads the metrics page; whatever goes wrong is part of the answer."""
        at = self._clock.utc()
        try:
            page = self._scraper.fetch(time.monotonic() + timeout)
            sample = self._reader.read(page.metrics, at, page.loads, page.about)
            served = read_served(page.metrics)
        except (ScrapeError, PageError) as error:
            return Pulse(self.name, at, error=_line(error))
        finally:
            # Looks are minutes apart, and all but a few servers close idle connections sooner.
            self._scraper.close()
        if sample.identity.engine is None:
            return Pulse(self.name, at, error="the page has no metric of an engine we know")
        readings = sample.readings
        births = [reading.birth for reading in readings if reading.birth is not None]
        birth = min(births, default=None)
        if birth != self._birth:
            self._birth, self._shown = birth, {}
        return Pulse(
            target=self.name,
            at=at,
            running=_sum([reading.running for reading in readings]),
            waiting=_sum([reading.waiting for reading in readings]),
            output_tokens=self._counted(readings, "output_tokens"),
            decode_seconds=self._counted(readings, "decode_seconds"),
            decode_tokens=self._counted(readings, "decode_tokens"),
            requests=served.requests,
            failures=served.failures,
            model=sample.identity.model,
            birth=birth,
        )

    def mark(self, timeout: float) -> str:
        """What can be seen of a server that may be loading: any change is progress."""
        session = GuardedSession(self._settings.credentials, max_bytes=_MAX_ANSWER)
        end = time.monotonic() + timeout
        seen = []
        try:
            for url in (f"{self._base}/health", self._metrics):
                with session.ask("GET", url, max(0.001, end - time.monotonic())) as answer:
                    content = answer.raw.read(_MAX_ANSWER, decode_content=False)
                    seen.append(f"HTTP {answer.status_code} {zlib.crc32(content):08x}")
        except FetchError as error:
            seen.append(_line(error))
        finally:
            session.close()
        return f"{self.name}: {', '.join(seen)}"

    def _counted(self, readings: list[Reading], name: str) -> float | None:
        """A counter, summed over the engines; None while one of them does not show it.

        A sum without one of its parts would read as a counter that fell.
        """
        found = {r.label: r.counters[name] for r in readings if name in r.counters}
        shown = self._shown.setdefault(name, set())
        if not found or not shown <= found.keys():
            return None
        shown.update(found)
        return sum(found.values())

    def _ask(self, transport: _Transport, model: str, prompt: str, timeout: float) -> Reply:
        request = Request(model, TOKENS, chat=self._is_chat)
        try:
            return ask(transport, request, prompt, clock=self._clock, timeout=timeout)
        except RequestError as error:
            if self._is_chat or error.status not in _NO_SUCH_PATH:
                raise
        # A server that only chats says so once.
        self._is_chat = True
        return self._ask(transport, model, prompt, timeout)


class _Transport:
    """Requests of one completion, all within one deadline."""

    def __init__(self, settings: TargetSettings, base: str, timeout: float) -> None:
        self._session = GuardedSession(settings.credentials, max_bytes=_MAX_ANSWER)
        self._base = base
        self._end = time.monotonic() + timeout

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[bytes]:
        """The pieces of the answer to a POST."""
        with self._session.ask(
            "POST", self._base + path, self._left(), json.dumps(body).encode()
        ) as answer:
            _check(answer)
            yield from pieces(answer)

    def get(self, path: str) -> Any:
        """The JSON answer to a GET."""
        with self._session.ask("GET", self._base + path, self._left()) as answer:
            _check(answer)
            content = answer.raw.read(_MAX_ANSWER, decode_content=False)
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise RequestError(f"{path} is not JSON") from None

    def close(self) -> None:
        """Closes the session."""
        self._session.close()

    def _left(self) -> float:
        # At the end nothing is left, which the session then says of a very short time.
        return max(0.001, self._end - time.monotonic())


def _check(answer: Any) -> None:
    status = answer.status_code
    if status != HTTPStatus.OK:
        said = beginning(answer)
        raise RequestError(f"HTTP {status}{f': {said}' if said else ''}", status=status)


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _line(error: Exception) -> str:
    return plain(REDACTOR.text(str(error)), _SHOWN)
