"""Tells time that was filled in afterwards from time that was watched live."""

from __future__ import annotations

from sqlalchemy import ColumnElement, exists

from monitor.store.tables import backfills, incidents, targets


def is_filled(target_id: ColumnElement[int], at: ColumnElement[float]) -> ColumnElement[bool]:
    """Whether a moment of a target was filled in."""
    column = backfills.c
    return exists().where(column.target_id == target_id, column.start <= at, column.end >= at)


def incident_is_filled() -> ColumnElement[bool]:
    """Whether an incident began in time that was filled in."""
    column, began = backfills.c, incidents.c.started_at
    return exists().where(
        targets.c.name == incidents.c.target,
        column.target_id == targets.c.id,
        column.start <= began,
        column.end >= began,
    )
