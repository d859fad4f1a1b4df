"""An API that is no Prometheus, or one in trouble: one line, and never a wrong figure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import SecretStr
from scrape_peers import Conversation, Peer

from monitor.backfill.prometheus import PrometheusSource
from monitor.clock import FakeClock
from monitor.model import ConfigError, ScrapeError
from monitor.settings import Credentials
from monitor.sources.promql import MAX_BYTES, PrometheusApi, TooMuchError

START, END = 1_790_000_000.0, 1_790_003_600.0
LABELS = {"__name__": "vllm:num_requests_running", "instance": "a:1", "job": "j", "engine": "0"}

Answer = tuple[int, bytes] | bytes
Behave = Callable[[str, dict[str, str]], Answer]


def success(data: object, **more: object) -> bytes:
    return json.dumps({"status": "success", "data": data, **more}).encode()


def failure(kind: str, error: str) -> bytes:
    return json.dumps({"status": "error", "errorType": kind, "error": error}).encode()


def honest(path: str, asked: dict[str, str]) -> bytes:
    """One gauge, each 15 s."""
    if path == "series":
        return success([LABELS, {"__name__": "up", "instance": "a:1", "job": "j"}])
    end = float(asked["time"])
    span = float(asked["query"].rpartition("[")[2].removesuffix("ms]")) / 1000.0
    times = range(int(START), int(END) + 1, 15)
    values = [[at, "4"] for at in times if end - span <= at <= end]
    result = [{"metric": LABELS, "values": values}] if values else []
    return success({"resultType": "matrix", "result": result})


@contextmanager
def serving(behave: Behave) -> Iterator[tuple[Peer, str]]:
    def talk(conversation: Conversation) -> None:
        while (head := conversation.request()) is not None:
            url = urlsplit(head.split()[1].decode())
            asked = {name: found[0] for name, found in parse_qs(url.query).items()}
            answer = behave(url.path.rpartition("/")[2], asked)
            status, body = answer if isinstance(answer, tuple) else (200, answer)
            if body is HANG:
                conversation.hang()
                return
            line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
            extra = "Location: /elsewhere\r\n" if status == 302 else ""
            conversation.send(f"{line}{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    with Peer(talk) as peer:
        yield peer, f"http://127.0.0.1:{peer.port}"


HANG = b"hang"


def open_source(url: str, **more: Any) -> PrometheusSource:
    clock = FakeClock()
    api = PrometheusApi(url, Credentials(), clock=clock, **more)
    return PrometheusSource(api, "", START, END, lambda labels: labels["instance"])


def in_turn(*answers: Answer) -> Behave:
    """Each answer once, and the last one for ever."""
    left: list[Answer] = list(answers)

    def behave(_path: str, _asked: dict[str, str]) -> Answer:
        return left.pop(0) if len(left) > 1 else left[0]

    return behave


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"<html>login</html>", "the answer is no JSON: is it the API of Prometheus"),
        ((502, b"<html>bad gateway</html>"), "HTTP 502"),
        ((302, b""), "a redirect, which is not followed"),
        ((401, b"no"), "HTTP 401"),
        ((400, failure("bad_data", "parse error: unexpected {")), "HTTP 400: parse error"),
        ((404, b""), "HTTP 404"),
        (b"[]", "the answer is no JSON"),
        (b'{"status": "success", "data": {"resultType": "vec', "was all of it sent?"),
        (b'{"status": "success"}', "is not what Prometheus answers"),
        (success([{"__name__": 5}]), "is not what Prometheus answers"),
        (b"[" * 200_000, "the answer is no JSON"),
        (success([]), "there are no series"),
    ],
)
def test_what_is_no_answer_is_said_in_one_line(answer: Answer, message: str) -> None:
    with serving(in_turn(answer)) as (_, url), pytest.raises((ScrapeError, ConfigError)) as caught:
        open_source(url)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "match%" not in str(caught.value)


def test_a_server_that_is_not_there_is_named() -> None:
    with serving(in_turn(b"")) as (_, url):
        host = url.removeprefix("http://").partition("/")[0]
    with pytest.raises(ScrapeError, match=f"^{host}: the connection failed"):
        open_source(url)


def test_a_server_that_hangs_is_given_up_in_time() -> None:
    with serving(in_turn(HANG)) as (peer, url):
        with pytest.raises(ScrapeError, match=r"no answer within 0\.2 s"):
            open_source(url, timeout=0.2)
        assert len(peer.requests) == 5


def test_trouble_that_passes_is_waited_for() -> None:
    passing: list[Answer] = [(503, b"starting"), (429, b"slow down"), b'{"status": "succ']
    troubles = iter(passing)

    def behave(path: str, asked: dict[str, str]) -> Answer:
        return next(troubles, None) or honest(path, asked)

    with serving(behave) as (_, url):
        assert len(list(open_source(url).looks(START - 1.0))) == 241


def test_an_answer_that_is_too_much_is_asked_for_in_shorter_spans() -> None:
    asked_for = []

    def behave(path: str, asked: dict[str, str]) -> Answer:
        if path == "query":
            span = float(asked["query"].rpartition("[")[2].removesuffix("ms]"))
            asked_for.append(span)
            if span > 120_000.0:
                return 422, failure("execution", "query processing would load too many samples")
        return honest(path, asked)

    with serving(behave) as (_, url):
        source = open_source(url)
        asked_for.clear()
        assert len(list(source.looks(START - 1.0))) == 241
    assert max(asked_for) == 900_000.0
    assert sum(span <= 120_000.0 for span in asked_for) >= 30


def test_what_is_too_much_however_short_is_said() -> None:
    def behave(path: str, asked: dict[str, str]) -> Answer:
        return honest(path, asked) if path == "series" else (422, failure("execution", "too many"))

    with serving(behave) as (_, url), pytest.raises(TooMuchError, match="HTTP 422: too many"):
        open_source(url)


def test_fifty_megabytes_are_not_read() -> None:
    with serving(in_turn(b" " * 50_000_000)) as (_, url):
        assert MAX_BYTES < 50_000_000
        with pytest.raises(ScrapeError, match="the answer is larger than"):
            open_source(url)


def test_warnings_of_partial_answers_are_told() -> None:
    def behave(path: str, asked: dict[str, str]) -> Answer:
        document = json.loads(honest(path, asked))
        more = {"warnings": ["store 10.0.0.9 is away"], "isPartial": True}
        return json.dumps(document | more).encode()

    with serving(behave) as (_, url):
        source = open_source(url)
        assert len(list(source.looks(START - 1.0))) == 241
    assert source.findings.notes == [
        "the API said: store 10.0.0.9 is away",
        "the API said: the answer is partial",
    ]


def test_the_series_of_a_span_that_is_too_long_are_asked_for_in_parts() -> None:
    def behave(path: str, asked: dict[str, str]) -> Answer:
        if path == "series" and float(asked["end"]) - float(asked["start"]) > 1000.0:
            return 422, failure("execution", "the query time range exceeds the limit")
        return honest(path, asked)

    with serving(behave) as (_, url):
        assert open_source(url).targets == ["a:1"]


def test_values_unsorted_twice_or_of_other_times_change_nothing() -> None:
    def behave(path: str, asked: dict[str, str]) -> Answer:
        document = json.loads(honest(path, asked))
        for one in document["data"]["result"] if path == "query" else ():
            known = [[at, "9"] for at, _ in one["values"]]
            other = [[START - 86_400.0, "7"], [END + 86_400.0, "7"], [float("inf"), "7"]]
            one["values"] = [*other, *known[::-1], *one["values"][::-1]]
        return json.dumps(document).encode()

    with serving(honest) as (_, url):
        expected = list(open_source(url).looks(START - 1.0))
    with serving(behave) as (_, url):
        assert list(open_source(url).looks(START - 1.0)) == expected


@pytest.mark.parametrize(
    "values",
    [
        [["x", "1"]],
        [[1.0]],
        [[1.0, 2.0]],
        [[1.0, "1\nup 0"]],
        [[1.0, "1 2"]],
        [[1.0, "\ud800"]],
        "values",
        [None],
    ],
)
def test_samples_that_are_none_are_refused(values: object) -> None:
    def behave(path: str, asked: dict[str, str]) -> Answer:
        document = json.loads(honest(path, asked))
        if path == "query":
            document["data"]["result"] = [{"metric": LABELS, "values": values}]
        return json.dumps(document).encode()

    with serving(behave) as (_, url), pytest.raises(ScrapeError, match="is not what Prometheus"):
        open_source(url)


def test_credentials_and_tenant_go_with_each_request() -> None:
    with serving(honest) as (peer, url):
        credentials = Credentials(username="u", password=SecretStr("p"))
        api = PrometheusApi(url, credentials, clock=FakeClock(), org="team-a")
        api.series("{}", START, END)
        api = PrometheusApi(url, Credentials(bearer=SecretStr("t")), clock=FakeClock())
        api.series("{}", START, END)
    basic, bearer = peer.requests
    assert b"Authorization: Basic dTpw" in basic
    assert b"X-Scope-OrgID: team-a" in basic
    assert b"Authorization: Bearer t" in bearer
