"""Stored series become the pages of their servers again, whoever scraped and labelled them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest

from monitor.backfill.looks import Findings, Look
from monitor.backfill.moments import usual_interval
from monitor.backfill.naming import Naming
from monitor.backfill.series import NAME, Assembler, Catalogue, Point
from monitor.pipeline import NoPage, Page

RUNNING = "vllm:num_requests_running"
A = {"instance": "a:1", "job": "v"}

Value = tuple[float, dict[str, str], str]
"""When, the labels of the series, and what it was."""


def looks_of(values: Sequence[Value]) -> list[Look]:
    catalogue = Catalogue(Naming(()).name_of)
    catalogue.settle(labels for _, labels, _ in values)
    found = ((at, catalogue.find(labels), value) for at, labels, value in values)
    points = [Point(at, series, value.encode()) for at, series, value in found if series]
    return list(Assembler(catalogue, Findings(), {"a:1": 15.0}).looks(points))


def up(at: float, value: str = "1", **labels: str) -> Value:
    return at, {NAME: "up", **A, **labels}, value


def running(at: float, value: str = "4", **labels: str) -> Value:
    return at, {NAME: RUNNING, **A, **labels}, value


def test_a_label_that_another_job_has_added_is_the_own_one_of_this() -> None:
    other = (0.0, {NAME: "up", "instance": "b:1", "job": "other", "engine": "x"}, "1")
    pages = looks_of([other, up(0.0), running(0.0, engine="0"), running(0.0, engine="1")])
    both = b'up 1\n%b{engine="0"} 4\n%b{engine="1"} 4\n' % ((RUNNING.encode(),) * 2)
    assert [look.seen for look in pages] == [Page(both)]


def test_an_own_label_that_gave_way_to_an_added_one_has_its_name_again() -> None:
    added = {"engine": "vllm"}
    (look,) = looks_of([up(0.0, **added), running(0.0, **added, exported_engine="0")])
    assert look.seen == Page(b'up 1\n%b{engine="0"} 4\n' % RUNNING.encode())


def test_an_own_label_that_was_kept_tells_engines_apart() -> None:
    (look,) = looks_of(
        [up(0.0, engine="vllm"), running(0.0, engine="0"), running(0.0, engine="1")]
    )
    assert isinstance(look.seen, Page)
    assert look.seen.metrics.count(b"engine=") == 2


def test_text_that_is_no_text_breaks_nothing() -> None:
    (look,) = looks_of([up(0.0), running(0.0, model_name="\ud800")])
    assert look.seen == Page(b'up 1\n%b{model_name="?"} 4\n' % RUNNING.encode())


def test_marks_that_series_have_ended_are_no_page() -> None:
    looks = looks_of([running(0.0), up(0.0), running(15.0, "NaN"), up(15.0, "0")])
    assert [type(look.seen) for look in looks] == [Page, NoPage]
    assert len(looks_of([running(0.0), running(15.0, "NaN")])) == 1


def test_a_server_that_shows_nothing_is_still_a_look() -> None:
    looks = looks_of([running(0.0), up(0.0), up(15.0)])
    assert looks[1].seen == Page(b"up 1\n")


def test_a_scraper_that_cannot_reach_the_server_gives_way_to_one_that_can() -> None:
    values = []
    for at in range(0, 600, 15):
        cut = 150 <= at < 450
        values += [up(at, "0" if cut else "1", replica="a")]
        values += [] if cut else [running(at, replica="a")]
        values += [up(at + 7, replica="b"), running(at + 7, replica="b")]
    looks = looks_of(values)
    assert sum(isinstance(look.seen, NoPage) for look in looks) == 2
    times = [look.at for look in looks if isinstance(look.seen, Page)]
    assert max(b - a for a, b in pairwise(times)) <= 60.0


def test_a_server_that_nobody_reaches_is_down() -> None:
    values = [value for r in "ab" for value in (up(0.0, replica=r), running(0.0, replica=r))]
    values += [up(float(at), "0", replica=r) for at in range(15, 150, 15) for r in "ab"]
    looks = looks_of(values)
    assert [look.at for look in looks if isinstance(look.seen, NoPage)] == [
        float(at) for at in (15, 30, *range(45, 150, 15))
    ]


@pytest.mark.parametrize(
    ("gaps", "interval"),
    [
        ({}, None),
        ({15.0: 100}, 15.0),
        ({15.0: 95, 3600.0: 5}, 15.0),
        ({15.0: 200, 60.0: 50}, 60.0),
        ({15.0: 2, 60.0: 58}, 60.0),
    ],
)
def test_nine_of_ten_looks_are_no_further_apart(
    gaps: dict[float, int], interval: float | None
) -> None:
    assert usual_interval(Counter(gaps)) == interval
