"""Roll-ups: each sample in each sum once, however late, however often it is tried."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from math import ceil
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select, update
from store_rows import NOON, change, increment, opened, row, target
from structlog.testing import capture_logs

from monitor.health.combine import combine
from monitor.health.ledger import add
from monitor.model import Counts, Increment
from monitor.settings import Retention
from monitor.store import rollup, schema
from monitor.store.connect import reading, writing
from monitor.store.repository import Repository
from monitor.store.retention import count_older, prune
from monitor.store.rollup import RAW, roll_up
from monitor.store.space import measure
from monitor.store.tables import SCALARS, TARGET_FIGURES, levels, rollups, samples
from monitor.store.upkeep import Upkeep

START = ceil(NOON / 600) * 600.0
LATER = START + 7_200.0


def store(repository: Repository, *increments: Increment) -> None:
    repository.write_round([row(each.end, each) for each in increments])


def some(count: int = 400, seed: int = 1, labels: Sequence[str] = ("0",)) -> list[Increment]:
    """An hour or two of looks, with gaps, a warm-up, and positions of two draft sizes."""
    rng = random.Random(seed)
    found, end = [], START
    for number in range(count):
        end += rng.choice([15.0, 15.25, 14.75, 40.0])
        k = 3 if number % 97 < 60 else 5
        for label in labels:
            drafts = float(rng.randrange(100))
            counts = {
                "seconds": 15.0,
                "drafts": drafts,
                "draft_tokens": k * drafts,
                "accepted_tokens": float(rng.randrange(100)),
                "saturated_seconds": rng.choice([0.0, 15.0]),
                "resets": float(rng.random() < 0.02),
                "position_drafts": drafts,
                "positions": tuple(float(rng.randrange(50)) for _ in range(k)),
            }
            found.append(increment(end, label, warmup=number % 50 < 4, **counts))
    return found


def rolled(engine: Engine, step: int) -> dict[tuple[int, float, bool], Counts]:
    """What is in the roll-ups, by series, bucket and warm-up."""
    with reading(engine) as connection:
        found = connection.execute(select(rollups).where(rollups.c.step == step))
        return {
            (each.series_id, each.at, each.warmup): Counts(
                **{name: getattr(each, name) for name in SCALARS},
                positions=tuple(json.loads(each.positions)),
            )
            for each in found
        }


def summed(
    increments: Sequence[Increment], step: int, labels: Sequence[str] = ("0",)
) -> dict[tuple[int, float, bool], Counts]:
    """The same, added up by hand."""
    sums: dict[tuple[int, float, bool], Counts] = {}
    for each in increments:
        key = labels.index(each.label) + 1, ceil(each.end / step) * float(step), each.warmup
        sums[key] = add(sums.get(key, Counts()), each.counts)
    return sums


@pytest.fixture
def repository(engine: Engine) -> Repository:
    """One that knows a target."""
    repository = Repository(engine)
    repository.register([target()], NOON)
    return repository


def test_each_sample_is_in_the_sum_of_its_minute_and_ten_minutes(
    repository: Repository, engine: Engine
) -> None:
    increments = some()
    store(repository, *increments)
    assert roll_up(engine, LATER + 7_200.0) == len(increments)
    for step in rollup.STEPS:
        assert rolled(engine, step) == summed(increments, step)


def test_in_pieces_and_tried_again_it_comes_to_the_same(
    repository: Repository, engine: Engine
) -> None:
    increments = some()
    store(repository, *increments)
    while roll_up(engine, LATER + 7_200.0, limit=37) > 0:
        pass
    assert roll_up(engine, LATER + 7_200.0) == 0
    for step in rollup.STEPS:
        assert rolled(engine, step) == summed(increments, step)
    with reading(engine) as connection:
        counted = dict(connection.execute(select(levels.c.step, levels.c.row_count)).all())
    assert counted == {
        RAW: len(increments),
        60: len(rolled(engine, 60)),
        600: len(rolled(engine, 600)),
    }


def test_a_minute_that_has_just_passed_is_left_to_come_in(
    repository: Repository, engine: Engine
) -> None:
    store(repository, increment(START + 15.0), increment(START + 75.0))
    assert roll_up(engine, START + 119.0) == 0
    assert roll_up(engine, START + 120.0) == 1
    assert roll_up(engine, START + 180.0) == 1


def test_a_late_sample_is_added_to_its_sums(repository: Repository, engine: Engine) -> None:
    increments = some(40)
    store(repository, *increments[::2])
    roll_up(engine, LATER)
    store(repository, *increments[1::2])
    roll_up(engine, LATER)
    for step in rollup.STEPS:
        assert rolled(engine, step) == summed(increments, step)


def test_what_is_rolled_up_at_once_equals_what_was_rolled_up_each_minute(
    repository: Repository, engine: Engine
) -> None:
    """To the last bit, although sums of fractions depend on the order in which they are made."""
    repository.register([target("a"), target("b")], NOON)
    for number in range(200):
        end = START + 15.0 * (number + 1)
        for name in ("a", "b"):
            each = increment(end, seconds=15.1 + number / 7.0)
            repository.write_round([row(end, each, name=name)])
    with writing(engine) as connection:
        own = samples.c.series_id == 1
        connection.execute(update(samples).where(own).values(rolled=True))
    for minute in range(60):
        roll_up(engine, START + 60.0 * minute)
    with writing(engine) as connection:
        connection.execute(update(samples).where(own).values(rolled=False))
    roll_up(engine, LATER)
    for step in rollup.STEPS:
        found = rolled(engine, step)
        one = {at: counts for (series, at, _), counts in found.items() if series == 1}
        other = {at: counts for (series, at, _), counts in found.items() if series == 2}
        assert one.keys() == other.keys()
        assert all(one[at].seconds == other[at].seconds for at in one)


def test_of_several_engines_a_target_has_the_largest_time(
    repository: Repository, engine: Engine
) -> None:
    """``combine`` takes the largest in each look; a sum must give the sum of those."""
    increments = some(100, labels=("0", "1", "2"))
    looks: dict[float, dict[str, Counts]] = {}
    for each in increments:
        looks.setdefault(each.end, {})[each.label] = each.counts
    for end, parts in looks.items():
        rows = [
            Increment(label, end - 15.0, end, counts, warmup=False)
            for label, counts in parts.items()
        ]
        repository.write_round([row(end, *rows)])
    roll_up(engine, LATER)
    combined = [combine(parts) for parts in looks.values()]
    with reading(engine) as connection:
        for step in rollup.STEPS:
            for name in TARGET_FIGURES:
                query = select(func.sum(rollups.c[f"target_{name}"])).where(rollups.c.step == step)
                found = connection.execute(query).scalar_one()
                assert found == sum(getattr(counts, name) for counts in combined)


def test_what_is_dropped_is_deleted_in_small_pieces(
    repository: Repository, engine: Engine
) -> None:
    increments = some(100)
    store(repository, *increments)
    roll_up(engine, LATER)
    until = START + 1_200.0
    old = [each for each in increments if each.end <= until]
    assert count_older(engine, RAW, until) == len(old)
    assert [prune(engine, RAW, until, LATER, limit=30) for _ in range(3)] == [30, len(old) - 30, 0]
    assert count_older(engine, RAW, until) == 0
    space = measure(engine)
    assert space.rows["samples"] == len(increments) - len(old)
    assert space.oldest_sample == min(each.end for each in increments if each.end > until)
    assert space.pruned_at == LATER


def test_a_sample_that_is_not_rolled_up_is_not_deleted(
    repository: Repository, engine: Engine
) -> None:
    store(repository, *some(10))
    assert prune(engine, RAW, LATER, LATER) == 0
    assert measure(engine).rows["samples"] == 10


def test_a_past_that_is_read_in_again_after_it_was_dropped_is_not_counted_twice(
    repository: Repository, engine: Engine
) -> None:
    increments = some()
    upkeep = Upkeep(engine, Retention(3_600.0, 86_400.0, 864_000.0))
    # In pieces, with upkeep in between, as a long backfill beside a running daemon goes.
    for first in range(0, len(increments), 50):
        store(repository, *increments[: first + 50])
        work_off(upkeep, LATER + 7_200.0)
    for _ in range(2):
        store(repository, *increments)
        work_off(upkeep, LATER + 8_000.0)
    assert measure(engine).rows["samples"] == 0
    assert rolled(engine, 60) == summed(increments, 60)
    work_off(Upkeep(engine, Retention(3_600.0, 3_600.0, 864_000.0)), LATER + 90_000.0)
    store(repository, *increments)
    work_off(upkeep, LATER + 90_000.0)
    assert rolled(engine, 60) == {}
    assert rolled(engine, 600) == summed(increments, 600)


def test_another_past_of_the_same_time_is_left_out_too(
    repository: Repository, engine: Engine
) -> None:
    """The same hour from another source has other times, and was counted all the same."""
    increments = some(100)
    store(repository, *increments)
    work_off(Upkeep(engine, Retention(3_600.0, 86_400.0, 864_000.0)), LATER + 7_200.0)
    moved = [each._replace(start=each.start + 4, end=each.end + 4) for each in increments]
    store(repository, *moved)
    fresh = measure(engine).rows["samples"]
    assert fresh <= 1  # The last one reaches beyond what is known.


@pytest.mark.parametrize("decisions", [0, 3])
def test_a_database_beyond_its_size_drops_the_oldest_samples_first(
    repository: Repository, engine: Engine, decisions: int
) -> None:
    end = START
    rows = []
    for number in range(1_500):
        end += 15.0
        each = increment(end, drafts=1.5, positions=(0.25,) * 200)
        rows.append(row(end, each, change=change() if number % 500 < decisions else None))
    repository.write_round(rows)
    now = end + 120.0
    roomy = Upkeep(engine, Retention(1e9, 1e9, 1e9))
    work_off(roomy, now)
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("ANALYZE")
    before = measure(engine)
    most = int(before.used * 0.8)
    work_off(Upkeep(engine, Retention(1e9, 1e9, 1e9, max_bytes=most)), now)
    after = measure(engine)
    assert after.used <= most
    assert after.oldest_sample is not None
    assert before.oldest_sample is not None
    assert after.oldest_sample > before.oldest_sample
    assert after.rows["rollups"] == before.rows["rollups"]
    assert after.rows["verdicts"] == before.rows["verdicts"] == 3 * decisions


def test_a_clock_that_jumps_far_ahead_drops_nothing_for_a_day(
    repository: Repository, engine: Engine
) -> None:
    store(repository, *some(100))
    upkeep = Upkeep(engine, Retention(3_600.0, 3_600.0, 3_600.0))
    ahead = START + 1e8
    with capture_logs() as logs:
        for seconds in (0.0, 60.0, 40_000.0):
            store(repository, increment(ahead + seconds))
            work_off(upkeep, ahead + seconds + 120.0)
    assert measure(engine).rows["samples"] == 103
    assert [line["event"] for line in logs] == [
        "nothing is dropped until figures have come for a day: by the clock, none were stored"
        " for a month"
    ]
    work_off(upkeep, ahead + 90_000.0)
    assert measure(engine).rows["samples"] == 0


def test_a_file_shrinks_and_its_log_is_cut_off(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'monitor.db'}"
    schema.upgrade(url)
    with opened(url) as engine:
        repository = Repository(engine)
        repository.register([target()], NOON)
        repository.write_round([row(each.end, each) for each in some(2_000)])
        before = measure(engine).total
        short = Retention(3_600.0, 3_600.0, 3_600.0)
        work_off(Upkeep(engine, short, heeds_clock=False), LATER + 1e7)
        after = measure(engine)
        assert after.total < before
        assert after.total - after.used < 100_000
        assert (tmp_path / "monitor.db-wal").stat().st_size == 0


def work_off(upkeep: Upkeep, now: float) -> None:
    while upkeep.work(now):
        pass
