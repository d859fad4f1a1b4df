"""SGLang's second page, ``/v1/loads``, and how seldom a server without it is asked."""

from __future__ import annotations

import pytest
from scrape_peers import NOT_FOUND, PATIENCE, Conversation, Peer, Script, answer, asks_aside

from monitor.clock import FakeClock
from monitor.pipeline import Page
from monitor.settings import TargetSettings
from monitor.sources.scrape import Scraper

SGLANG = b"sglang:num_running_reqs 1.0\n"
VLLM = b"vllm:num_requests_running 1.0\n"
LOADS = b'{"loads": []}'


def server(loads: bytes, metrics: bytes = SGLANG) -> Script:
    def script(conversation: Conversation) -> None:
        while (head := conversation.request()) is not None:
            if b"/v1/loads " in head:
                conversation.send(loads)
            else:
                conversation.send(NOT_FOUND if asks_aside(head) else answer(metrics))

    return script


def scraper_of(peer: Peer, clock: FakeClock, path: str = "") -> Scraper:
    target = TargetSettings("a", "chat", f"127.0.0.1:{peer.port}{path}", timeout=PATIENCE)
    return Scraper(target, clock=clock.monotonic)


def loads_asked(peer: Peer) -> int:
    return sum(b"/v1/loads " in head for head in peer.requests)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("", b"GET /v1/loads "),
        ("/a/metrics", b"GET /a/v1/loads "),
        ("/metrics/?x=1", b"GET /v1/loads "),
    ],
)
def test_loads_come_over_the_same_connection(path: str, asked: bytes) -> None:
    with Peer(server(answer(LOADS))) as peer, scraper_of(peer, FakeClock(), path) as scraper:
        assert [scraper.fetch() for _ in range(2)] == [Page(SGLANG, LOADS)] * 2
        assert peer.connections == 1
    assert peer.requests[1].startswith(asked)


@pytest.mark.parametrize("status", ["404 Not Found", "405 No", "403 Forbidden", "400 Bad"])
def test_a_server_without_loads_is_asked_once_an_hour(status: str) -> None:
    clock = FakeClock()
    with Peer(server(answer(b"no", status))) as peer, scraper_of(peer, clock) as scraper:
        for _ in range(10):
            assert scraper.fetch() == Page(SGLANG)
            clock.advance(300)
        assert loads_asked(peer) == 1
        clock.advance(601)
        assert scraper.fetch() == Page(SGLANG)
        assert loads_asked(peer) == 2
        assert peer.connections == 1


@pytest.mark.parametrize(
    "broken", [b"", b"junk", answer(b"oops", "500 Error"), answer(LOADS, length=5_000_000)]
)
def test_a_failure_of_loads_never_fails_the_page(broken: bytes) -> None:
    def script(conversation: Conversation) -> None:
        while (head := conversation.request()) is not None:
            if b"/v1/loads " in head:
                conversation.send(broken)
                return
            conversation.send(NOT_FOUND if asks_aside(head) else answer(SGLANG))

    clock = FakeClock()
    with Peer(script) as peer, scraper_of(peer, clock) as scraper:
        assert scraper.fetch() == Page(SGLANG)
        assert scraper.fetch() == Page(SGLANG)
        # It is not asked for each time while it is broken, but soon again.
        assert loads_asked(peer) <= 2
        clock.advance(61)
        scraper.fetch()
        assert loads_asked(peer) >= 2


def test_vllm_is_not_asked_for_loads() -> None:
    with Peer(server(answer(LOADS), VLLM)) as peer, scraper_of(peer, FakeClock()) as scraper:
        assert [scraper.fetch() for _ in range(2)] == [Page(VLLM)] * 2
        assert loads_asked(peer) == 0


def test_a_server_that_changes_its_engine_is_noticed() -> None:
    pages = iter([VLLM, SGLANG])

    def script(conversation: Conversation) -> None:
        while (head := conversation.request()) is not None:
            if b"/v1/loads " in head:
                conversation.send(answer(LOADS))
            else:
                conversation.send(NOT_FOUND if asks_aside(head) else answer(next(pages)))

    clock = FakeClock()
    with Peer(script) as peer, scraper_of(peer, clock) as scraper:
        assert scraper.fetch() == Page(VLLM)
        clock.advance(60)
        assert scraper.fetch() == Page(SGLANG, LOADS)
