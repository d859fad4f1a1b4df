"""Keeps the stored targets in step with the configured ones."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, select, update

from monitor.health.judging import JudgeSettings
from monitor.model import Identity
from monitor.settings import TargetSettings
from monitor.store.connect import insert_into
from monitor.store.fingerprint import read_identity
from monitor.store.rows import TargetFacts
from monitor.store.tables import fingerprints, services, targets
from monitor.store.text import clean_text, public_url, to_json


def register(
    connection: Connection, configured: Sequence[TargetSettings], now: float
) -> dict[str, int]:
    """Writes the configured targets and retires the others; ids by name."""
    names = {item.name for item in configured}
    _retire_others(connection, names, now)
    if configured:
        service_ids = _add_services(connection, configured)
        _put_targets(connection, configured, service_ids, now)
    return load_ids(connection, names)


def add_missing(connection: Connection, wanted: Sequence[TargetSettings], now: float) -> None:
    """Writes those targets that are not stored yet and leaves all others alone."""
    stored = set(connection.scalars(select(targets.c.name)))
    new = [item for item in wanted if item.name not in stored]
    if new:
        _put_targets(connection, new, _add_services(connection, new), now)


def load_ids(connection: Connection, names: Collection[str]) -> dict[str, int]:
    """The keys of those targets that are stored, by name."""
    rows = connection.execute(select(targets.c.name, targets.c.id))
    return {name: key for name, key in rows if name in names}


def load_facts(connection: Connection, target_id: int) -> TargetFacts:
    """The service of a target, its interval, and the latest that its pages said of the server."""
    query = (
        select(targets.c.name, services.c.name, targets.c.role, targets.c.settings)
        .join_from(targets, services)
        .where(targets.c.id == target_id)
    )
    name, service, role, settings = connection.execute(query).one()
    parts = connection.execute(
        select(*(fingerprints.c[part] for part in Identity._fields))
        .where(fingerprints.c.target_id == target_id)
        .order_by(fingerprints.c.since.desc())
        .limit(1)
    ).first()
    identity = Identity() if parts is None else read_identity(*parts)
    return TargetFacts(name, service, role, json.loads(settings)["interval"], identity)


def load_judge(connection: Connection, target_id: int) -> tuple[JudgeSettings, float | None]:
    """How a target is judged, without its baseline, and what is configured as its gap."""
    query = select(targets.c.settings).where(targets.c.id == target_id)
    settings = json.loads(connection.execute(query).scalar_one())
    judge = JudgeSettings(
        threshold=settings["threshold"],
        dead_band=settings["dead_band"],
        windows=tuple(settings["windows"]),
        judged=tuple(settings["judged"]),
    )
    return judge, settings.get("gap")


def _add_services(connection: Connection, configured: Sequence[TargetSettings]) -> dict[str, int]:
    names = sorted({item.service for item in configured})
    statement = insert_into(connection.engine, services).on_conflict_do_nothing()
    connection.execute(statement, [{"name": name} for name in names])
    query = select(services.c.name, services.c.id)
    return {row.name: row.id for row in connection.execute(query)}


def _put_targets(
    connection: Connection,
    configured: Sequence[TargetSettings],
    service_ids: dict[str, int],
    now: float,
) -> None:
    statement = insert_into(connection.engine, targets)
    mutable = ("service_id", "url", "role", "settings", "retired_at")
    statement = statement.on_conflict_do_update(
        index_elements=["name"], set_={name: statement.excluded[name] for name in mutable}
    )
    rows = [
        {
            "name": item.name,
            "service_id": service_ids[item.service],
            "url": clean_text(public_url(item.url)),
            "role": item.role.value,
            "settings": _settings_document(item),
            "created_at": now,
            "retired_at": None,
        }
        for item in configured
    ]
    connection.execute(statement, rows)


def _retire_others(connection: Connection, names: set[str], now: float) -> None:
    live = connection.execute(
        select(targets.c.id, targets.c.name).where(targets.c.retired_at.is_(None))
    )
    for key, name in live:
        if name not in names:
            connection.execute(update(targets).where(targets.c.id == key).values(retired_at=now))


def _settings_document(item: TargetSettings) -> str:
    """What a reader of the figures may want to know; nothing that could be a credential."""
    judge = item.judge
    return to_json(
        {
            "labels": item.labels,
            "engine": item.engine,
            "draft_size": item.draft_size,
            "interval": item.interval,
            "gap": item.gap,
            "threshold": judge.threshold,
            "dead_band": judge.dead_band,
            "windows": judge.windows,
            "judged": judge.judged,
            "baseline": judge.baseline.name if judge.baseline else None,
        }
    )
