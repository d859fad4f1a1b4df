"""The past, summed: for windows after a restart and for people."""

from __future__ import annotations

from itertools import count
from math import fsum
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_rows import NOON, change, increment, row, target

from monitor.model import Counts, Increment, StoreError, Verdict
from monitor.store.repository import Repository
from monitor.store.rows import HistoryRow
from monitor.store.tables import SCALARS

DAY = 86_400.0
_numbers = count()
FIGURES = st.integers(0, 10**9).map(float)


@st.composite
def pasts(draw: st.DrawFn) -> list[Increment]:
    """Samples of two engines within the day before noon; times need not be round."""
    agos = st.floats(1.0, DAY - 1.0)
    # Unique once they are subtracted: floats near each other would give the same instant.
    ends = draw(st.lists(agos, min_size=1, max_size=40, unique_by=lambda ago: NOON - ago))
    return [
        increment(
            NOON - ago,
            draw(st.sampled_from(["0", "1"])),
            drafts=draw(FIGURES),
            draft_tokens=draw(FIGURES),
            accepted_tokens=draw(FIGURES),
            decode_seconds=draw(FIGURES),
        )
        for ago in ends
    ]


def write(repository: Repository, *increments: Increment) -> None:
    repository.register([target("a")], NOON)
    repository.write_round([row(NOON, *increments)])


def test_a_step_takes_in_what_ends_in_it(repository: Repository) -> None:
    ends = [NOON + 15.0 * number for number in range(-8, 1)]
    write(repository, *(increment(end, drafts=2.0**number) for number, end in enumerate(ends)))
    found = repository.history("a", NOON - 120.0, NOON, 60.0)
    assert [(item.at, item.drafts) for item in found] == [
        (NOON - 60.0, 2.0 + 4.0 + 8.0 + 16.0),
        (NOON, 32.0 + 64.0 + 128.0 + 256.0),
    ]


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(past=pasts(), step=st.floats(1.0, 7200.0))
def test_sums_of_the_history_equal_the_sums_of_the_parts(
    repository: Repository, past: list[Increment], step: float
) -> None:
    # All examples share one database, so each has a target of its own.
    name = f"example-{next(_numbers)}"
    repository.register([target(name)], NOON)
    repository.write_round([row(NOON, *past, name=name)])
    found = repository.history(name, NOON - DAY - 1.0, NOON, step)
    for figure in ("drafts", "draft_tokens", "accepted_tokens"):
        parts = fsum(getattr(item.counts, figure) for item in past)
        assert fsum(getattr(item, figure) for item in found) == pytest.approx(parts)
    rebuilt = repository.load_history(name, NOON - 3600.0, NOON)
    for figure in SCALARS:
        parts = fsum(getattr(item.counts, figure) for item in past)
        assert fsum(getattr(item.counts, figure) for item in rebuilt) == pytest.approx(parts)
    assert [item.end for item in rebuilt] == sorted(item.end for item in rebuilt)


def only_row(repository: Repository, *parts: dict[str, Any]) -> HistoryRow:
    write(repository, *(increment(NOON, str(n), **part) for n, part in enumerate(parts)))
    (found,) = repository.history("a", NOON - 60.0, NOON, 60.0)
    return found


def test_quotients_are_formed_of_sums(repository: Repository) -> None:
    found = only_row(
        repository,
        {"drafts": 10.0, "draft_tokens": 50.0, "accepted_tokens": 20.0, "seconds": 15.0},
        {"baseline_seconds": 3.0, "compared_seconds": 2.0, "running_seconds": 30.0},
        {"decode_seconds": 30.0, "decode_tokens": 1_500.0, "seconds": 15.0},
    )
    assert (found.acceptance_rate, found.acceptance_length) == (0.4, 3.0)
    assert (found.speedup, found.running, found.tpot) == (1.5, 2.0, 0.02)


def test_what_cannot_be_known_is_none(repository: Repository) -> None:
    found = only_row(repository, {})
    assert found == HistoryRow(NOON, None, drafts=0.0, draft_tokens=0.0, accepted_tokens=0.0)


def test_drafts_of_unknown_size_leave_no_rate(repository: Repository) -> None:
    known = {"drafts": 10.0, "draft_tokens": 50.0, "accepted_tokens": 20.0}
    found = only_row(repository, known, {"drafts": 10.0, "unsized_drafts": 10.0})
    assert (found.acceptance_rate, found.acceptance_length) == (None, 2.0)


def test_uncounted_drafts_leave_no_length(repository: Repository) -> None:
    known = {"drafts": 10.0, "draft_tokens": 50.0, "accepted_tokens": 20.0}
    found = only_row(repository, known, {"draft_tokens": 50.0, "uncounted_draft_tokens": 50.0})
    assert (found.acceptance_rate, found.acceptance_length) == (0.2, None)


def test_each_step_shows_the_verdict_in_force_at_its_end(repository: Repository) -> None:
    repository.register([target("a")], NOON)
    story = {-600.0: Verdict.HEALTHY, -60.0: Verdict.DOWN, 30.0: Verdict.HARMFUL}
    for offset, verdict in story.items():
        repository.write_round([row(NOON + offset, change=change(verdict))])
    repository.write_round([row(NOON + 60.0, increment(NOON + 60.0, drafts=1.0))])
    found = repository.history("a", NOON - 120.0, NOON + 600.0, 60.0)
    assert [(item.at - NOON, item.verdict, item.drafts) for item in found] == [
        (-60.0, Verdict.DOWN, None),
        (0.0, Verdict.DOWN, None),
        (60.0, Verdict.HARMFUL, 1.0),
    ]


@pytest.mark.parametrize(
    ("start", "end", "step"), [(0.0, 0.0, 60.0), (0.0, 60.0, 0.0), (0.0, NOON, 1.0)]
)
def test_a_history_that_makes_no_sense_is_refused(
    repository: Repository, start: float, end: float, step: float
) -> None:
    repository.register([target("a")], NOON)
    with pytest.raises(StoreError, match="history"):
        repository.history("a", start, end, step)


def test_old_samples_come_summed_without_warmup_and_positions(repository: Repository) -> None:
    figures: dict[str, Any] = {"drafts": 1.0, "position_drafts": 1.0, "positions": (1.0,)}
    hour = NOON - 3600.0
    write(
        repository,
        increment(NOON - DAY, **figures),
        increment(hour - 600.0, **figures),
        increment(hour - 15.0, **figures),
        increment(hour, **figures),
        increment(hour, "1", **figures),
        increment(hour - 30.0, warmup=True, **figures),
        increment(hour + 15.0, warmup=True, **figures),
    )
    found = repository.load_history("a", hour, NOON)
    assert found == [
        Increment("0", hour - 615.0, hour - 600.0, Counts(drafts=1.0), warmup=False),
        Increment("0", hour - 30.0, hour, Counts(drafts=2.0), warmup=False),
        Increment("1", hour - 15.0, hour, Counts(drafts=1.0), warmup=False),
        increment(hour + 15.0, warmup=True, **figures),
    ]
