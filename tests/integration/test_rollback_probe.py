"""Looks at real servers on loopback that serve, load, hang, lie and die."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_receivers import Behave, drip, endless_body, flood, hang, receiver
from openai_server import Handler, OpenAI, openai_server
from pydantic import SecretStr

from monitor.clock import SystemClock
from monitor.rollback.evidence import Completion, Pulse
from monitor.rollback.ports import Probe
from monitor.rollback.probe import ServiceProbe
from monitor.rollback.server_probe import TOKENS, ServerProbe
from monitor.settings import Credentials, TargetSettings

DATA = Path(__file__).parents[1] / "data"
VLLM = "vllm/02-ngram-c16-2end.prom.gz"
SGLANG = "sglang/real-server-0.5.23-cpu/05_high.prom.gz"


@pytest.fixture
def server() -> Iterator[OpenAI]:
    with openai_server() as running:
        yield running


def page(name: str) -> bytes:
    return gzip.decompress((DATA / name).read_bytes())


def target(url: str, name: str = "plain", key: str | None = None) -> TargetSettings:
    credentials = Credentials(bearer=None if key is None else SecretStr(key))
    return TargetSettings(name, "chat", f"{url}/metrics", credentials=credentials)


def complete(url: str, timeout: float = 10.0, key: str | None = None) -> Completion:
    (found,) = ServiceProbe([target(url, key=key)], []).complete_baseline(timeout)
    return found


def pulse(url: str, timeout: float = 10.0) -> Pulse:
    (found,) = ServiceProbe([], [target(url)]).pulse_speculative(timeout)
    return found


def test_a_server_that_serves_gives_tokens(server: OpenAI) -> None:
    found = complete(server.url)
    assert (found.tokens, found.model, found.error) == (TOKENS, "demo", None)
    assert server.paths == ["/v1/models", "/v1/completions"]
    assert server.bodies[0]["model"] == "demo"


def test_two_looks_never_ask_the_same(server: OpenAI) -> None:
    # A prompt that was asked before could be answered by a cache in front of a dead engine.
    for _ in range(2):
        complete(server.url)
    first, second = (body["prompt"] for body in server.bodies)
    assert first != second


def test_a_model_that_is_configured_is_asked_for_on_the_baseline_side(server: OpenAI) -> None:
    side = [target(server.url)]
    probe: Probe = ServiceProbe(side, side, model="mine")
    (found,) = probe.complete_baseline(10.0)
    assert found.error is None
    assert server.paths == ["/v1/completions"]
    assert server.bodies[0]["model"] == "mine"
    probe.complete_speculative(10.0)
    assert server.bodies[1]["model"] != "mine"


def test_a_server_that_only_chats_is_asked_so_from_then_on(server: OpenAI) -> None:
    server.chat_only = True
    probe = ServerProbe(target(server.url), None, SystemClock())
    for _ in range(2):
        assert probe.complete(10.0).tokens == TOKENS
    asked = [path for path in server.paths if path != "/v1/models"]
    assert asked == ["/v1/completions", "/v1/chat/completions", "/v1/chat/completions"]


def test_the_key_of_the_target_is_used(server: OpenAI) -> None:
    server.key = "right"
    assert complete(server.url).error == "HTTP 401"
    assert complete(server.url, key="right").error is None


def test_a_server_that_lists_models_and_hangs_is_no_server(server: OpenAI) -> None:
    server.misbehave = lambda _: server.over.wait(30)
    found = complete(server.url, 0.4)
    assert found.tokens == 0
    assert str(found.error).startswith("no answer within 0.")


def stop_in_the_middle(handler: Handler) -> bool:
    handler.events([json.dumps({"choices": [{"text": "x"}]})], done=False)
    return True


def report_an_error(handler: Handler) -> bool:
    handler.events([json.dumps({"error": {"message": "the engine is dead"}})])
    return True


def refuse(handler: Handler) -> bool:
    handler.reply(503, b"loading", **{"Content-Type": "text/plain"})
    return True


@pytest.mark.parametrize(
    ("misbehave", "error"),
    [
        (stop_in_the_middle, "the stream ended early"),
        (report_an_error, "the server reports: the engine is dead"),
        (refuse, "HTTP 503: loading"),
    ],
)
def test_answers_that_are_none_are_told(server: OpenAI, misbehave: object, error: str) -> None:
    server.misbehave = misbehave  # type: ignore[assignment]
    assert complete(server.url).error == error


@pytest.mark.parametrize("behave", [hang, drip, flood, endless_body])
def test_nothing_that_a_server_does_holds_us_or_raises(behave: Behave) -> None:
    with receiver(behave) as peer:
        url = f"http://127.0.0.1:{peer.port}"
        assert complete(url, 0.5).error
        assert pulse(url, 0.5).error
        assert ServiceProbe([target(url)], []).progress_baseline(0.5).mark.startswith("plain: ")


def test_a_server_that_hangs_delays_no_other(server: OpenAI) -> None:
    with receiver(hang) as peer:
        side = [target(f"http://127.0.0.1:{peer.port}", "dead"), target(server.url, "alive")]
        dead, alive = ServiceProbe(side, []).complete_baseline(0.5)
    assert (dead.target, alive.target) == ("dead", "alive")
    assert dead.error
    assert alive.tokens == TOKENS


def test_a_look_that_has_not_ended_is_not_joined_by_another(
    server: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = socket.getaddrinfo, []

    def slow(*args: object, **options: object) -> object:
        asked.append(args)
        server.over.wait(30)
        return real(*args, **options)  # type: ignore[arg-type]

    probe = ServiceProbe([target(server.url)], [])
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    (first,) = probe.complete_baseline(0.1)
    (second,) = probe.complete_baseline(0.1)
    assert first.error == "no answer within 0.1 s"
    assert second.error == "the look before this one has not ended"
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("name", "model", "tokens", "decode_tokens"),
    # SGLang tells how long tokens took on another page, or once it has streamed.
    [(VLLM, "tiny-py-llama", 3856.0, 3809.0), (SGLANG, "tiny", 122.0, None)],
)
def test_a_page_is_read_into_figures(
    server: OpenAI, name: str, model: str, tokens: float, decode_tokens: float | None
) -> None:
    server.page = lambda: page(name)
    found = pulse(server.url)
    assert found.error is None
    assert (found.running, found.waiting, found.failures) == (0.0, 0.0, 0.0)
    assert (found.model, found.output_tokens) == (model, tokens)
    assert found.requests
    assert found.decode_tokens == decode_tokens
    assert (found.decode_seconds is None) == (decode_tokens is None)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"<html>", "not a metrics page: it begins like HTML, XML, JSON or binary data"),
        (b"# HELP a b\nup 1\n", "the page has no metric of an engine we know"),
        (None, "HTTP 404"),
    ],
)
def test_pages_that_are_none_are_told(server: OpenAI, body: bytes | None, error: str) -> None:
    server.page = lambda: body
    assert pulse(server.url).error == error


def test_an_engine_that_is_gone_from_the_page_is_no_counter_that_fell(server: OpenAI) -> None:
    def lines(*engines: int) -> bytes:
        start = "process_start_time_seconds 100\n"
        tokens = 'vllm:generation_tokens_total{{engine="{0}",model_name="m"}} 50\n'
        return (start + "".join(tokens.format(engine) for engine in engines)).encode()

    probe = ServerProbe(target(server.url), None, SystemClock())
    counts = []
    for engines in ((0, 1), (0,), (0, 1)):
        server.page = lambda engines=engines: lines(*engines)  # type: ignore[misc]
        counts.append(probe.pulse(10.0).output_tokens)
    assert counts == [100.0, None, 100.0]


def test_loading_is_seen_to_go_on(server: OpenAI) -> None:
    probe = ServiceProbe([target(server.url)], [])
    marks = []
    for body in (b"up 0\n", b"up 0\n", b"up 1\n"):
        server.page = lambda body=body: body  # type: ignore[misc]
        marks.append(probe.progress_baseline(10.0).mark)
    assert marks[0] == marks[1] != marks[2]


def test_a_server_that_does_not_listen_yet_is_no_progress() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    probe = ServiceProbe([], [target(url)])
    first, second = (probe.progress_speculative(5.0).mark for _ in range(2))
    assert first == second == "plain: the connection failed: Connection refused"
