"""Load runs against a server that lives in a thread's own time: nothing here really waits."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from monitor.baselines.bench import BenchError, Ladder, LevelResult, choose_path, run_ladder
from monitor.baselines.prompts import BUILT_IN, prompt_for, read_prompts
from monitor.baselines.stream import (
    HttpTransport,
    Request,
    RequestError,
    StoppedError,
    ask,
    first_model,
)


class ThreadClock:
    """Each thread has a time of its own, which only its own answers move."""

    def __init__(self) -> None:
        self._local = threading.local()

    def utc(self) -> float:
        return 1_800_000_000.0 + self.monotonic()

    def monotonic(self) -> float:
        return getattr(self._local, "now", 0.0)

    def sleep(self, seconds: float) -> None:
        self._local.now = self.monotonic() + seconds


def event(text: str = "x", **more: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"text": text}], **more}).encode() + b"\n\n"


def usage(tokens: int, prompt_tokens: int = 30) -> bytes:
    figures = {"completion_tokens": tokens, "prompt_tokens": prompt_tokens}
    return b"data: " + json.dumps({"choices": [], "usage": figures}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


class Decoder:
    """Streams answers at a settable speed, several tokens a chunk if it is told so."""

    def __init__(
        self,
        clock: ThreadClock,
        tpot: float = 0.01,
        *,
        ttft: float = 0.2,
        per_chunk: int = 1,
        fails: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._clock = clock
        self.tpot, self._ttft, self._per_chunk, self._fails = tpot, ttft, per_chunk, fails
        self.bodies: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.chat_only = False

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[bytes]:
        with self.lock:
            self.bodies.append(body)
            number = len(self.bodies)
        self._clock.sleep(self._ttft)
        if self.chat_only and not path.endswith("chat/completions"):
            raise RequestError("HTTP 404", status=404)
        if self._fails(number):
            raise RequestError("HTTP 500: out of memory", status=500)
        tokens = body["max_tokens"]
        yield event()
        for first in range(1, tokens, self._per_chunk):
            self._clock.sleep(self.tpot * min(self._per_chunk, tokens - first))
            yield event()
        yield usage(tokens)
        yield DONE

    def get(self, path: str) -> Any:
        assert path == "/v1/models"
        return {"data": [{"id": "demo"}]}

    def close(self) -> None:
        pass


REQUEST = Request("demo", 50)


def run(decoder: Decoder, clock: ThreadClock, ladder: Ladder, **more: Any) -> list[LevelResult]:
    return run_ladder(decoder, REQUEST, ladder, clock=clock, **more)


def test_a_ladder_measures_the_time_per_token() -> None:
    clock = ThreadClock()
    decoder = Decoder(clock)

    def before(concurrency: int) -> None:
        decoder.tpot = 0.01 + 0.001 * concurrency

    results = run(decoder, clock, Ladder((1, 2, 4), 20.0), before=before)
    assert [result.concurrency for result in results] == [1, 2, 4]
    assert [result.tpot for result in results] == pytest.approx([0.011, 0.012, 0.014])
    assert [result.errors for result in results] == [0, 0, 0]
    one = results[0]
    assert one.ttft == pytest.approx(0.2)
    assert one.context == 30
    assert one.spread == pytest.approx(0.0, abs=1e-6)
    assert one.tokens_per_chunk == 1.0
    assert one.seconds == pytest.approx(20.0, abs=1.0)
    # One answer takes 0.2 + 49 · 0.011 s.
    assert one.requests == 28


def test_several_tokens_a_chunk_are_counted_by_usage() -> None:
    clock = ThreadClock()
    (result,) = run(Decoder(clock, 0.004, per_chunk=3), clock, Ladder((2,), 5.0))
    assert result.tpot == pytest.approx(0.004)
    assert result.tokens_per_chunk == pytest.approx(50 / 18)


def test_warm_up_requests_do_not_count() -> None:
    clock = ThreadClock()
    decoder = Decoder(clock)
    (result,) = run(decoder, clock, Ladder((1,), 20.0, requests=10))
    assert result.requests == 10
    assert len(decoder.bodies) == 11


def test_a_slow_server_brings_one_figure_for_each_thread() -> None:
    clock = ThreadClock()
    (result,) = run(Decoder(clock, 2.0), clock, Ladder((3,), 1.0))
    assert result.requests == 3
    assert result.tpot == pytest.approx(2.0)


def test_what_is_asked() -> None:
    clock = ThreadClock()
    decoder = Decoder(clock)
    run(decoder, clock, Ladder((1,), 1.0, requests=2, prompts=("one", "two")))
    body = decoder.bodies[0]
    assert body == {
        "model": "demo",
        "prompt": "one",
        "max_tokens": 50,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert [body["prompt"] for body in decoder.bodies] == ["one", "two", "one"]
    chat = Request("demo", 5, chat=True)
    assert chat.body("hi")["messages"] == [{"role": "user", "content": "hi"}]
    assert chat.path == "/v1/chat/completions"


def test_a_few_errors_are_counted() -> None:
    clock = ThreadClock()
    decoder = Decoder(clock, fails=lambda number: number == 30)
    (result,) = run(decoder, clock, Ladder((1,), 1.0, requests=60))
    assert (result.requests, result.errors) == (59, 1)


@pytest.mark.parametrize("share", [1, 5])
def test_many_errors_end_the_run(share: int) -> None:
    clock = ThreadClock()
    decoder = Decoder(clock, fails=lambda number: number % share == 0)
    with pytest.raises(
        BenchError, match=r"given up at concurrency 2: .*\(HTTP 500: out of memory"
    ):
        run(decoder, clock, Ladder((2, 4), 1e6))
    assert len(decoder.bodies) < 60


def test_an_unexpected_error_is_not_swallowed() -> None:
    clock = ThreadClock()

    def broken(number: int) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(Decoder(clock, fails=broken), clock, Ladder((2,), 1.0))


def test_an_answer_that_comes_at_once_has_no_time_per_token() -> None:
    clock = ThreadClock()
    with pytest.raises(BenchError, match="does a proxy hold the stream back"):
        run(Decoder(clock, 0.0), clock, Ladder((1,), 1.0, requests=2))


def test_answers_of_one_token_have_no_time_per_token() -> None:
    clock = ThreadClock()
    with pytest.raises(BenchError, match="no answer had two tokens"):
        run_ladder(Decoder(clock), Request("demo", 1), Ladder((1,), 1.0, requests=2), clock=clock)


def test_chat_is_used_where_there_are_no_completions() -> None:
    clock = ThreadClock()
    decoder = Decoder(clock)
    assert not choose_path(decoder, "demo", 5, 10.0, clock).chat
    decoder.chat_only = True
    assert choose_path(decoder, "demo", 5, 10.0, clock).chat
    failing = Decoder(clock, fails=lambda _: True)
    with pytest.raises(BenchError, match="the first request failed: HTTP 500"):
        choose_path(failing, "demo", 5, 10.0, clock)


class Scripted:
    """Answers with the pieces it was given."""

    def __init__(self, clock: ThreadClock, *pieces: bytes, pause: float = 0.1) -> None:
        self._clock, self._pieces, self._pause = clock, pieces, pause
        self.models: Any = {"data": [{"id": "demo"}]}

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[bytes]:
        assert path == REQUEST.path
        assert body["stream"]
        for piece in self._pieces:
            self._clock.sleep(self._pause)
            yield piece

    def get(self, path: str) -> Any:
        assert path == "/v1/models"
        return self.models

    def close(self) -> None:
        pass


def answer(*pieces: bytes, timeout: float = 60.0) -> Any:
    clock = ThreadClock()
    return ask(Scripted(clock, *pieces), REQUEST, "hi", clock=clock, timeout=timeout)


def test_pieces_need_not_be_whole_lines() -> None:
    text = event() + b": a comment\n\nevent: x\n\n" + event() + event("") + usage(4) + DONE
    whole = answer(text)
    assert (whole.chunks, whole.tokens, whole.prompt_tokens) == (3, 4, 30)
    parts = answer(*(text[at : at + 7] for at in range(0, len(text), 7)))
    assert (parts.chunks, parts.tokens) == (3, 4)
    crlf = answer(text.replace(b"\n", b"\r\n"))
    assert crlf.chunks == 3


def test_the_role_of_a_chat_is_no_token() -> None:
    def delta(**parts: Any) -> bytes:
        return b"data: " + json.dumps({"choices": [{"delta": parts}]}).encode() + b"\n\n"

    reply = answer(
        delta(role="assistant", content=""),
        delta(content="a"),
        delta(reasoning_content="b"),
        delta(),
        usage(3) + DONE,
    )
    assert reply.chunks == 3
    assert reply.first_at == pytest.approx(0.2)
    assert reply.decode_seconds == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("pieces", "line"),
    [
        ((event(), DONE), "the server sends no usage"),
        ((event(), b"data: {'no': 1}\n\n"), "a chunk of the stream is not JSON"),
        ((b"data: " + b"[" * 100_000 + b"\n",), "a chunk of the stream is not JSON"),
        ((b"data: 3\n\n",), "a chunk of the stream is no JSON object"),
        ((b"<html>\n",), "the answer is no event stream"),
        ((b'{"error": "x"}\n',), "the answer is no event stream"),
        ((event(), usage(3)), "the stream ended early"),
        ((), "the stream ended early"),
        ((usage(3) + DONE,), "the stream ended early"),
        ((b"x" * 1_100_000,), "a line of the stream has no end"),
        (
            (b'data: {"error": {"message": "out of\\u001b memory"}}\n',),
            "the server reports: out of? memory",
        ),
        (
            (event(), b'data: {"choices": [], "usage": {"completion_tokens": "3"}}\n', DONE),
            "usage",
        ),
    ],
)
def test_a_bad_stream_is_one_line(pieces: tuple[bytes, ...], line: str) -> None:
    with pytest.raises(RequestError, match=r"\w") as caught:
        answer(*pieces)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_stream_that_drips_for_ever_is_given_up() -> None:
    with pytest.raises(RequestError, match="no whole answer within 5 s"):
        answer(*[event()] * 100, timeout=5.0)


def test_an_answer_that_is_no_longer_wanted_is_dropped() -> None:
    clock = ThreadClock()
    with pytest.raises(StoppedError):
        ask(
            Scripted(clock, event()),
            REQUEST,
            "hi",
            clock=clock,
            timeout=60.0,
            stopped=lambda: True,
        )


@pytest.mark.parametrize("models", [None, [], {}, {"data": []}, {"data": [3]}, {"data": [{}]}])
def test_a_list_without_models_is_one_line(models: Any) -> None:
    scripted = Scripted(ThreadClock())
    scripted.models = models
    with pytest.raises(RequestError, match="names no model: give --model"):
        first_model(scripted)


def test_prompts(tmp_path: Any) -> None:
    assert len(BUILT_IN) == len(set(BUILT_IN)) >= 20
    assert prompt_for(0) != prompt_for(len(BUILT_IN))
    assert prompt_for(3, ("a", "b")) == "b"
    path = tmp_path / "prompts"
    path.write_text("one\n\n two \n")
    assert read_prompts(path) == ("one", "two")
    path.write_text("\n")
    with pytest.raises(ValueError, match="holds no prompt"):
        read_prompts(path)


def test_a_server_that_is_not_there_is_one_line() -> None:
    transport = HttpTransport("http://127.0.0.1:9", timeout=2.0, api_key=SecretStr("key"))
    with pytest.raises(RequestError, match="the connection was refused"):
        transport.get("/v1/models")
    transport.close()
