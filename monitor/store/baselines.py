"""Stored baselines: several for a service, one of them active, nothing ever overwritten.

A second baseline of the same name becomes ``name#2``. To delete one marks it; the row, and
the history of which one was active when, stay for whoever asks why a verdict was given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Engine, Row, ScalarSelect, Select, func, insert, select, update

from monitor.health.baseline import Baseline, BaselinePoint
from monitor.model import Engine as ModelServer
from monitor.model import Identity, StoreError
from monitor.store.baseline_rows import (
    NewBaseline,
    Origin,
    Provenance,
    SourceFile,
    StoredBaseline,
)
from monitor.store.connect import insert_into, reading, writing
from monitor.store.fingerprint import clean_identity
from monitor.store.tables import baseline_activations, baselines, services
from monitor.store.text import LABEL_LENGTH, clean_text, to_json

_REFERENCE = re.compile(r"(?P<name>[^#]+)#(?P<version>[1-9]\d{0,8})", re.ASCII)
_ID = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_SHOWN = 5


def check_baseline_name(name: str) -> str:
    """The name, or ``ValueError``: it must not look like a version or a number."""
    if name != name.strip() or not name or not name.isprintable() or len(name) > LABEL_LENGTH:
        raise ValueError(f"must be 1 to {LABEL_LENGTH} printable characters without spaces around")
    if "#" in name or name.isdigit():
        raise ValueError("must not hold '#' or be a number: those name versions and ids")
    return name


class Baselines:
    """The baselines in one database, each call in a transaction of its own.

    All methods may be called from any thread and raise ``StoreError``.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def save(
        self, service: str, new: NewBaseline, now: float, *, activate: bool = False
    ) -> StoredBaseline:
        """Stores a curve under its name and the next free version of that name."""
        if not new.points:
            raise StoreError(f"baseline {new.name} has no points")
        with writing(self._engine) as connection:
            service_id = _lock_service(connection, service)
            key = _insert(connection, service_id, new, now)
            if activate:
                _activate(connection, service_id, key, now, new.provenance.who)
            return _one(connection, _query().where(baselines.c.id == key))

    def listing(
        self, service: str | None = None, *, with_deleted: bool = False
    ) -> list[StoredBaseline]:
        """All baselines of a service or of all services, the oldest of each service first."""
        query = _query().order_by(services.c.name, baselines.c.id)
        if service is not None:
            query = query.where(services.c.name == service)
        if not with_deleted:
            query = query.where(baselines.c.deleted_at.is_(None))
        with reading(self._engine) as connection:
            return [_stored(row) for row in connection.execute(query)]

    def find(self, service: str | None, name: str) -> StoredBaseline:
        """The baseline called ``NAME``, ``NAME#VERSION``, or with that id.

        A name alone means its newest version that is not deleted. Without a service the name
        must be that of one service only.
        """
        with reading(self._engine) as connection:
            return _find(connection, service, name)

    def active(self, service: str) -> Baseline | None:
        """The curve that a service is compared with now."""
        found = self.active_of_all().get(service)
        return found.baseline if found is not None else None

    def active_of_all(self) -> dict[str, StoredBaseline]:
        """The active baseline of each service that has one; one query for all."""
        query = _query().where(baselines.c.id == _active_id())
        with reading(self._engine) as connection:
            found = [_stored(row) for row in connection.execute(query)]
        return {item.service: item for item in found}

    def activate(self, service: str | None, name: str, now: float, who: str) -> StoredBaseline:
        """Makes a baseline that of its service from now on."""
        with writing(self._engine) as connection:
            found = _find(connection, service, name)
            service_id = _lock_service(connection, found.service)
            _activate(connection, service_id, found.id, now, who)
            return _one(connection, _query().where(baselines.c.id == found.id))

    def deactivate(self, service: str, now: float, who: str) -> None:
        """Leaves a service without a baseline from now on."""
        with writing(self._engine) as connection:
            _activate(connection, _lock_service(connection, service), None, now, who)

    def delete(self, service: str | None, name: str, now: float, who: str) -> StoredBaseline:
        """Marks a baseline as deleted; if it is the active one, its service then has none."""
        with writing(self._engine) as connection:
            found = _find(connection, service, name)
            service_id = _lock_service(connection, found.service)
            if found.active:
                _activate(connection, service_id, None, now, who)
            marks = {"deleted_at": now, "deleted_by": clean_text(who)}
            connection.execute(update(baselines).where(baselines.c.id == found.id).values(marks))
            return _one(connection, _query().where(baselines.c.id == found.id))


