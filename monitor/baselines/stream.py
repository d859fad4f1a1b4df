"""One streamed completion of an OpenAI-compatible server, and when its tokens came.

A chunk of the stream may hold several tokens (speculation does just that), so tokens are never
counted by chunks but taken from the ``usage`` that ends the stream.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol

import requests
from pydantic import SecretStr
from urllib3.exceptions import HTTPError

from monitor import __version__
from monitor.clock import Clock
from monitor.model import MonitorError

_PIECE = 64 * 1024
_LONGEST_LINE = 1024 * 1024
_CONNECT_SECONDS = 10.0
_SHOWN = 200
_MAX_ANSWER = 1024 * 1024
# Requests wraps most errors of urllib3, but not those of a body that is read piece by piece.
_NETWORK_ERRORS = (requests.RequestException, HTTPError, OSError)


class RequestError(MonitorError):
    """A request of a load run failed; the text is one line."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class StoppedError(Exception):
    """The answer is no longer wanted."""


@dataclass(frozen=True, slots=True)
class Reply:
    """When the parts of an answer came, on the steady clock."""

    sent_at: float
    first_at: float
    last_at: float
    tokens: int
    prompt_tokens: int | None
    chunks: int
    model: str | None = None
    """The model that the answer names."""

    @property
    def decode_seconds(self) -> float:
        """From the first chunk to the last one."""
        return self.last_at - self.first_at


