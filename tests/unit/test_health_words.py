"""Loads in sentences: what a baseline covers, and what it does not."""

from __future__ import annotations

import pytest

from monitor.health import words
from monitor.health.baseline import Baseline, BaselinePoint


@pytest.mark.parametrize(
    ("loads", "said"),
    [
        ((1.0, 64.0), "1–64"),
        ((3.9, 4.3), "3.9–4.3"),
        ((3.9,), "3.9"),
        ((11.6, 12.4), "12"),
    ],
)
def test_what_a_baseline_covers_tells_neighbouring_loads_apart(
    loads: tuple[float, ...], said: str
) -> None:
    baseline = Baseline("plain", tuple(BaselinePoint(load, 0.01) for load in loads))
    assert words.covered(baseline) == f"the baseline plain covers {said} running requests"


def test_running_requests_keep_a_decimal_where_it_tells_something() -> None:
    assert [words.running(load) for load in (0.0, 1.0, 3.64, 4.0, 9.96, 12.4)] == [
        "0",
        "1",
        "3.6",
        "4",
        "10",
        "12",
    ]
