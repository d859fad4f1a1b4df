"""A day watched live and the same day filled in afterwards leave the same rows behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from backfill_stage import (
    START,
    TARGETS,
    Tape,
    assert_alike,
    assert_equal,
    backfill,
    day,
    fresh,
    memories,
    quarter,
    rows,
    watch_live,
)
from sqlalchemy import Engine, select
from store_rows import opened

from monitor.model import ConfigError
from monitor.store.alerts import IncidentFilter
from monitor.store.connect import reading
from monitor.store.repository import Repository
from monitor.store.tables import samples


def test_a_day_filled_in_is_the_day_watched_live(
    database_url: str, engine: Engine, tmp_path: Path
) -> None:
    backfill(engine, Tape(day()))
    with opened(fresh(database_url, "live", tmp_path)) as live:
        watch_live(live, day())
        expected = rows(live)
    found = rows(engine)
    assert len(expected["verdicts"]) > 10
    assert len(expected["incidents"]) > 3
    assert found.pop("alert_states") == []
    states = expected.pop("alert_states")
    assert_equal(found, expected)
    assert len(states) == sum(map(len, memories(engine).values()))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What one run over the eight hours leaves."""
    url = fresh("", "whole", tmp_path_factory.mktemp("whole"))
    with opened(url) as engine:
        backfill(engine, Tape(quarter()))
        return rows(engine, without=())


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Engine]:
    with opened(fresh("", "pieces", tmp_path)) as engine:
        yield engine


def test_the_same_run_again_changes_nothing(sqlite: Engine, whole: dict[str, Any]) -> None:
    first = backfill(sqlite, Tape(quarter()))
    again = backfill(sqlite, Tape(quarter()))
    assert first.samples == len(quarter())
    assert (again.samples, again.windows, again.alerts) == (0, 0, [])
    assert_equal(rows(sqlite, without=()), whole)


@pytest.mark.parametrize("overlap", [0.0, 1800.0])
def test_pieces_come_to_the_same_as_one_run(
    sqlite: Engine, whole: dict[str, Any], overlap: float
) -> None:
    for first, last in ((0.0, 3.3), (3.3, 6.2), (6.2, 8.0)):
        start, end = START + first * 3600.0 - overlap, START + last * 3600.0
        backfill(sqlite, Tape([look for look in quarter() if start <= look.at < end]))
    assert_alike(rows(sqlite, without=()), whole)


def test_a_run_that_breaks_off_goes_on_where_it_stopped(
    sqlite: Engine, whole: dict[str, Any]
) -> None:
    for looks in (317, 555, 902):
        with pytest.raises(ConfigError, match="ends here"):
            backfill(sqlite, Tape(quarter(), breaks_after=looks))
    backfill(sqlite, Tape(quarter()))
    assert_alike(rows(sqlite, without=()), whole)


def test_a_dry_run_finds_the_same_and_writes_nothing(
    sqlite: Engine, whole: dict[str, Any]
) -> None:
    before = rows(sqlite, without=())
    found = backfill(sqlite, Tape(quarter()), dry=True)
    assert rows(sqlite, without=()) == before
    assert found.changes == len(whole["verdicts"])
    assert {one.rule for one in found.alerts} == {row[0] for row in whole["incidents"]}


def test_only_the_span_that_was_asked_for_is_taken_in(sqlite: Engine) -> None:
    found = backfill(sqlite, Tape(quarter()), START + 3600.0, START + 7200.0)
    assert (found.start, found.end) == (START + 3600.0, START + 7200.0)
    with reading(sqlite) as connection:
        ends = [*connection.scalars(select(samples.c.end))]
    assert (min(ends), max(ends)) == (START + 3660.0, START + 7200.0)


def test_what_was_watched_live_stays_as_it_is(sqlite: Engine) -> None:
    """A daemon that lost its memory in a hole of half an hour, and was idle before and after."""
    for first, last in ((2.0, 4.0), (4.5, 6.5)):
        start, end = START + first * 3600.0, START + last * 3600.0
        watch_live(sqlite, [look for look in quarter() if start <= look.at < end], start)
    live = rows(sqlite)
    found = backfill(sqlite, Tape(quarter()))
    after = rows(sqlite)
    for table in ("samples", "verdicts", "fingerprints", "notifications"):
        assert set(live[table]) <= set(after[table])
    assert found.skipped == {"the monitor watched at that time": 3 * (120 + 120 - 2)}
    assert found.samples + sum(found.skipped.values()) == len(quarter())
    # Each moment is counted once, but for the first look of all and the first in the hole,
    # where nobody knows any more what the counters were.
    assert len(after["samples"]) == len(quarter()) - 2 * len(TARGETS)
    spans = sorted((row[:3] for row in after["samples"]), key=lambda row: (row[0], row[2]))
    assert all(one[0] != two[0] or one[2] <= two[1] for one, two in pairwise(spans))


def test_the_daemon_goes_on_from_what_was_filled_in_and_tells_of_what_still_holds(
    sqlite: Engine,
) -> None:
    until = START + 6.5 * 3600.0
    backfill(sqlite, Tape([look for look in quarter() if look.at < until]))
    repository = Repository(sqlite)
    state = repository.load_states()["a"]
    assert until - 60.0 <= state.at < until
    assert json.loads(state.state)["references"]
    assert repository.alerts.states() == {}
    assert repository.alerts.incidents() == []
    assert len(repository.alerts.incidents(IncidentFilter.ALL)) > 0


def test_what_is_older_than_live_data_leaves_the_daemon_alone(sqlite: Engine) -> None:
    start = START + 4.0 * 3600.0
    watch_live(sqlite, [look for look in quarter() if start <= look.at < start + 3600.0], start)
    before = rows(sqlite)
    backfill(sqlite, Tape([look for look in quarter() if look.at < start]))
    after = rows(sqlite)
    for table in ("target_states", "alert_states"):
        assert after[table] == before[table]


def test_what_follows_live_data_goes_on_from_the_memory_of_the_daemon(sqlite: Engine) -> None:
    middle = START + 3.0 * 3600.0
    watch_live(sqlite, [look for look in quarter() if look.at < middle])
    backfill(sqlite, Tape(quarter()))
    spans = sorted((row[:3] for row in rows(sqlite)["samples"]), key=lambda row: (row[0], row[2]))
    assert len(spans) == len(quarter()) - len(TARGETS)
    assert all(one[0] != two[0] or one[2] == two[1] for one, two in pairwise(spans))
    first_after = [row for row in rows(sqlite)["verdicts"] if row[1] >= middle]
    assert all(row[1] > middle + 60.0 for row in first_after)
