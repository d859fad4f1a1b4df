"""The status page: the worst first, what is well folded up, and nothing that a name can break."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest
from status_documents import HARMFUL, NOW

from monitor.report import iso
from monitor.web.page import FEW_TARGETS, render
from monitor.web.status import status_document, target_document
from monitor.web.view import Health, RollbackView

VOID = {"meta", "link"}
WELL = Health(loop_age=1.0, loop_limit=37.5, waiting_for=None)


class Reader(HTMLParser):
    """The text of a page and its rows; raises where an element is not closed as it should be."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words: list[str] = []
        self.rows: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {name for name, _ in attrs} & {"style", "onclick"}
        self.seen.append(tag)
        if tag == "tr":
            self.rows.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data.split()
        if "tr" in self.open:
            self.rows[-1] += f" {' '.join(data.split())}"

    @property
    def text(self) -> str:
        return " ".join(self.words)


def target(name: str, document: Mapping[str, Any] | None, **changes: Any) -> dict[str, Any]:
    facts = {"since": NOW - 900.0, "at": NOW - 15.0, "problem": None} | changes
    return target_document(name, facts.pop("role", "speculative"), document, now=NOW, **facts)


def read(*targets: Mapping[str, Any], alerts: Any = (), rollback: Any = None) -> Reader:
    services = {"code": list(targets)}
    rollbacks = {} if rollback is None else {"code": rollback}
    return Reader(render(status_document(services, {"code": alerts}, rollbacks), WELL, NOW))


def test_a_target_is_shown_with_its_figures_its_sentence_and_what_to_do() -> None:
    page = read(target("code-1", HARMFUL))
    _, figures, said = (row.split() for row in page.rows)
    assert " ".join(figures) == (
        "code-1 harmful 0.66x (0.60–0.73) 16 % (10–24) 1.78 34 % 3.4 15 s ago"
    )
    assert " ".join(said) == "speculation costs 34 % of decode speed do: roll back"


def test_a_target_that_was_never_looked_at_is_shown_as_that() -> None:
    page = read(target("code-1", None, since=None, at=None))
    assert "code-1 unknown – – – – – never" in page.text
    assert "there was no look at this target yet" in page.text


def test_alerts_and_a_rollback_stand_above_the_targets() -> None:
    alert = {
        "incident": "bf83d144-5cf1-5c1d",
        "rule": "harmful",
        "severity": "critical",
        "target": "code-1",
        "title": "code-1: speculation costs speed",
        "since": iso(NOW - 120.0),
    }
    moved = RollbackView("code", "act", "holding", "code-1", 0.25, NOW - 60.0, "10 % a step")
    page = read(target("code-1", HARMFUL), alerts=[alert], rollback=moved)
    assert (
        "harmful (critical) code-1: speculation costs speed for 2 min, incident bf83d144-5cf"
        in page.text
    )
    assert (
        "rollback holding , mode act, 25 % of the traffic at the plain side, for 60 s: 10 % a step"
        in page.text
    )


def test_the_worst_comes_first() -> None:
    services = {
        "a-well": [target("w", HARMFUL | {"verdict": "healthy"})],
        "b-sick": [target("x", HARMFUL | {"verdict": "healthy"}), target("y", HARMFUL)],
    }
    page = Reader(render(status_document(services, {}, {}), WELL, NOW))
    order = [page.text.index(f" {name} ") for name in ("b-sick", "y", "x", "a-well", "w")]
    assert order == sorted(order)


@pytest.mark.parametrize("stale", [False, True])
def test_of_many_targets_those_that_are_well_are_folded_up(stale: bool) -> None:
    well = HARMFUL | {"verdict": "healthy", "action": "none"}
    looked = NOW - 10_000.0 if stale else NOW
    many = [target(f"t{n}", well, at=looked) for n in range(FEW_TARGETS)]
    page = read(*many, target("sick", HARMFUL))
    assert ("details" in page.seen) is not stale
    assert (f"{FEW_TARGETS} more that need nobody" in page.text) is not stale
    assert all(f" t{n} " in page.text for n in range(FEW_TARGETS))


def test_what_others_have_named_is_text_and_nothing_else() -> None:
    name = '<script>alert("&")</script>\u202e'
    page = read(target(name, HARMFUL | {"sentence": name, "action": "roll_back"}, problem=name))
    assert "script" not in page.seen
    assert page.text.count('<script>alert("&")</script>') == 2


@pytest.mark.parametrize(
    ("health", "said"),
    [
        (Health(90.0, 37.5, None), "no target was looked at for 90 s"),
        (Health(1.0, 37.5, "another daemon leads"), "not ready: another daemon leads"),
        (
            Health(1.0, 37.5, None, frozen="5 of 6 services"),
            "no traffic is moved: 5 of 6 services",
        ),
        (Health(1.0, 37.5, None, reload_ok=False), "the last reload of the configuration failed"),
    ],
)
def test_what_is_wrong_with_the_daemon_itself_is_said(health: Health, said: str) -> None:
    empty = status_document({}, {}, {})
    assert said in Reader(render(empty, health, NOW)).text
    assert said not in Reader(render(empty, WELL, NOW)).text
