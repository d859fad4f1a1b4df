"""Roll-ups: each sample in each sum once, however late, however often it is tried."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from math import ceil

import pytest
from sqlalchemy import Engine, select
from store_rows import NOON, increment, row, target

from monitor.health.ledger import add
from monitor.model import Counts, Increment
from monitor.store import rollup
from monitor.store.connect import reading
from monitor.store.repository import Repository
from monitor.store.rollup import RAW, roll_up
from monitor.store.tables import SCALARS, levels, rollups

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


@pytest.fixture(autouse=True)
def registered(repository: Repository) -> None:
    repository.register([target()], NOON)


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
