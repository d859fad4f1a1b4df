"""Streams rows out of the database, in the order of time and in flat memory."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import merge
from typing import Any

from sqlalchemy import Connection, Select, Table, select

from monitor.model import Identity, Increment
from monitor.store.fingerprint import read_identity
from monitor.store.increments import first_end, load_samples
from monitor.store.retention import read_dropped
from monitor.store.rollup import RAW, STEPS, bucket_end
from monitor.store.tables import (
    SCALARS,
    fingerprints,
    incidents,
    notifications,
    rollback_decisions,
    services,
    targets,
    verdicts,
)

_AT_ONCE = 500
_FINE_SECONDS, _COARSE_SECONDS = 3_600.0, 86_400.0
"""Spans that are read at once, of samples and of sums."""
_IDENTITY = Identity._fields


class What(StrEnum):
    """What can be exported."""

    SAMPLES = "samples"
    VERDICTS = "verdicts"
    ALERTS = "alerts"
    DECISIONS = "decisions"


COLUMNS: Mapping[What, tuple[str, ...]] = {
    What.SAMPLES: (
        "target",
        "service",
        "role",
        "label",
        "start",
        "end",
        "warmup",
        *SCALARS,
        "positions",
        *_IDENTITY,
        "verdict",
    ),
    What.VERDICTS: (
        "target",
        "service",
        "at",
        "verdict",
        "cause",
        "action",
        "sentence",
        "document",
    ),
    What.ALERTS: (
        "target",
        "service",
        "at",
        "rule",
        "severity",
        "reason",
        "incident",
        "sequence",
        "title",
        "sentence",
        "document",
    ),
    What.DECISIONS: (
        "service",
        "at",
        "kind",
        "mode",
        "phase",
        "plan",
        "cure",
        "share",
        "who",
        "pages",
        "sentence",
        "evidence",
    ),
}
"""The columns of each, in order. Times are seconds since the epoch, documents are JSON."""

Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows: after ``start`` and up to ``end``, of these targets or of all."""

    start: float
    end: float
    targets: tuple[str, ...] = ()


def export_rows(connection: Connection, what: What, selection: Selection) -> Iterator[Row]:
    """The rows, ascending in time, each with the values of ``COLUMNS``."""
    return _EXPORTS[what](connection, selection)


# -- samples -------------------------------------------------------------------------------


@dataclass(slots=True)
class _Target:
    """What is the same for many samples of a target, by time."""

    id: int
    name: str
    service: str
    role: str
    identities: list[tuple[float, Identity]]
    verdicts: list[tuple[float, str]]

    def row(self, increment: Increment) -> Row:
        label, start, end, (*scalars, positions), warmup = increment
        head = (self.name, self.service, self.role, label, start, end, warmup)
        identity = _latest(self.identities, end) or Identity()
        verdict = _latest(self.verdicts, end)
        return (*head, *scalars, list(positions), *identity, verdict)


def _latest(by_time: Sequence[tuple[float, Any]], at: float) -> Any:
    index = bisect_right(by_time, at, key=lambda entry: entry[0])
    # What the first page of a server told was known of it before there was an increment.
    return by_time[index - 1][1] if index else None


def _samples(connection: Connection, selection: Selection) -> Iterator[Row]:
    chosen = _targets(connection, selection)
    firsts = [first_end(connection, target.id) for target in chosen]
    first = min((at for at in firsts if at is not None), default=selection.end)
    at = max(selection.start, bucket_end(first, STEPS[-1]) - STEPS[-1])
    while at < selection.end:
        fine = at >= read_dropped(connection)[RAW]
        until = min(bucket_end(at + 1.0, STEPS[-1]), selection.end)
        until = min(until + (_FINE_SECONDS if fine else _COARSE_SECONDS), selection.end)
        parts = (_of_target(connection, target, at, until) for target in chosen)
        yield from merge(*parts, key=_end_of)
        at = until


def _of_target(connection: Connection, target: _Target, start: float, end: float) -> list[Row]:
    return [target.row(one) for one in load_samples(connection, target.id, start, end)]


def _end_of(row: Row) -> float:
    end: float = row[_END]
    return end


_END = COLUMNS[What.SAMPLES].index("end")


def _targets(connection: Connection, selection: Selection) -> list[_Target]:
    query = (
        select(targets.c.id, targets.c.name, services.c.name, targets.c.role)
        .join_from(targets, services)
        .where(*_named(targets, "name", selection))
        .order_by(targets.c.name)
    )
    return [
        _Target(*row, _identities(connection, row[0]), _verdicts_of(connection, row[0]))
        for row in connection.execute(query).all()
    ]


def _identities(connection: Connection, key: int) -> list[tuple[float, Identity]]:
    column = fingerprints.c
    query = select(column.since, *(column[part] for part in _IDENTITY)).where(
        column.target_id == key
    )
    rows = connection.execute(query.order_by(column.since))
    return [(since, read_identity(*parts)) for since, *parts in rows]


def _verdicts_of(connection: Connection, key: int) -> list[tuple[float, str]]:
    column = verdicts.c
    query = select(column.at, column.verdict).where(column.target_id == key).order_by(column.at)
    return [(at, verdict) for at, verdict in connection.execute(query)]


# -- what is kept for ever -----------------------------------------------------------------


def _verdicts(connection: Connection, selection: Selection) -> Iterator[Row]:
    column = verdicts.c
    query = (
        select(targets.c.name, services.c.name, *column[1:])
        .join_from(verdicts, targets)
        .join(services)
        .where(*_within(column.at, selection), *_named(targets, "name", selection))
        .order_by(column.at, targets.c.name)
    )
    return _streamed(connection, query)


def _alerts(connection: Connection, selection: Selection) -> Iterator[Row]:
    told, about = notifications.c, incidents.c
    query = (
        select(about.target, about.service, told.at, about.rule, about.severity, told.reason)
        .add_columns(told.incident, told.sequence, about.title, about.sentence, told.document)
        .join_from(notifications, incidents, told.incident == about.id)
        .where(*_within(told.at, selection), *_named(incidents, "target", selection))
        .order_by(told.at, told.id)
    )
    return _streamed(connection, query)


def _decisions(connection: Connection, selection: Selection) -> Iterator[Row]:
    column = rollback_decisions.c
    query = select(*(column[name] for name in COLUMNS[What.DECISIONS]))
    query = query.where(*_within(column.at, selection)).order_by(column.at, column.id)
    if selection.targets:
        own = (
            select(services.c.name)
            .join_from(services, targets)
            .where(targets.c.name.in_(selection.targets))
        )
        query = query.where(column.service.in_(own))
    return _streamed(connection, query)


def _streamed(connection: Connection, query: Select[*tuple[Any, ...]]) -> Iterator[Row]:
    """The rows as they come, the last column read as JSON."""
    for *rest, document in connection.execution_options(yield_per=_AT_ONCE).execute(query):
        yield (*rest, json.loads(document))


def _within(column: Any, selection: Selection) -> tuple[Any, ...]:
    return column > selection.start, column <= selection.end


def _named(table: Table, column: str, selection: Selection) -> tuple[Any, ...]:
    return (table.c[column].in_(selection.targets),) if selection.targets else ()


_EXPORTS: Mapping[What, Callable[[Connection, Selection], Iterator[Row]]] = {
    What.SAMPLES: _samples,
    What.VERDICTS: _verdicts,
    What.ALERTS: _alerts,
    What.DECISIONS: _decisions,
}