class Transport(Protocol):
    """What carries requests to one server; for several threads at a time."""

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[bytes]:
        """The pieces of an answer as they come; ``RequestError`` where there is none."""
        ...

    def get(self, path: str) -> Any:
        """The JSON answer to a GET."""
        ...

    def close(self) -> None:
        """Lets go of the calling thread's connection."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the server, apart from the prompt."""

    model: str
    output_tokens: int
    chat: bool = False

    @property
    def path(self) -> str:
        """Where the request goes."""
        return "/v1/chat/completions" if self.chat else "/v1/completions"

    def body(self, prompt: str) -> dict[str, Any]:
        """The request's JSON: greedy, of fixed length, streamed, with usage at the end."""
        asked: dict[str, Any] = {"prompt": prompt}
        if self.chat:
            asked = {"messages": [{"role": "user", "content": prompt}]}
        return {
            "model": self.model,
            **asked,
            "max_tokens": self.output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


@dataclass(slots=True)
class _Stream:
    """What has been seen of one answer."""

    first_at: float | None = None
    last_at: float = 0.0
    chunks: int = 0
    tokens: int | None = None
    prompt_tokens: int | None = None
    model: str | None = None
    ended: bool = False
    rest: bytearray = field(default_factory=bytearray)

    def take(self, piece: bytes, now: float) -> None:
        """Takes in some bytes that came at ``now``."""
        self.rest += piece
        while (end := self.rest.find(b"\n")) >= 0:
            line = bytes(self.rest[:end]).strip()
            del self.rest[: end + 1]
            self._line(line, now)
        if len(self.rest) > _LONGEST_LINE:
            raise RequestError("a line of the stream has no end")

    def _line(self, line: bytes, now: float) -> None:
        if line.startswith((b"<", b"{")):
            raise RequestError("the answer is no event stream (a proxy's page?)")
        if self.ended or not line.startswith(b"data:"):
            return
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            self.ended = True
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            raise RequestError("a chunk of the stream is not JSON") from None
        if not isinstance(event, dict):
            raise RequestError("a chunk of the stream is no JSON object")
        self._event(event, now)

    def _event(self, event: dict[str, Any], now: float) -> None:
        if event.get("error"):
            raise RequestError(f"the server reports: {_message(event)}")
        usage = event.get("usage")
        if isinstance(usage, dict):
            self.tokens = _count(usage.get("completion_tokens"), self.tokens)
            self.prompt_tokens = _count(usage.get("prompt_tokens"), self.prompt_tokens)
        if isinstance(event.get("model"), str):
            self.model = event["model"]
        choices = event.get("choices")
        if isinstance(choices, list) and choices and _holds_tokens(choices[0]):
            self.first_at = now if self.first_at is None else self.first_at
            self.last_at = now
            self.chunks += 1

    def reply(self, sent_at: float) -> Reply:
        """The whole answer."""
        if not self.ended or self.first_at is None:
            raise RequestError("the stream ended early")
        if self.tokens is None:
            raise RequestError(
                "the server sends no usage, so its tokens cannot be counted"
                " (stream_options.include_usage)"
            )
        return Reply(
            sent_at,
            self.first_at,
            self.last_at,
            self.tokens,
            self.prompt_tokens,
            self.chunks,
            self.model,
        )


def ask(
    transport: Transport,
    request: Request,
    prompt: str,
    *,
    clock: Clock,
    timeout: float,
    stopped: Callable[[], bool] = lambda: False,
) -> Reply:
    """Sends one request and reads its answer to the end.

    Raises:
        RequestError: there was no whole answer within ``timeout`` seconds.
        StoppedError: ``stopped`` said that the answer is no longer wanted.
    """
    sent_at = clock.monotonic()
    seen = _Stream()
    with _closing(transport.stream(request.path, request.body(prompt))) as pieces:
        for piece in pieces:
            now = clock.monotonic()
            if stopped():
                raise StoppedError
            if now - sent_at > timeout:
                raise RequestError(f"no whole answer within {timeout:g} s")
            seen.take(piece, now)
            if seen.ended:
                break
    return seen.reply(sent_at)


def first_model(transport: Transport) -> str:
    """The first model that the server names."""
    answer = transport.get("/v1/models")
    models = answer.get("data") if isinstance(answer, dict) else None
    name = models[0].get("id") if models and isinstance(models[0], dict) else None
    if not isinstance(name, str) or not name:
        raise RequestError("/v1/models names no model: give --model NAME")
    return name


@contextmanager
def _closing(pieces: Iterable[bytes]) -> Iterator[Iterable[bytes]]:
    try:
        yield pieces
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()


def _holds_tokens(choice: object) -> bool:
    """Whether a chunk brings tokens; the first one of a chat may name nothing but the role."""
    if not isinstance(choice, dict):
        return False
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return True
    words = [value for key, value in delta.items() if key != "role"]
    return any(words) or "role" not in delta


def _count(value: object, before: int | None) -> int | None:
    return value if type(value) is int and value >= 0 else before


def _message(document: object) -> str:
    found = document
    for key in ("error", "message", "detail"):
        if isinstance(found, dict) and key in found:
            found = found[key]
    text = " ".join(str(found).split())
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


class HttpTransport:
    """Requests to one server over HTTP, on one connection for each thread."""

    def __init__(self, base_url: str, *, timeout: float, api_key: SecretStr | None = None) -> None:
        self._base = base_url
        self._timeouts = (min(_CONNECT_SECONDS, timeout), timeout)
        self._key = api_key
        self._local = threading.local()

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[bytes]:
        """The pieces of the answer to a POST, each as soon as it came."""
        with self._send("POST", path, json=body) as response:
            try:
                yield from pieces(response)
            except _NETWORK_ERRORS as error:
                raise RequestError(_reason(error, self._timeouts[1])) from None

    def get(self, path: str) -> Any:
        """The JSON answer to a GET."""
        with self._send("GET", path) as response:
            try:
                content = response.raw.read(_MAX_ANSWER, decode_content=True)
                return json.loads(content)
            except _NETWORK_ERRORS as error:
                raise RequestError(_reason(error, self._timeouts[1])) from None
            except (ValueError, RecursionError):
                raise RequestError(f"{path} is not JSON") from None

    def close(self) -> None:
        """Closes the calling thread's connection."""
        session = getattr(self._local, "session", None)
        if session is not None:
            session.close()
            self._local.session = None

    @contextmanager
    def _send(self, method: str, path: str, **options: Any) -> Iterator[requests.Response]:
        try:
            response = self._session().request(
                method,
                self._base + path,
                stream=True,
                timeout=self._timeouts,
                allow_redirects=False,
                **options,
            )
        except _NETWORK_ERRORS as error:
            raise RequestError(_reason(error, self._timeouts[1])) from None
        with response:
            if response.status_code != HTTPStatus.OK:
                raise RequestError(self._refusal(response), status=response.status_code)
            yield response

    def _session(self) -> requests.Session:
        session = getattr(self._local, "session", None)
        if session is None:
            session = requests.Session()
            # Proxies and credentials of the environment are not meant for this server.
            session.trust_env = False
            session.headers["User-Agent"] = f"specdec-monitor/{__version__}"
            session.headers["Accept-Encoding"] = "identity"
            if self._key is not None:
                session.headers["Authorization"] = f"Bearer {self._key.get_secret_value()}"
            self._local.session = session
        found: requests.Session = session
        return found

    def _refusal(self, response: requests.Response) -> str:
        status = response.status_code
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return f"HTTP {status}: the API key is missing or wrong (--api-key-file)"
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            return f"HTTP {status}: redirects are not followed"
        try:
            content = response.raw.read(_MAX_ANSWER, decode_content=True)
            text = _message(json.loads(content))
        except (*_NETWORK_ERRORS, ValueError, RecursionError):
            return f"HTTP {status}"
        if self._key is not None:
            text = text.replace(self._key.get_secret_value(), "***")
        return f"HTTP {status}: {text}"


def pieces(response: requests.Response) -> Iterator[bytes]:
    """What came, whenever something came: waiting for a full buffer would blur the times."""
    raw = response.raw
    if getattr(raw, "chunked", False):
        yield from raw.stream(_PIECE, decode_content=True)
        return
    while piece := raw.read1(_PIECE, decode_content=True):
        yield piece


def _reason(error: Exception, timeout: float) -> str:
    text = str(error).lower()
    if isinstance(error, requests.Timeout | TimeoutError) or "timed out" in text:
        return f"no answer within {timeout:g} s"
    if "refused" in text:
        return "the connection was refused"
    if isinstance(error, requests.exceptions.SSLError):
        return "TLS failed: the server's certificate is not accepted"
    if "name or service" in text or "resolve" in text:
        return "the host name cannot be resolved"
    return "the connection broke"
