"""Time filled in afterwards: what is covered already, and how rows of the past come in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import (
    CompoundSelect,
    Connection,
    Engine,
    func,
    select,
    union_all,
)

from monitor.model import Identity, Increment, Verdict
from monitor.settings import TargetSettings
from monitor.store.connect import insert_into, reading, writing
from monitor.store.cover import Stretch, without
from monitor.store.filled import is_filled
from monitor.store.fingerprint import read_identity
from monitor.store.increments import load_samples
from monitor.store.moment import load_state
from monitor.store.registry import add_missing, load_ids
from monitor.store.rounds import RoundWriter, read_memory, states_statement
from monitor.store.rows import RoundRow, StoredState
from monitor.store.tables import (
    backfills,
    fingerprints,
    rollups,
    samples,
    series,
    verdicts,
)
from monitor.store.text import clean_document, clean_optional, clean_text


@dataclass(frozen=True, slots=True)
class Filled:
    """How far the time of a target has been filled in."""

    target: str
    start: float
    end: float
    source: str
    memory: str


@dataclass(slots=True)
class PastStore:
    """Reads and writes the past of some targets, each call in a transaction of its own.

    Not safe from several threads. All methods raise ``StoreError``. A ``dry`` one only reads.
    """

    engine: Engine
    targets: Mapping[str, TargetSettings]
    now: float
    """When the targets that are not stored yet are said to have been added."""
    dry: bool = False
    _ids: dict[str, int] = field(init=False)
    _rounds: RoundWriter = field(init=False)

    def __post_init__(self) -> None:
        with reading(self.engine) if self.dry else writing(self.engine) as connection:
            if not self.dry:
                add_missing(connection, [*self.targets.values()], self.now)
            self._ids = load_ids(connection, self.targets.keys())
            memory = read_memory(connection, self._ids)
        self._rounds = RoundWriter(self.engine)
        self._rounds.remember(memory)

    def stretches(self, target: str, gap: float) -> list[Stretch]:
        """All time of a target that something is stored of, ascending.

        Holes of up to ``gap`` seconds in what was watched live belong to it.
        """
        key = self._ids.get(target)
        if key is None:
            return []
        with reading(self.engine) as connection:
            filled = _load_filled(connection, key)
            occupied = _occupied(connection, key, gap)
            live = [
                stretch for stretch in without(occupied, filled) if not _is_sliver(stretch, gap)
            ]
            return sorted([*filled, *_with_outages(connection, key, live, filled)], key=_start)

    def live_state(self, target: str) -> StoredState | None:
        """Where the daemon stopped."""
        with reading(self.engine) as connection:
            return load_state(connection, self._ids[target])

    def history(self, target: str, start: float, end: float) -> Sequence[Increment]:
        """The samples of a target that end in (``start``, ``end``], ascending in time."""
        with reading(self.engine) as connection:
            return load_samples(connection, self._ids[target], start, end)

    def begin_at(self, target: str, at: float) -> None:
        """Lets the next rows of a target follow on what was known of its server before ``at``."""
        if self.dry:
            return
        with reading(self.engine) as connection:
            self._rounds.recall(target, _identity_before(connection, self._ids[target], at))

    def write(self, batch: Sequence[RoundRow], reached: Sequence[Filled]) -> int:
        """Writes rows and how far they reach, as a whole or not at all.

        Returns:
            How many increments were left out because a figure was not finite.
        """

        def write_reached(connection: Connection) -> None:
            for filled in reached:
                _put_filled(connection, self._ids[filled.target], filled)

        return 0 if self.dry else self._rounds.write(batch, write_reached)

    def hand_over(self, target: str) -> bool:
        """Lets the next daemon go on from the end of what was filled in, if that is the newest.

        Alerts are history only: those that still hold begin anew under its eyes, so that
        people are told of them.
        """
        if self.dry:
            return False
        key = self._ids[target]
        with writing(self.engine) as connection:
            filled = _load_filled(connection, key)
            state = load_state(connection, key)
            if not filled or (state is not None and state.at >= filled[-1].end):
                return False
            _put_state(connection, key, filled[-1])
        return True


def _start(stretch: Stretch) -> float:
    return stretch.start


def _is_sliver(stretch: Stretch, gap: float) -> bool:
    """What roll-ups of a minute leave over beside time that was filled in."""
    return stretch.end - stretch.start <= gap


def _load_filled(connection: Connection, key: int) -> list[Stretch]:
    column = backfills.c
    query = select(column.start, column.end, column.memory).where(column.target_id == key)
    return [Stretch(*row) for row in connection.execute(query.order_by(column.start))]


def _occupied(connection: Connection, key: int, gap: float) -> list[tuple[float, float]]:
    """The spans of time with rows; holes of up to ``gap`` seconds do not part them."""
    rows = _rows_of(key).subquery()
    until = func.max(rows.c.end).over(order_by=rows.c.end, rows=(None, -1)).label("until")
    marked = select(rows.c.start, rows.c.end, until).subquery()
    query = (
        select(marked.c.start, marked.c.until)
        .where((marked.c.until.is_(None)) | (marked.c.start > marked.c.until + gap))
        .order_by(marked.c.start)
    )
    borders = connection.execute(query).all()
    last = connection.execute(select(func.max(rows.c.end))).scalar()
    ends = [*(row.until for row in borders[1:]), last]
    return [(row.start, end) for row, end in zip(borders, ends, strict=False)]


def _rows_of(key: int) -> CompoundSelect[float, float]:
    """Start and end of all samples of a target, and of the sums of those that are dropped."""
    own = select(series.c.id).where(series.c.target_id == key)
    return union_all(
        select(samples.c.start, samples.c.end).where(samples.c.series_id.in_(own)),
        select(rollups.c.start, rollups.c.end).where(rollups.c.series_id.in_(own)),
    )


def _with_outages(
    connection: Connection, key: int, live: Sequence[Stretch], filled: Sequence[Stretch]
) -> list[Stretch]:
    """Adds the time in which the daemon watched a server that did not answer."""
    column = verdicts.c
    down = select(column.at).where(
        column.target_id == key,
        column.verdict == Verdict.DOWN.value,
        ~is_filled(column.target_id, column.at),
    )
    starts = [*connection.scalars(down.order_by(column.at))]
    state = load_state(connection, key)
    watched_until = 0.0 if state is None else state.at
    if any(stretch.start <= watched_until <= stretch.end for stretch in filled):
        watched_until = 0.0
    found = [*live]
    for start in starts:
        later = [stretch.start for stretch in (*live, *filled) if stretch.start > start]
        end = min(later, default=max(watched_until, start))
        if start < end:
            found.append(Stretch(start, end))
    return _merged(found)


def _merged(stretches: Sequence[Stretch]) -> list[Stretch]:
    merged: list[Stretch] = []
    for stretch in sorted(stretches, key=_start):
        if merged and stretch.start <= merged[-1].end:
            merged[-1] = Stretch(merged[-1].start, max(merged[-1].end, stretch.end))
        else:
            merged.append(stretch)
    return merged


def _identity_before(connection: Connection, key: int, at: float) -> Identity:
    column = fingerprints.c
    found = connection.execute(
        select(*(column[part] for part in Identity._fields))
        .where(column.target_id == key, column.since < at)
        .order_by(column.since.desc())
        .limit(1)
    ).first()
    return Identity() if found is None else read_identity(*found)


def _put_filled(connection: Connection, key: int, filled: Filled) -> None:
    values = {
        "target_id": key,
        "start": filled.start,
        "end": filled.end,
        "source": clean_text(filled.source),
        "memory": filled.memory,
    }
    statement = insert_into(connection.engine, backfills).values(**values)
    changed = ("end", "memory")
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["target_id", "start"],
            set_={name: statement.excluded[name] for name in changed},
        )
    )


def _put_state(connection: Connection, key: int, newest: Stretch) -> None:
    memory = json.loads(newest.memory or "{}")
    document = memory["assessment"]
    values = {
        "target_id": key,
        "at": newest.end,
        "problem": clean_optional(memory["problem"]),
        "state": clean_document(memory["state"]),
        "assessed_at": memory["assessed_at"],
        "assessment": None if document is None else clean_document(document),
    }
    connection.execute(states_statement(connection.engine), values)
