"""The status page in a real browser: on a screen and on a telephone, and whatever names hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Tab, browsing, needs_chromium
from status_documents import HARMFUL, NOW

from monitor.clock import FakeClock
from monitor.web.app import create_app
from monitor.web.server import WebServer, listen
from monitor.web.status import status_document, target_document
from monitor.web.view import Health, TargetView

HOSTILE = '"><img src=x onerror="document.title=1"><script>document.title=2</script>' + "x" * 300
SICK = HARMFUL | {"sentence": f"speculation costs 34 % of decode speed on {HOSTILE}"}
HEALTHY = {"verdict": "healthy", "sentence": "speculation pays", "action": "none"}


class Daemon:
    """Watches a service that is well and one that is not."""

    def targets(self) -> list[TargetView]:
        return []

    def health(self) -> Health:
        return Health(loop_age=1.0, loop_limit=37.5, waiting_for=None)

    def status(self) -> dict[str, Any]:
        def target(name: str, document: dict[str, Any]) -> dict[str, Any]:
            return target_document(
                name,
                "speculative",
                document,
                since=NOW - 900.0,
                at=NOW - 15.0,
                problem=None,
                now=NOW,
            )

        well = [target(f"chat-{number}", HEALTHY) for number in range(30)]
        return status_document({"chat": well, "code": [target(HOSTILE, SICK)]}, {}, {})

    def reload(self) -> None:
        raise AssertionError("nobody asked for it")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    app = create_app(Daemon(), host="127.0.0.1", token=lambda: None, clock=FakeClock(NOW))
    server = WebServer(app, listen("127.0.0.1", 0))
    server.start()
    yield f"http://127.0.0.1:{server.port}/"
    assert server.stop(30)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    folder: Path = tmp_path_factory.mktemp("browser")
    with browsing(folder) as tab:
        yield tab


@needs_chromium
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_fits_its_window_and_shows_the_worst_first(
    tab: Tab, url: str, width: int
) -> None:
    tab.show(url, width=width)
    parts = "[document.documentElement, ...document.querySelectorAll('section')]"
    assert tab.value(f"Math.max(...{parts}.map(e => e.scrollWidth - e.clientWidth))") == 0
    colour = "getComputedStyle(document.querySelector('.verdict.{}')).backgroundColor"
    assert tab.value(colour.format("harmful")) == "rgb(198, 40, 40)"
    place = "document.querySelector('.verdict.{}').getBoundingClientRect().top"
    assert tab.value(place.format("harmful")) < tab.value(place.format("healthy"))
    assert tab.complaints == []


@needs_chromium
def test_what_needs_nobody_is_folded_up_until_somebody_asks(tab: Tab, url: str) -> None:
    tab.show(url, width=1280)
    seen = "[...document.querySelectorAll('tbody th')].filter(e => e.checkVisibility()).length"
    folded = tab.value(seen)
    tab.value("document.querySelectorAll('summary').forEach(e => e.click())")
    assert (folded < 31, tab.value(seen)) == (True, 31)


@needs_chromium
def test_names_and_sentences_are_text_whatever_they_hold(tab: Tab, url: str) -> None:
    tab.show(url, width=1280)
    assert tab.value("document.images.length + document.scripts.length") == 0
    assert tab.value("document.title").startswith("harmful")
    assert HOSTILE in tab.value("document.body.textContent")
