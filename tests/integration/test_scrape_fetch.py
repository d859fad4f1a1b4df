"""A scraper against servers that behave, and against servers that do not."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr
from scrape_peers import PATIENCE, Conversation, Peer, Script, always, answer, once, packed

from monitor.clock import FakeClock
from monitor.pipeline import Page
from monitor.settings import Credentials, TargetSettings
from monitor.sources.errors import FetchError, FetchKind
from monitor.sources.scrape import Scraper

# Of an engine that has no pages beside the metrics, so that each request is for this one.
PAGE = b"llamacpp:requests_running 1.0\n"


def settings(
    url: str,
    *,
    timeout: float = PATIENCE,
    max_bytes: int = 1_000_000,
    credentials: Credentials | None = None,
) -> TargetSettings:
    return TargetSettings(
        "a",
        "chat",
        url,
        timeout=timeout,
        max_bytes=max_bytes,
        credentials=credentials or Credentials(),
    )


def failure(peer: Peer, *, timeout: float = PATIENCE, max_bytes: int = 1_000_000) -> FetchError:
    with (
        Scraper(settings(peer.url, timeout=timeout, max_bytes=max_bytes)) as scraper,
        pytest.raises(FetchError) as caught,
    ):
        scraper.fetch()
    assert "\n" not in str(caught.value)
    return caught.value


def test_the_connection_is_kept_between_fetches() -> None:
    with Peer(always(answer(PAGE))) as peer, Scraper(settings(peer.url)) as scraper:
        assert [scraper.fetch() for _ in range(3)] == [Page(PAGE)] * 3
        assert peer.connections == 1
    assert peer.requests[0].startswith(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(once(answer(PAGE)), id="closed without notice"),
        pytest.param(once(answer(PAGE, fields="Connection: close\r\n")), id="close announced"),
        pytest.param(
            once(answer(PAGE) + b"HTTP/1.1 408 Request Timeout\r\n\r\n"), id="stray bytes"
        ),
    ],
)
def test_a_connection_closed_between_fetches_is_opened_again(script: Script) -> None:
    with Peer(script) as peer, Scraper(settings(peer.url)) as scraper:
        for _ in range(3):
            assert scraper.fetch() == Page(PAGE)
            assert peer.ended.acquire(timeout=PATIENCE)
        assert peer.connections == 3


def test_a_connection_that_closes_at_the_moment_of_reuse_is_opened_again_once() -> None:
    def script(conversation: Conversation) -> None:
        conversation.request()
        conversation.send(answer(PAGE))
        # The second request is read and then left without an answer.
        conversation.request()

    with Peer(script) as peer, Scraper(settings(peer.url)) as scraper:
        assert [scraper.fetch() for _ in range(2)] == [Page(PAGE)] * 2
        assert (peer.connections, len(peer.requests)) == (2, 3)


def test_a_fresh_connection_that_closes_is_not_tried_again() -> None:
    def script(conversation: Conversation) -> None:
        conversation.request()

    with Peer(script) as peer:
        assert failure(peer).kind is FetchKind.CUT_SHORT
        assert peer.connections == 1


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(packed(PAGE), id="gzip"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"8;note=x\r\nllamacpp\r\n16\r\n:requests_running 1.0\n\r\n0\r\nTrailer: x\r\n\r\n",
            id="chunked",
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n" + PAGE, id="until the connection ends"),
        pytest.param(b"HTTP/1.0 200 OK\nContent-Length: 30\n\n" + PAGE, id="bare line feeds"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + answer(PAGE), id="interim answer"),
    ],
)
def test_each_way_to_frame_a_body_is_understood(data: bytes) -> None:
    with Peer(once(data)) as peer, Scraper(settings(peer.url)) as scraper:
        assert scraper.fetch() == Page(PAGE)


def test_html_is_handed_on_for_the_pipeline_to_judge() -> None:
    html = b"<!DOCTYPE html><html><body>Welcome</body></html>"
    with Peer(always(answer(html))) as peer, Scraper(settings(peer.url)) as scraper:
        assert scraper.fetch() == Page(html)


def test_a_server_that_hangs_is_given_up_at_the_deadline() -> None:
    def script(conversation: Conversation) -> None:
        conversation.request()
        conversation.hang()

    with Peer(script) as peer:
        error = failure(peer, timeout=0.2)
    assert (error.kind, str(error)) == (
        FetchKind.TIMEOUT,
        "no complete answer within 0.2 s",
    )


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nX-Slow: ", id="in the header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", id="in the body"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", id="in a chunk's size"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n", id="in a chunk"
        ),
    ],
)
def test_a_server_that_drips_is_given_up_at_the_deadline(start: bytes) -> None:
    clock = FakeClock()

    def script(conversation: Conversation) -> None:
        conversation.request()
        conversation.send(start)
        for _ in range(50_000):
            clock.advance(0.25)
            conversation.send(b"x")
        conversation.hang()

    with (
        Peer(script) as peer,
        Scraper(settings(peer.url, timeout=10), clock=clock.monotonic) as scraper,
        pytest.raises(FetchError) as caught,
    ):
        scraper.fetch()
    assert caught.value.kind is FetchKind.TIMEOUT


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(answer(b"", length=20_001), id="announced"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 20_001, id="streamed"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffff\r\n", id="chunk"
        ),
        pytest.param(packed(b"x" * 50_000_000), id="gzip bomb"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000, id="header without end"),
    ],
)
def test_a_page_that_is_too_large_is_refused(data: bytes) -> None:
    with Peer(once(data)) as peer:
        assert failure(peer, max_bytes=20_000).kind is FetchKind.TOO_LARGE


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(answer(PAGE, length=len(PAGE) + 1), id="shorter than announced"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n16\r\n" + PAGE[:5], id="chunk"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", id="no last chunk"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-", id="in the header"),
        pytest.param(
            answer(gzip.compress(PAGE)[:-9], fields="Content-Encoding: gzip\r\n"), id="in gzip"
        ),
        pytest.param(answer(b"junk", fields="Content-Encoding: gzip\r\n"), id="no gzip at all"),
    ],
)
def test_a_page_that_is_cut_short_is_an_error(data: bytes) -> None:
    with Peer(once(data)) as peer:
        assert failure(peer).kind is FetchKind.CUT_SHORT


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.9\r\n", id="another protocol"),
        pytest.param(b"HTTP/2 200\r\n\r\n", id="HTTP/2"),
        pytest.param(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", id="header"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"x" * 100_000, id="endless line"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000, id="endless header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", id="length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n", id="chunk size"
        ),
        pytest.param(answer(PAGE, fields="Content-Encoding: br\r\n"), id="encoding"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", id="upgrade"),
    ],
)
def test_what_is_not_http_is_an_error(data: bytes) -> None:
    with Peer(once(data)) as peer:
        error = failure(peer)
    assert error.kind is FetchKind.PROTOCOL
    assert str(error).startswith("the answer is not understood: ")


def test_a_redirect_is_not_followed_and_its_target_named() -> None:
    fields = "Location: http://user:hunter2@169.254.169.254/latest?token=hunter2\r\n"
    with Peer(always(answer(b"", "302 Found", fields))) as peer:
        error = failure(peer)
        assert len(peer.requests) == 1
    assert (error.kind, error.retryable, str(error)) == (
        FetchKind.REDIRECT,
        False,
        "HTTP 302 redirects to http://169.254.169.254/latest, which is not followed",
    )


@pytest.mark.parametrize(
    ("status", "message", "retryable"),
    [
        ("500 Internal Server Error", "HTTP 500", True),
        ("429 Too Many Requests", "HTTP 429", True),
        ("404 Not Found", "HTTP 404", False),
        ("401 Unauthorized", "HTTP 401: credentials are missing or wrong", False),
    ],
)
def test_another_status_is_an_error(status: str, message: str, retryable: bool) -> None:
    with Peer(always(answer(b"Traceback (most recent call last):", status))) as peer:
        error = failure(peer)
    assert (error.kind, str(error), error.retryable) == (FetchKind.STATUS, message, retryable)


def test_a_port_that_nobody_listens_at_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with (
        Scraper(settings(f"127.0.0.1:{port}")) as scraper,
        pytest.raises(FetchError, match=f"connection refused by 127.0.0.1:{port}"),
    ):
        scraper.fetch()


def _guarded(secret: bytes) -> Script:
    def script(conversation: Conversation) -> None:
        while (head := conversation.request()) is not None:
            allowed = b"\r\nAuthorization: " + secret in head
            conversation.send(answer(PAGE) if allowed else answer(b"", "401 Unauthorized"))

    return script


@pytest.mark.parametrize(
    ("credentials", "user", "header"),
    [
        (Credentials(bearer=SecretStr("s3cret")), "", b"Bearer s3cret"),
        (Credentials(username="me", password=SecretStr("pw")), "", b"Basic bWU6cHc="),
        (Credentials(), "me:p%77@", b"Basic bWU6cHc="),
    ],
)
def test_credentials_are_sent(credentials: Credentials, user: str, header: bytes) -> None:
    with Peer(_guarded(header)) as peer:
        url = f"http://{user}127.0.0.1:{peer.port}"
        with Scraper(settings(url, credentials=credentials)) as scraper:
            assert scraper.fetch() == Page(PAGE)


def test_nothing_of_the_environment_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / ".netrc").write_text("machine 127.0.0.1 login me password pw\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with Peer(always(answer(PAGE))) as peer, Scraper(settings(peer.url)) as scraper:
        scraper.fetch()
    assert b"Authorization" not in peer.requests[0]


@pytest.mark.parametrize("secret", ["hunter2-canary", "hunter2%2Dcanary"])
def test_no_secret_is_in_any_error(secret: str) -> None:
    echo = "Location: /login/hunter2-canary?token=hunter2-canary\r\n"
    answers = [answer(b"", "302 Found", echo), answer(b"", "500 hunter2-canary"), b"junk\r\n"]
    credentials = Credentials(bearer=SecretStr("hunter2-canary"))
    for data in answers:
        with Peer(once(data)) as peer:
            url = f"http://me:{secret}@127.0.0.1:{peer.port}/metrics?token={secret}"
            with (
                Scraper(settings(url, credentials=credentials)) as scraper,
                pytest.raises(FetchError) as caught,
            ):
                scraper.fetch()
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "resolved",
    ["169.254.169.254", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254"],
)
def test_a_name_that_resolves_to_a_metadata_address_is_never_connected_to(
    resolved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = socket.AF_INET6 if ":" in resolved else socket.AF_INET

    def getaddrinfo(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(family, socket.SOCK_STREAM, 6, "", (resolved, 80))]

    def connect(*_: object) -> None:
        raise AssertionError("a packet was sent")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket.socket, "connect", connect)
    with Scraper(settings("rebound.example")) as scraper, pytest.raises(FetchError) as caught:
        scraper.fetch()
    assert (caught.value.kind, caught.value.retryable) == (FetchKind.REFUSED_ADDRESS, False)


def test_the_second_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = listener.getsockname()
    real: Callable[..., Any] = socket.getaddrinfo

    def getaddrinfo(*args: object, **kwargs: object) -> list[Any]:
        found = real(*args, **kwargs)
        return [(*found[0][:4], dead), *found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with Peer(always(answer(PAGE))) as peer, Scraper(settings(peer.url)) as scraper:
        assert scraper.fetch() == Page(PAGE)


def test_a_name_that_does_not_resolve_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with (
        Scraper(settings("nowhere.example")) as scraper,
        pytest.raises(FetchError, match=r"the host name nowhere\.example cannot be resolved"),
    ):
        scraper.fetch()


def test_an_abort_from_another_thread_ends_the_fetch() -> None:
    holder: list[Scraper] = []

    def script(conversation: Conversation) -> None:
        conversation.request()
        holder[0].abort()
        conversation.hang()

    with Peer(script) as peer, Scraper(settings(peer.url)) as scraper:
        holder.append(scraper)
        with pytest.raises(FetchError):
            scraper.fetch()
        scraper.close()
        scraper.abort()