def _lock_service(connection: Connection, service: str) -> int:
    """The key of a service, locked so that no other process counts its versions meanwhile."""
    name = clean_text(service, LABEL_LENGTH)
    statement = insert_into(connection.engine, services).on_conflict_do_nothing()
    connection.execute(statement, {"name": name})
    query = select(services.c.id).where(services.c.name == name).with_for_update()
    return int(connection.execute(query).scalar_one())


def _insert(connection: Connection, service_id: int, new: NewBaseline, now: float) -> int:
    own = (baselines.c.service_id == service_id, baselines.c.name == new.name)
    last = connection.execute(select(func.max(baselines.c.version)).where(*own)).scalar()
    identity = clean_identity(new.identity)
    values = {
        "service_id": service_id,
        "name": new.name,
        "version": (last or 0) + 1,
        "created_at": now,
        "points": to_json([asdict(point) for point in new.points]),
        "engine": identity.engine,
        "engine_version": identity.engine_version,
        "model": identity.model,
        "tensor_parallel": identity.tensor_parallel,
        "provenance": to_json(asdict(new.provenance)),
        "valid": new.reason is None,
        "reason": None if new.reason is None else clean_text(new.reason),
    }
    statement = insert(baselines).values(values).returning(baselines.c.id)
    return int(connection.execute(statement).scalar_one())


def _activate(
    connection: Connection, service_id: int, baseline_id: int | None, now: float, who: str
) -> None:
    values = {"service_id": service_id, "baseline_id": baseline_id, "at": now}
    connection.execute(insert(baseline_activations).values(**values, who=clean_text(who)))


def _active_id() -> ScalarSelect[int]:
    """The baseline that the newest activation of the service names."""
    table = baseline_activations
    newest = (
        select(func.max(table.c.id))
        .where(table.c.service_id == baselines.c.service_id)
        .correlate(baselines)
        .scalar_subquery()
    )
    return (
        select(table.c.baseline_id)
        .where(table.c.id == newest)
        .correlate(baselines)
        .scalar_subquery()
    )


def _query() -> Select[*tuple[Any, ...]]:
    b = baselines.c
    own = (b.id, services.c.name, b.name, b.version, b.created_at, b.points)
    identity = (b.engine, b.engine_version, b.model, b.tensor_parallel)
    rest = (b.provenance, b.reason, b.deleted_at, _active_id().label("active"))
    return select(*own, *identity, *rest).join_from(baselines, services)


def _one(connection: Connection, query: Select[*tuple[Any, ...]]) -> StoredBaseline:
    return _stored(connection.execute(query).one())


def _find(connection: Connection, service: str | None, name: str) -> StoredBaseline:
    live = _query().where(baselines.c.deleted_at.is_(None)).order_by(baselines.c.version.desc())
    if service is not None:
        live = live.where(services.c.name == service)
    if _ID.fullmatch(name):
        query = live.where(baselines.c.id == int(name))
    elif match := _REFERENCE.fullmatch(name):
        query = live.where(baselines.c.name == match["name"])
        query = query.where(baselines.c.version == int(match["version"]))
    else:
        query = live.where(baselines.c.name == name)
    found = [_stored(row) for row in connection.execute(query)]
    if not found:
        known = [_stored(row) for row in connection.execute(live.order_by(None))]
        raise StoreError(_unknown(service, name, known))
    owners = sorted({item.service for item in found})
    if len(owners) > 1:
        raise StoreError(f"several services have a baseline {name!r}: {_some(owners)}; name one")
    return found[0]


def _unknown(service: str | None, name: str, known: Sequence[StoredBaseline]) -> str:
    where = f"service {service!r}" if service is not None else "the database"
    labels = sorted({item.label for item in known})
    hint = f"; there are {_some(labels)}" if labels else "; none is stored yet"
    return f"{where} has no baseline {name!r}{hint}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _stored(row: Row[*tuple[Any, ...]]) -> StoredBaseline:
    key, service, name, version, created_at, points, *rest = row
    engine, engine_version, model, parallel, provenance, reason, deleted_at, active = rest
    return StoredBaseline(
        id=key,
        service=service,
        name=name,
        version=version,
        created_at=created_at,
        points=tuple(BaselinePoint(**point) for point in json.loads(points)),
        identity=Identity(
            engine=ModelServer(engine) if engine else None,
            engine_version=engine_version,
            model=model,
            tensor_parallel=parallel,
        ),
        provenance=_provenance(json.loads(provenance)),
        reason=reason,
        deleted_at=deleted_at,
        active=deleted_at is None and active == key,
    )


def _provenance(document: dict[str, Any]) -> Provenance:
    return Provenance(
        how=Origin(document["how"]),
        tool=document["tool"],
        files=tuple(SourceFile(**file) for file in document["files"]),
        parameters=document["parameters"],
        who=document["who"],
        start=document["start"],
        end=document["end"],
        notes=tuple(document["notes"]),
    )
