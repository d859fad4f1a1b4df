"""Reads what is stored about one target at some moment, for ``monitor explain``."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, select

from monitor.model import Identity, Verdict
from monitor.store.fingerprint import read_identity
from monitor.store.increments import HISTORY_SECONDS, first_end, load_samples
from monitor.store.orders import load_orders
from monitor.store.pieces import seconds_kept
from monitor.store.registry import load_facts, load_judge
from monitor.store.retention import read_dropped
from monitor.store.rollup import bucket_end
from monitor.store.rows import StoredMoment, StoredState, VerdictChange
from monitor.store.tables import fingerprints, target_states, verdicts

YOUNG_SECONDS = 2.0 * HISTORY_SECONDS
"""A target no older than this is read from its first sample on: then all that was learnt of it
until the moment can be learnt again."""


def load_moment(connection: Connection, target_id: int, at: float) -> StoredMoment | None:
    """The state of knowledge at a time; None where nothing was known yet."""
    state = load_state(connection, target_id)
    first = first_end(connection, target_id)
    if state is not None:
        at = min(at, state.at)
    kept = seconds_kept(read_dropped(connection), at)
    if kept:
        # What happened within a sum cannot be told apart any more.
        at = bucket_end(at, kept)
    changes = _load_verdicts(connection, target_id, at)
    if not changes and (first is None or first > at):
        return None
    young = first is not None and at - first <= YOUNG_SECONDS
    start = at - (YOUNG_SECONDS if young else HISTORY_SECONDS)
    judge, gap = load_judge(connection, target_id)
    return StoredMoment(
        facts=load_facts(connection, target_id),
        at=at,
        judge=judge,
        gap=gap,
        state=state,
        verdicts=_from(changes, start),
        since=_since(changes),
        identities=_load_identities(connection, target_id, at),
        samples=tuple(load_samples(connection, target_id, start, at)),
        first_sample=first,
        orders=tuple(load_orders(connection, target_id)),
        kept=kept,
    )


def load_state(connection: Connection, target_id: int) -> StoredState | None:
    """What the last process knew about one target."""
    column = target_states.c
    query = select(column.at, column.state, column.assessment).where(column.target_id == target_id)
    found = connection.execute(query).first()
    return StoredState(*found) if found is not None else None


def _load_verdicts(connection: Connection, target_id: int, at: float) -> list[VerdictChange]:
    """The changes up to a time, of which only the last comes with its document."""
    own = verdicts.c.target_id == target_id
    names = ("at", "verdict", "cause", "action", "sentence")
    query = (
        select(*(verdicts.c[name] for name in names))
        .where(own, verdicts.c.at <= at)
        .order_by(verdicts.c.at)
    )
    found = [
        VerdictChange(moment, Verdict(verdict), cause, action, sentence, document="")
        for moment, verdict, cause, action, sentence in connection.execute(query)
    ]
    if not found:
        return []
    document = select(verdicts.c.document).where(own, verdicts.c.at == found[-1].at)
    last = replace(found[-1], document=connection.execute(document).scalar_one())
    return [*found[:-1], last]


def _from(changes: list[VerdictChange], start: float) -> tuple[VerdictChange, ...]:
    """The one in force at ``start`` and all later ones."""
    earlier = [change for change in changes if change.at <= start]
    return (*earlier[-1:], *changes[len(earlier) :])


def _since(changes: list[VerdictChange]) -> float | None:
    since = None
    for change in reversed(changes):
        if change.verdict is not changes[-1].verdict:
            break
        since = change.at
    return since


def _load_identities(
    connection: Connection, target_id: int, at: float
) -> tuple[tuple[float, Identity], ...]:
    column = fingerprints.c
    query = (
        select(column.since, *(column[part] for part in Identity._fields))
        .where(column.target_id == target_id, column.since <= at)
        .order_by(column.since)
    )
    return tuple((since, read_identity(*parts)) for since, *parts in connection.execute(query))
