"""Load runs and recordings over real HTTP, with servers that behave well or badly."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from openai_server import Handler, OpenAI, TickClock, openai_server
from pydantic import SecretStr

from monitor.baselines.bench import BenchError, Ladder, choose_path, run_ladder
from monitor.baselines.stream import HttpTransport, Request, RequestError, ask, first_model
from monitor.cli import baseline_bench, baseline_record
from monitor.cli.runner import run
from monitor.clock import FakeClock
from monitor.sources.scrape import Scraper
from monitor.store.connect import open_store
from monitor.store.repository import Repository

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from baseline_pages import NOON, Server

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def server() -> Iterator[OpenAI]:
    with openai_server() as server:
        yield server


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'monitor.db'}"


def attempt(server: OpenAI, timeout: float = 10.0, key: str | None = None) -> str:
    """The line that a failed request gives."""
    secret = SecretStr(key) if key else None
    transport = HttpTransport(server.url, timeout=timeout, api_key=secret)
    with pytest.raises(RequestError) as caught:
        ask(transport, Request("demo", 8), "hi", clock=TickClock(), timeout=60.0)
    transport.close()
    return str(caught.value)


@pytest.mark.parametrize("per_chunk", [1, 4])
def test_a_ladder_over_http(server: OpenAI, per_chunk: int) -> None:
    server.per_chunk = per_chunk
    transport = HttpTransport(server.url, timeout=10.0)
    request = Request(first_model(transport), 33)
    results = run_ladder(transport, request, Ladder((1, 4), 1.0, requests=12), clock=TickClock())
    transport.close()
    assert [(r.concurrency, r.requests, r.errors) for r in results] == [(1, 12, 0), (4, 12, 0)]
    chunks = 33 if per_chunk == 1 else 9
    for result in results:
        # One tick for each chunk after the first, whatever it holds.
        assert result.tpot == pytest.approx(0.01 * (chunks - 1) / 32)
        assert result.context == 20


def test_the_key_is_sent_and_never_shown(server: OpenAI) -> None:
    server.key = "sk-canary"
    assert attempt(server) == "HTTP 401: the API key is missing or wrong (--api-key-file)"
    transport = HttpTransport(server.url, timeout=10.0, api_key=SecretStr("sk-canary"))
    reply = ask(transport, Request("demo", 4), "hi", clock=TickClock(), timeout=60.0)
    transport.close()
    assert reply.tokens == 4
    server.misbehave = replies(400, b'{"error": "key sk-canary"}')
    assert attempt(server, key="sk-canary") == "HTTP 400: key ***"


def hang(handler: Handler) -> bool:
    handler.server.over.wait(30)
    return True


def hang_in_the_middle(handler: Handler) -> bool:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"6\r\ndata: \r\n")
    handler.wfile.flush()
    return hang(handler)


def cut_off(handler: Handler) -> bool:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"ff\r\ndata: ")
    handler.close_connection = True
    return True


def replies(status: int, content: bytes, **fields: str) -> Callable[[Handler], bool]:
    def misbehave(handler: Handler) -> bool:
        handler.reply(status, content, **fields)
        return True

    return misbehave


def events(*lines: str, done: bool = True) -> Callable[[Handler], bool]:
    def misbehave(handler: Handler) -> bool:
        handler.events(list(lines), done=done)
        return True

    return misbehave


@pytest.mark.parametrize(
    ("misbehave", "line"),
    [
        (hang, "no answer within 0.3 s"),
        (hang_in_the_middle, "no answer within 0.3 s"),
        (cut_off, "the connection broke"),
        (replies(500, b"<html>oops</html>"), "HTTP 500"),
        (replies(400, b'{"error": {"message": "no ignore_eos"}}'), "HTTP 400: no ignore_eos"),
        (replies(302, b"", Location="http://169.254.169.254/"), "redirects are not followed"),
        (replies(200, b"<html>login</html>\n"), "the answer is no event stream"),
        (replies(200, b""), "the stream ended early"),
        (events('{"choices": [{"text": "x"}]}'), "the server sends no usage"),
        (events("{'text'}"), "a chunk of the stream is not JSON"),
        (events('{"choices": [{"text": "x"}]}', done=False), "the stream ended early"),
        (events('{"error": {"message": "engine died"}}'), "the server reports: engine died"),
    ],
)
def test_a_hostile_server_is_one_line(
    server: OpenAI, misbehave: Callable[[Handler], bool], line: str
) -> None:
    server.misbehave = misbehave
    found = attempt(server, timeout=0.3)
    assert line in found
    assert "\n" not in found


def test_a_server_without_chunked_encoding_is_read_piece_by_piece(server: OpenAI) -> None:
    body = b'data: {"choices": [{"text": "x"}], "usage": {"completion_tokens": 3}}\n\n'
    server.misbehave = replies(200, body + b"data: [DONE]\n\n")
    transport = HttpTransport(server.url, timeout=10.0)
    reply = ask(transport, Request("demo", 3), "hi", clock=TickClock(), timeout=60.0)
    transport.close()
    assert (reply.tokens, reply.chunks) == (3, 1)


def test_a_server_that_fails_ends_the_run(server: OpenAI) -> None:
    server.misbehave = replies(503, b"{}")
    transport = HttpTransport(server.url, timeout=10.0)
    with pytest.raises(BenchError, match=r"5 of 5 requests failed \(HTTP 503"):
        run_ladder(transport, Request("demo", 8), Ladder((1,), 60.0), clock=TickClock())
    with pytest.raises(BenchError, match="the first request failed: HTTP 503"):
        choose_path(transport, "demo", 8, 10.0, TickClock())
    transport.close()
    assert len(server.bodies) == 6


# -- the commands --------------------------------------------------------------------------


@pytest.fixture
def bench(
    server: OpenAI, database: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Runs ``monitor baseline bench`` on the server."""
    monkeypatch.setattr(baseline_bench, "SystemClock", TickClock)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    common = ("--service", "chat", "--database", database)
    fixed = ("--concurrency", "1,4", "--requests-per-level", "8", "--output-tokens", "17")

    def invoke(*arguments: str) -> tuple[int, str, str]:
        code = run(["baseline", "bench", server.url, *common, *fixed, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return invoke


def test_bench_stores_a_baseline_and_compares_with_it(
    server: OpenAI, database: str, bench: Callable[..., tuple[int, str, str]]
) -> None:
    code, out, err = bench("--activate", "--json")
    assert code == 0
    document = json.loads(out)
    assert [level["tpot"] for level in document["levels"]] == [0.01, 0.01]
    assert document["baseline"]["label"] == "bench"
    assert document["baseline"]["active"] is True
    assert document["baseline"]["fingerprint"]["model"] == "demo"
    assert document["baseline"]["provenance"]["parameters"]["endpoint"] == "/v1/completions"
    assert "whether it speculates was not checked: no metrics page (HTTP 404)" in err
    server.per_chunk = 4
    code, out, _ = bench("--side", "speculative", "--json")
    document = json.loads(out)
    # Five chunks instead of 17 for the same tokens.
    assert [level["speedup"] for level in document["levels"]] == [4.0, 4.0]
    assert (code, document["against"], document["baseline"]) == (0, "bench", None)
    shown = bench("--side", "speculative")
    assert "speedup against bench" in shown[1]
    engine = open_store(database)
    assert len(Repository(engine).baselines.listing()) == 1
    engine.dispose()


def test_bench_only_asks_the_server_it_was_given(
    server: OpenAI, bench: Callable[..., tuple[int, str, str]]
) -> None:
    assert bench()[0] == 0
    assert set(server.paths) == {"/metrics", "/v1/models", "/v1/completions"}
    # One to find the endpoint, and for each level its warm-up and counted requests; fillers
    # keep the load up until the last counted one is done.
    assert len(server.bodies) >= 1 + (1 + 8) + (4 + 8)


def test_bench_uses_chat_where_there_is_nothing_else(
    server: OpenAI, bench: Callable[..., tuple[int, str, str]]
) -> None:
    server.chat_only = True
    code, out, _ = bench("--json")
    assert code == 0
    parameters = json.loads(out)["baseline"]["provenance"]["parameters"]
    assert parameters["endpoint"] == "/v1/chat/completions"


def test_bench_refuses_a_server_that_speculates(
    server: OpenAI, bench: Callable[..., tuple[int, str, str]]
) -> None:
    page = Server(draft_length=2.5).advance(600).page()
    server.page = lambda: page
    code, out, err = bench()
    assert (code, out) == (2, "")
    assert "must not become a baseline: it speculates: drafts flow" in err
    assert server.bodies == []
    code, out, _ = bench("--force", "--json")
    stored = json.loads(out)["baseline"]
    assert (code, stored["valid"], stored["reason"]) == (0, False, "it speculates: drafts flow")
    assert stored["fingerprint"]["engine"] == "vllm"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--side", "speculative"), "service 'chat' has no active baseline to compare with"),
        (("--concurrency", "0"), "--concurrency must lie between 1 and 512"),
        (("--concurrency", "a"), "--concurrency must be whole numbers"),
        (("--name", "7"), "--name must not hold '#' or be a number"),
        (("--prompts", "/nowhere"), "--prompts /nowhere: cannot be read"),
        (("--api-key-env", "NO_SUCH_VARIABLE"), "--api-key-env names an environment variable"),
    ],
)
def test_bench_mistakes_are_one_line(
    server: OpenAI,
    bench: Callable[..., tuple[int, str, str]],
    arguments: tuple[str, ...],
    line: str,
) -> None:
    code, out, err = bench(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"monitor: {line}")
    assert len(err.splitlines()) == 1
    assert server.bodies == []


