"""What is read is the same before and after samples were rolled up and dropped."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import astuple
from itertools import groupby
from math import ceil

import pytest
from sqlalchemy import Engine
from store_rows import NOON, row, target

from monitor.health.combine import combine
from monitor.health.ledger import add
from monitor.model import Counts, Increment
from monitor.store.repository import Repository
from monitor.store.retention import announce, prune
from monitor.store.rollup import RAW, roll_up
from monitor.store.rows import HistoryRow

SPAN = 3 * 3_600.0
Look = tuple[float, tuple[Counts, ...], bool]
"""Seconds since the start, figures by engine, whether it is warm-up."""


def looks(chance: random.Random) -> list[Look]:
    """Some hours of looks at one to three engines."""
    engines = chance.randint(1, 3)
    found: list[Look] = []
    at = 0.0
    while at < SPAN:
        at += chance.choice([15.0] * 30 + [0.25, 59.75, 75.0])
        figures = tuple(_figures(chance) for _ in range(engines))
        found.append((at, figures, chance.random() < 0.1))
    return found


def _figures(chance: random.Random) -> Counts:
    names = ("drafts", "draft_tokens", "accepted_tokens", "running_seconds", "decode_seconds")
    return Counts(
        **{name: float(chance.randrange(1_000)) for name in names},
        decode_tokens=float(chance.randrange(1_000)),
        seconds=chance.choice([15.0, 14.5]),
        saturated_seconds=chance.choice([0.0, 15.0]),
        resets=float(chance.random() < 0.1),
        positions=(float(chance.randrange(100)),) * chance.randrange(4),
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_span_of_full_buckets_comes_to_the_same_before_and_after(
    repository: Repository, engine: Engine, seed: int
) -> None:
    chance = random.Random(seed)
    begin, past = ceil(NOON / 600) * 600.0, looks(chance)
    repository.register([target("a")], begin)
    _store(repository, "a", begin, past)
    gone = {
        None: begin,
        RAW: begin + 600.0 * chance.randint(0, 18),
        60: begin + 600.0 * chance.randint(0, 18),
    }
    now = begin + 2 * SPAN

    def spans(unit: float, first: float = begin) -> list[tuple[float, float, float]]:
        found = []
        for _ in range(4):
            start, length = first + unit * chance.randint(0, 5), unit * chance.randint(1, 30)
            steps = chance.randint(1, 20)
            found += [(start, start + length * steps - part, length) for part in (0.0, unit)]
        return [(start, end, step) for start, end, step in found if end > start]

    exact = {
        None: [*spans(60.0), *spans(0.5)],
        RAW: [*spans(60.0), *spans(0.5, gone[RAW])],
        60: [*spans(600.0), *spans(60.0, gone[60]), *spans(0.5, max(gone[RAW], gone[60]))],
    }
    for step, until in gone.items():
        before = [_all_of(repository, "a", span) for span in exact[step]]
        while roll_up(engine, now):
            pass
        if step is not None:
            announce(engine, step, until)
            assert [_all_of(repository, "a", span) for span in exact[step]] == before
            prune(engine, step, until, now)
        assert [_all_of(repository, "a", span) for span in exact[step]] == before


def _store(
    repository: Repository,
    name: str,
    begin: float,
    past: Sequence[Look],
) -> None:
    own = [
        Increment(str(label), begin + at - counts.seconds, begin + at, counts, warmup)
        for at, figures, warmup in past
        for label, counts in enumerate(figures)
    ]
    if own:
        repository.write_round([row(own[-1].end, *own, name=name)])


def _all_of(
    repository: Repository, name: str, span: tuple[float, float, float]
) -> tuple[list[HistoryRow], Counts]:
    """The history of a span, and the sum of its increments, of the target as a whole."""
    start, end, step = span
    total = Counts()
    increments = repository.samples(name, start, end)
    for _, group in groupby(increments, key=lambda increment: increment.end):
        parts = [(each.label, each.counts) for each in group]
        assert len(dict(parts)) == len(parts)  # Nothing is told twice.
        total = add(total, combine(dict(parts)))
    return repository.history(name, start, end, step), total


def test_a_step_of_half_a_minute_is_exact_where_there_are_samples(
    repository: Repository, engine: Engine
) -> None:
    begin = ceil(NOON / 600) * 600.0
    repository.register([target("a")], begin)
    past: list[Look] = [(15.0 * (n + 1), (Counts(drafts=float(n)),), False) for n in range(240)]
    _store(repository, "a", begin, past)
    span = begin + 7.0, begin + 3_600.0, 30.0
    before = [astuple(each) for each in repository.history("a", *span)]
    while roll_up(engine, begin + 3_700.0):
        pass
    prune(engine, RAW, begin, begin)
    assert [astuple(each) for each in repository.history("a", *span)] == before
    prune(engine, RAW, begin + 1_800.0, begin + 3_700.0)
    after = repository.history("a", *span)
    assert sum(each.drafts or 0.0 for each in after) == sum(range(240))
    assert [astuple(each) for each in after if each.at > begin + 1_830.0] == [
        each for each in before if each[0] > begin + 1_830.0
    ]


@pytest.mark.parametrize("first", [0.0, 7_200.0])
def test_the_first_sample_is_known_by_its_sums(
    repository: Repository, engine: Engine, first: float
) -> None:
    begin = ceil(NOON / 600) * 600.0
    repository.register([target("a")], begin)
    _store(repository, "a", begin, [(first + 15.0, (Counts(),), False)])
    while roll_up(engine, begin + 90_000.0):
        pass
    before = repository.moment("a", begin + 10_000.0)
    prune(engine, RAW, begin + 86_400.0, begin)
    after = repository.moment("a", begin + 10_000.0)
    assert before is not None
    assert after is not None
    assert before.first_sample == after.first_sample == begin + first + 15.0
