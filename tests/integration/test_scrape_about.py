"""What a server tells about itself: who is asked, for what, and how seldom."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from scrape_peers import NOT_FOUND, PATIENCE, Conversation, Peer, Script, answer

from monitor.clock import FakeClock
from monitor.engines.about import SEPARATOR
from monitor.pipeline import Page
from monitor.settings import TargetSettings
from monitor.sources.errors import FetchError
from monitor.sources.scrape import Scraper

VLLM = b"vllm:num_requests_running 1.0\n"
SGLANG = b"sglang:num_running_reqs 1.0\n"
OTHER = b"llamacpp:requests_processing 1.0\n"
VERSION = b'{"version": "0.32.0"}'
INFO = b'{"vllm_config": {}}'


def path_of(head: bytes) -> str:
    return head.split(b" ", 2)[1].decode()


def server(pages: Mapping[str, bytes], looks: int | None = None) -> Script:
    """Answers with ``pages``; closes after so many of ``/metrics``, if told."""

    def script(conversation: Conversation) -> None:
        seen = 0
        while (head := conversation.request()) is not None:
            path = path_of(head).partition("?")[0]
            if path == "/metrics":
                seen += 1
                if looks is not None and seen > looks:
                    return
            conversation.send(answer(pages[path]) if path in pages else NOT_FOUND)

    return script


def scraper_of(peer: Peer, clock: FakeClock, path: str = "") -> Scraper:
    target = TargetSettings("a", "chat", f"127.0.0.1:{peer.port}{path}", timeout=PATIENCE)
    return Scraper(target, clock=clock.monotonic)


def asked(peer: Peer) -> list[str]:
    """The paths that were asked for beside the metrics, except for the loads."""
    paths = [path_of(head) for head in peer.requests]
    return [path for path in paths if path not in {"/metrics", "/v1/loads"}]


def test_vllm_is_asked_for_its_version_and_once_an_hour_again() -> None:
    clock = FakeClock()
    pages = {"/metrics": VLLM, "/version": VERSION}
    with Peer(server(pages)) as peer, scraper_of(peer, clock) as scraper:
        assert scraper.fetch() == Page(VLLM, None, VERSION)
        for _ in range(99):
            assert scraper.fetch() == Page(VLLM)
            clock.advance(36.0)
        assert asked(peer) == ["/version", "/server_info?config_format=json"]
        clock.advance(36.0)
        assert scraper.fetch().about == VERSION
        assert asked(peer)[2:] == ["/version", "/server_info?config_format=json"]
        assert peer.connections == 1


def test_the_configuration_of_a_vllm_in_development_mode_is_handed_over_too() -> None:
    pages = {"/metrics": VLLM, "/version": VERSION, "/server_info": INFO}
    with Peer(server(pages)) as peer, scraper_of(peer, FakeClock()) as scraper:
        assert scraper.fetch().about == VERSION + SEPARATOR + INFO


@pytest.mark.parametrize("path", ["/server_info", "/get_server_info"])
def test_sglang_is_asked_under_the_name_that_its_release_has(path: str) -> None:
    info = json.dumps({"version": "0.5.23"}).encode()
    pages = {"/metrics": SGLANG, path: info}
    with Peer(server(pages)) as peer, scraper_of(peer, FakeClock()) as scraper:
        assert scraper.fetch() == Page(SGLANG, None, info)
        assert scraper.fetch() == Page(SGLANG)
    assert asked(peer)[-1] == path


def test_the_path_before_the_metrics_is_kept() -> None:
    pages = {"/a/metrics": VLLM, "/a/version": VERSION}
    with Peer(server(pages)) as peer, scraper_of(peer, FakeClock(), "/a/metrics") as scraper:
        assert scraper.fetch().about == VERSION


def test_a_server_that_has_no_such_page_is_left_alone_for_an_hour() -> None:
    clock = FakeClock()
    with Peer(server({"/metrics": VLLM})) as peer, scraper_of(peer, clock) as scraper:
        for _ in range(59):
            assert scraper.fetch() == Page(VLLM)
            # Not even a restart makes it have one.
            scraper.ask_again()
            clock.advance(60.0)
        assert asked(peer) == ["/version"]
        clock.advance(61.0)
        scraper.fetch()
        assert asked(peer) == ["/version"] * 2


def test_other_engines_are_not_asked() -> None:
    with Peer(server({"/metrics": OTHER})) as peer, scraper_of(peer, FakeClock()) as scraper:
        assert scraper.fetch() == Page(OTHER)
    assert asked(peer) == []


def test_after_a_restart_it_is_asked_again() -> None:
    pages = {"/metrics": VLLM, "/version": VERSION}
    with Peer(server(pages)) as peer, scraper_of(peer, FakeClock()) as scraper:
        assert scraper.fetch().about == VERSION
        assert scraper.fetch().about is None
        scraper.ask_again()
        assert scraper.fetch().about == VERSION
        assert scraper.fetch().about is None


def test_the_end_of_a_connection_that_outlived_a_round_is_a_sign_of_a_restart() -> None:
    pages = {"/metrics": VLLM, "/version": VERSION}
    with Peer(server(pages, looks=3)) as peer, scraper_of(peer, FakeClock()) as scraper:
        told = [scraper.fetch().about is not None for _ in range(6)]
        assert told == [True, False, False, True, False, False]
        assert peer.connections == 2


def test_a_server_that_keeps_no_connection_is_not_asked_each_time() -> None:
    pages = {"/metrics": VLLM, "/version": VERSION}
    with Peer(server(pages, looks=1)) as peer, scraper_of(peer, FakeClock()) as scraper:
        told = []
        for _ in range(4):
            told.append(scraper.fetch().about is not None)
            # As a server with a short keep-alive does between two rounds.
            scraper.close()
        assert told == [True, False, False, False]
        assert peer.connections == 4


def test_a_failed_look_is_a_sign_of_a_restart() -> None:
    pages = {"/metrics": VLLM, "/version": VERSION}
    with Peer(server(pages)) as peer, scraper_of(peer, FakeClock()) as scraper:
        scraper.fetch()
        scraper.close()
        with pytest.raises(FetchError):
            scraper.fetch(deadline=-1.0)
        assert scraper.fetch().about == VERSION


@pytest.mark.parametrize(
    "broken",
    [b"", b"junk", answer(b"oops", "500 Error"), answer(VERSION, length=5_000_000)],
    ids=["nothing", "no HTTP", "an error", "too large"],
)
def test_a_failure_never_fails_the_page(broken: bytes) -> None:
    def script(conversation: Conversation) -> None:
        while (head := conversation.request()) is not None:
            if path_of(head) == "/version":
                conversation.send(broken)
                return
            conversation.send(answer(VLLM))

    clock = FakeClock()
    with Peer(script) as peer, scraper_of(peer, clock) as scraper:
        for _ in range(3):
            assert scraper.fetch() == Page(VLLM)
        assert len(asked(peer)) <= 2
        clock.advance(61.0)
        scraper.fetch()
        assert len(asked(peer)) >= 2


def test_the_slow_page_of_vllm_is_not_asked_for_again_within_an_hour_once_it_failed() -> None:
    def script(conversation: Conversation) -> None:
        while (head := conversation.request()) is not None:
            if path_of(head).startswith("/server_info"):
                conversation.send(answer(b"oops", "500 Error"))
            else:
                conversation.send(answer(VERSION if path_of(head) == "/version" else VLLM))

    clock = FakeClock()
    with Peer(script) as peer, scraper_of(peer, clock) as scraper:
        for _ in range(10):
            assert scraper.fetch().about == VERSION
            scraper.ask_again()
            clock.advance(300.0)
        assert asked(peer).count("/server_info?config_format=json") == 1
