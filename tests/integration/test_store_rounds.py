"""Rounds: written once, as a whole, whatever the pages said."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, select
from store_rows import NOON, change, dump, full_row, increment, opened, row, target, vllm

from monitor.model import Counts, Increment, StoreError
from monitor.store.connect import reading, writing
from monitor.store.repository import Repository
from monitor.store.tables import samples, target_states

HOSTILE = ["", "\0", "a\0b", "\ud800", "ü" * 10, "x" * 10**6, "'; DROP TABLE samples; --", "%s"]


def test_increments_come_back_as_they_were_written(repository: Repository) -> None:
    repository.register([target("a")], NOON)
    figures = Counts._make((*map(float, range(1, len(Counts._fields))), (3.0, 0.1)))
    written = [
        Increment("0", NOON - 15.0, NOON, figures, warmup=True),
        Increment("1", NOON - 15.0, NOON, Counts(), warmup=False),
    ]
    assert repository.write_round([row(NOON, *written)]) == 0
    assert repository.load_history("a", NOON - 3600.0, NOON) == written


def test_a_round_written_twice_changes_nothing(repository: Repository, engine: Engine) -> None:
    settings = [target("a"), target("b")]
    repository.register(settings, NOON)
    batch = [full_row(name="a"), full_row(name="b")]
    repository.write_round(batch)
    before = dump(engine)
    repository.write_round(batch)
    afresh = Repository(engine)
    afresh.register(settings, NOON)
    afresh.write_round(batch)
    assert dump(engine) == before
    assert [len(before[name]) for name in ("samples", "verdicts", "events")] == [4, 2, 2]


def test_a_round_is_written_as_a_whole_or_not_at_all(
    repository: Repository, engine: Engine
) -> None:
    repository.register([target("a"), target("b")], NOON)
    before = dump(engine)
    # The document of the last row is no JSON, which shows only when it has to be cut.
    broken = full_row(name="b")._replace(change=change()._replace(document="\0"))
    with pytest.raises(ValueError, match="Expecting value"):
        repository.write_round([full_row(name="a"), broken])
    assert dump(engine) == before
    repository.write_round([full_row(name="a"), full_row(name="b")])
    assert len(dump(engine)["samples"]) == 4


def test_an_empty_round_is_fine(repository: Repository) -> None:
    repository.register([target("a")], NOON)
    assert repository.write_round([]) == 0


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e308])
def test_figures_that_cannot_be_summed_are_left_out(repository: Repository, bad: float) -> None:
    repository.register([target("a")], NOON)
    good = increment(NOON, "0", drafts=1.0)
    figures: dict[str, Any] = {"drafts": bad, "draft_tokens": bad, "positions": (bad, bad)}
    assert repository.write_round([row(NOON, good, increment(NOON, "1", **figures))]) == 1
    assert repository.load_history("a", NOON - 60.0, NOON) == [good]


def test_hostile_text_does_no_harm(repository: Repository, engine: Engine) -> None:
    repository.register([target("a")], NOON)
    for number, text in enumerate(HOSTILE):
        now = NOON + number
        repository.write_round(
            [
                row(
                    now,
                    *(increment(now, label) for label in HOSTILE),
                    problem=text,
                    identity=vllm(model=text, method=text, engine_version=text),
                    change=change(sentence=text),
                )
            ]
        )
    found = dump(engine)
    assert len(found["series"]) == len(HOSTILE)
    assert len(found["samples"]) == len(HOSTILE) ** 2
    assert max(len(part) for part in found["verdicts"][-1] if isinstance(part, str)) <= 2000


def test_two_writers_never_find_the_database_locked(database_url: str) -> None:
    def write(name: str) -> None:
        with opened(database_url) as engine:
            repository = Repository(engine)
            # Both targets are registered by both, so that neither retires the other's.
            repository.register([target("a"), target("b")], NOON)
            for number in range(500):
                repository.write_round([full_row(NOON + number, name)])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, ["a", "b"]))
    with opened(database_url) as engine:
        assert len(dump(engine)["samples"]) == 2 * 2 * 500


def test_reading_before_writing_is_safe(repository: Repository, engine: Engine) -> None:
    repository.register([target("a")], NOON)
    repository.write_round([row(NOON)])

    def count_up(_: int) -> None:
        with writing(engine) as connection:
            lock = select(target_states.c.at).with_for_update()
            at = connection.execute(lock).scalar_one()
            connection.execute(target_states.update().values(at=at + 1.0))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(count_up, range(100)))
    assert repository.load_states()["a"].at == NOON + 100.0


def test_a_reader_neither_waits_for_a_writer_nor_stops_it(
    repository: Repository, engine: Engine
) -> None:
    repository.register([target("a")], NOON)
    with reading(engine) as reader:
        assert reader.execute(select(samples)).all() == []
        repository.write_round([full_row()])
        with writing(engine):
            assert len(repository.statuses()) == 1


def test_a_lost_database_is_a_store_error(repository: Repository, engine: Engine) -> None:
    repository.register([target("a")], NOON)
    with writing(engine) as connection:
        connection.exec_driver_sql("ALTER TABLE samples RENAME TO lost")
    with pytest.raises(StoreError, match="samples") as caught:
        repository.write_round([full_row()])
    assert "\n" not in str(caught.value)
