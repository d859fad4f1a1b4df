"""Builds rows for the tests of the store, and looks at tables as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, select

from monitor.model import Action, Cause, Counts, Identity, Increment, Verdict
from monitor.model import Engine as ModelServer
from monitor.settings import TargetSettings
from monitor.store.connect import open_store, reading
from monitor.store.rows import Change, RoundRow
from monitor.store.tables import metadata

NOON = 1_700_000_000.0


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    """An open database that is closed again whatever happens."""
    engine = open_store(url)
    try:
        yield engine
    finally:
        engine.dispose()


def target(name: str = "a", service: str = "chat", url: str = "http://a:8000") -> TargetSettings:
    return TargetSettings(name=name, service=service, url=url)


def increment(end: float, label: str = "0", *, warmup: bool = False, **counts: Any) -> Increment:
    return Increment(label, end - 15.0, end, Counts(**counts), warmup)


def row(now: float = NOON, *increments: Increment, name: str = "a", **rest: Any) -> RoundRow:
    return RoundRow(name, now, increments, rest.pop("state", "{}"), **rest)


def change(verdict: Verdict = Verdict.HARMFUL, sentence: str = "It harms.") -> Change:
    return Change(verdict, Cause.WEAK_DRAFTER, Action.ROLL_BACK, sentence, "{}")


def vllm(**parts: Any) -> Identity:
    return Identity(engine=ModelServer.VLLM, **parts)


def full_row(now: float = NOON, name: str = "a") -> RoundRow:
    """A row that touches every table."""
    counts: dict[str, Any] = {"drafts": 10.0, "draft_tokens": 50.0, "positions": (7.0, 3.5)}
    return row(
        now,
        increment(now, "0", **counts),
        increment(now, "1", **counts),
        name=name,
        state=f'{{"now": {now}}}',
        document="{}",
        change=change(),
        identity=vllm(engine_version=f"0.{now:.0f}"),
    )


def dump(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables."""
    with reading(engine) as connection:
        return {
            table.name: sorted(
                (tuple(found) for found in connection.execute(select(table))), key=repr
            )
            for table in metadata.sorted_tables
        }