@pytest.fixture
def record(
    server: OpenAI, database: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Runs ``monitor baseline record``; the server decodes while the clock runs."""
    clock = FakeClock(NOON)
    decoding = Server(running=4.0)
    last = [clock.utc()]

    def page() -> bytes:
        decoding.advance(clock.utc() - last[0])
        last[0] = clock.utc()
        return decoding.page()

    server.page = page
    monkeypatch.setattr(baseline_record, "SystemClock", lambda: clock)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")

    def invoke(*arguments: str) -> tuple[int, str, str]:
        common = ["--service", "chat", "--database", database]
        code = run(["baseline", "record", server.url, *common, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return invoke


def test_record_stores_what_it_saw(record: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = record("--bins", "4", "--activate", "--json")
    assert code == 0
    stored = json.loads(out)["baseline"]
    assert stored["label"] == "recorded"
    assert stored["active"]
    assert stored["provenance"]["how"] == "record"
    assert stored["points"][0]["running"] == pytest.approx(4.0)
    assert stored["points"][0]["tpot"] == pytest.approx(0.01)
    assert err == "monitor: covered 4 running requests after 10 s\n"


def test_record_says_what_was_not_covered(record: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = record("--bins", "4,64", "--minutes", "1")
    assert code == 0
    assert "not covered: 64 running requests" in err
    assert out.startswith("stored as recorded (id 1) of service chat: 1 loads from 4 to 4")


def test_record_of_an_idle_server_stores_nothing(
    server: OpenAI, record: Callable[..., tuple[int, str, str]]
) -> None:
    page = Server().page()
    server.page = lambda: page
    code, out, err = record("--minutes", "0.5")
    assert (code, out) == (2, "")
    assert "is not stored as a baseline: no load was seen for 30 s of decoding" in err


def test_record_that_is_interrupted_stores_only_what_it_was_told_to_keep(
    server: OpenAI,
    record: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = Scraper.fetch
    looks = []

    def fetch(scraper: Scraper) -> object:
        looks.append(1)
        if len(looks) % 10 == 0:
            raise KeyboardInterrupt
        return original(scraper)

    monkeypatch.setattr(Scraper, "fetch", fetch)
    code, out, err = record()
    assert (code, out) == (130, "")
    assert "interrupted; nothing is stored (--keep would have kept loads 4)" in err
    code, out, _ = record("--keep")
    assert code == 0
    assert out.startswith("stored as recorded (id 1)")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--bins", "x"), "--bins must be loads with commas between"),
        (("--interval", "x"), "--interval is not a duration"),
        (("--interval", "10m", "--minutes", "1"), "--interval must be at least 1s and fit"),
        (("--engine", "x"), "--engine is not a known engine"),
    ],
)
def test_record_mistakes_are_one_line(
    record: Callable[..., tuple[int, str, str]], arguments: tuple[str, ...], line: str
) -> None:
    code, out, err = record(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"monitor: {line}")
    assert len(err.splitlines()) == 1
