"""The tables, the same for SQLite and PostgreSQL.

Times are seconds since the Unix epoch (UTC). Documents are JSON kept as text: they are
written and read as a whole, and text behaves alike in both databases.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from monitor.model import Counts

SCALARS = tuple(name for name in Counts._fields if name != "positions")
"""The additive figures that have a column of their own, in the order of ``Counts``."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _time(name: str, *, nullable: bool = False) -> Column[float]:
    return Column(name, Double, nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, Text, nullable=nullable)


def _target(*, nullable: bool = False) -> Column[int]:
    return Column("target_id", Integer, ForeignKey("targets.id"), nullable=nullable)


services = Table(
    "services",
    metadata,
    Column("id", Integer, primary_key=True),
    _text("name"),
    UniqueConstraint("name"),
)

targets = Table(
    "targets",
    metadata,
    Column("id", Integer, primary_key=True),
    _text("name"),
    Column("service_id", Integer, ForeignKey("services.id"), nullable=False),
    _text("url"),
    _text("role"),
    _text("settings"),
    _time("created_at"),
    _time("retired_at", nullable=True),
    UniqueConstraint("name"),
)

series = Table(
    "series",
    metadata,
    Column("id", Integer, primary_key=True),
    _target(),
    _text("label"),
    UniqueConstraint("target_id", "label"),
)

fingerprints = Table(
    "fingerprints",
    metadata,
    _target(),
    _time("since"),
    _text("engine", nullable=True),
    _text("engine_version", nullable=True),
    _text("model", nullable=True),
    _text("method", nullable=True),
    Column("draft_size", Integer, nullable=True),
    Column("tensor_parallel", Integer, nullable=True),
    PrimaryKeyConstraint("target_id", "since"),
)

# Without a rowid SQLite keeps the rows themselves in the order of the key, so that a span of
# one series is one run of pages and a write touches no second tree.
samples = Table(
    "samples",
    metadata,
    Column("series_id", Integer, ForeignKey("series.id"), nullable=False),
    _time("start"),
    _time("end"),
    Column("warmup", Boolean, nullable=False),
    *(Column(name, Double, nullable=False) for name in SCALARS),
    _text("positions"),
    # Whether the figures are in the roll-ups as well. Rows that are not are found in order of
    # time by an index of those alone, which is nearly empty.
    Column("rolled", Boolean, nullable=False, server_default=false()),
    PrimaryKeyConstraint("series_id", "end"),
    sqlite_with_rowid=False,
)
Index(
    "ix_samples_fresh",
    samples.c.end,
    samples.c.series_id,
    sqlite_where=~samples.c.rolled,
    postgresql_where=~samples.c.rolled,
)

# Rows come in the order of time, so that a few kilobytes tell where a span of it lies.
Index("ix_samples_end", samples.c.end, postgresql_using="brin").ddl_if("postgresql")

VIEWED = (
    "seconds",
    "output_tokens",
    "requests",
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "unsized_drafts",
    "uncounted_draft_tokens",
    "decode_seconds",
    "decode_tokens",
    "decode_steps",
    "running_seconds",
    "waiting_seconds",
    "baseline_seconds",
    "compared_seconds",
)
"""Figures that dashboards see."""

TARGET_FIGURES = ("seconds", "saturated_seconds", "resets")
"""Figures of which a target has the largest among its engines and not the sum."""

# One row sums the samples of one series that end in the ``step`` seconds up to ``at``, which is
# a multiple of ``step``. Each sample that is ``rolled`` is in one row of each step, until that
# is dropped. ``target_*`` is the share of this row in what its target has of the figure: those
# of all engines add up to it.
rollups = Table(
    "rollups",
    metadata,
    Column("series_id", Integer, ForeignKey("series.id"), nullable=False),
    Column("step", Integer, nullable=False),
    _time("at"),
    Column("warmup", Boolean, nullable=False),
    _time("start"),
    _time("end"),
    *(Column(name, Double, nullable=False) for name in SCALARS),
    _text("positions"),
    *(Column(f"target_{name}", Double, nullable=False) for name in TARGET_FIGURES),
    PrimaryKeyConstraint("series_id", "step", "at", "warmup"),
    sqlite_with_rowid=False,
)
Index("ix_rollups_at", rollups.c.at, postgresql_using="brin").ddl_if("postgresql")
# What the views of the history show of ten minutes can be read from this index alone.
Index(
    "ix_rollups_at_tens",
    rollups.c.at,
    rollups.c.series_id,
    postgresql_where=text("step = 600"),
    postgresql_include=("step", *VIEWED, "target_resets"),
).ddl_if("postgresql")

# What is known of samples (step 0) and of the roll-ups of each step as a whole. Readers take
# nothing that ends up to ``dropped_until`` from there, whether it is deleted yet or not.
levels = Table(
    "levels",
    metadata,
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("row_count", BigInteger, nullable=False),
    _time("dropped_until"),
    _time("pruned_at", nullable=True),
)

target_states = Table(
    "target_states",
    metadata,
    Column("target_id", Integer, ForeignKey("targets.id"), primary_key=True, autoincrement=False),
    _time("at"),
    _text("problem", nullable=True),
    _text("state"),
    _time("assessed_at", nullable=True),
    _text("assessment", nullable=True),
)

verdicts = Table(
    "verdicts",
    metadata,
    _target(),
    _time("at"),
    _text("verdict"),
    _text("cause", nullable=True),
    _text("action"),
    _text("sentence"),
    _text("document"),
    PrimaryKeyConstraint("target_id", "at"),
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    _time("at"),
    _text("kind"),
    _target(nullable=True),
    _text("text"),
    _text("detail"),
    Index(None, "at"),
)

baselines = Table(
    "baselines",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("service_id", Integer, ForeignKey("services.id"), nullable=False),
    _text("name"),
    Column("version", Integer, nullable=False),
    _time("created_at"),
    _text("points"),
    _text("engine", nullable=True),
    _text("engine_version", nullable=True),
    _text("model", nullable=True),
    Column("tensor_parallel", Integer, nullable=True),
    _text("provenance"),
    Column("valid", Boolean, nullable=False),
    _text("reason", nullable=True),
    _time("deleted_at", nullable=True),
    _text("deleted_by", nullable=True),
    UniqueConstraint("service_id", "name", "version"),
)

# The newest row of a service says which baseline is its own; nothing is ever changed in it.
baseline_activations = Table(
    "baseline_activations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("service_id", Integer, ForeignKey("services.id"), nullable=False),
    Column("baseline_id", Integer, ForeignKey("baselines.id"), nullable=True),
    _time("at"),
    _text("who"),
    Index(None, "service_id", "id"),
)

# The daemon holds what was learnt in memory and writes it with each round, so that a change to
# the stored text would not last: it is ordered, and marked in the round that shows it done.
reference_orders = Table(
    "reference_orders",
    metadata,
    Column("id", Integer, primary_key=True),
    _target(),
    _time("at"),
    _text("who"),
    _text("kind"),
    Column("rate", Double, nullable=True),
    _time("applied_at", nullable=True),
)

# Time of a target that was filled in afterwards, which is how live rows and others are told
# apart. What was remembered at its end is kept, so that filling in can go on from there.
backfills = Table(
    "backfills",
    metadata,
    _target(),
    _time("start"),
    _time("end"),
    _text("source"),
    _text("memory"),
    PrimaryKeyConstraint("target_id", "start"),
)

# Names instead of keys: an alert outlives its target, and some are about no single one.
alert_states = Table(
    "alert_states",
    metadata,
    _text("rule"),
    _text("target"),
    _time("at"),
    _text("state"),
    PrimaryKeyConstraint("rule", "target"),
)

# The newest notification of an incident says where it stands; kept beside it for listing.
incidents = Table(
    "incidents",
    metadata,
    _text("id"),
    _text("rule"),
    _text("service"),
    _text("target"),
    _text("severity"),
    _text("state"),
    _time("started_at"),
    _time("ended_at", nullable=True),
    _time("at"),
    Column("sequence", Integer, nullable=False),
    _text("title"),
    _text("sentence"),
    PrimaryKeyConstraint("id"),
    Index(None, "at"),
)

notifications = Table(
    "notifications",
    metadata,
    Column("id", Integer, primary_key=True),
    _text("incident"),
    Column("sequence", Integer, nullable=False),
    _time("at"),
    _text("reason"),
    _text("document"),
    UniqueConstraint("incident", "sequence"),
)

silences = Table(
    "silences",
    metadata,
    Column("id", Integer, primary_key=True),
    _text("matchers"),
    _text("who"),
    _text("why"),
    _time("created_at"),
    _time("starts_at"),
    _time("ends_at"),
    _text("weekly", nullable=True),
    Column("holds_rollback", Boolean, nullable=False),
    _time("expired_at", nullable=True),
    Index(None, "ends_at"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("notification_id", Integer, ForeignKey("notifications.id"), nullable=False),
    _text("receiver"),
    _text("incident"),
    Column("sequence", Integer, nullable=False),
    _text("state"),
    Column("attempts", Integer, nullable=False),
    _time("created_at"),
    _time("next_at"),
    _text("lease_owner", nullable=True),
    _time("lease_until", nullable=True),
    _time("settled_at", nullable=True),
    _text("problem", nullable=True),
    Column("silence_id", Integer, ForeignKey("silences.id"), nullable=True),
    UniqueConstraint("notification_id", "receiver"),
    Index(None, "receiver", "state", "next_at"),
    Index(None, "incident", "receiver", "sequence"),
)

# One row for each thing that only one process may do at a time; the fence never goes back.
leases = Table(
    "leases",
    metadata,
    _text("name"),
    _text("holder"),
    Column("fence", Integer, nullable=False),
    Column("seconds", Double, nullable=False),
    _time("until"),
    _time("taken_at", nullable=True),
    PrimaryKeyConstraint("name"),
)

rollbacks = Table(
    "rollbacks",
    metadata,
    _text("service"),
    _time("at"),
    _text("mode"),
    _text("phase"),
    _text("plan", nullable=True),
    _text("state"),
    Column("version", Integer, nullable=False),
    Column("fence", Integer, nullable=False),
    PrimaryKeyConstraint("service"),
)

rollback_steps = Table(
    "rollback_steps",
    metadata,
    _text("id"),
    _text("service"),
    _text("plan"),
    _text("do"),
    Column("share", Double, nullable=True),
    _time("at"),
    _text("status"),
    Column("attempts", Integer, nullable=False),
    _text("detail"),
    Column("fence", Integer, nullable=False),
    PrimaryKeyConstraint("id"),
    Index(None, "plan"),
)

# Only ever added to: the audit must be readable a year later.
rollback_decisions = Table(
    "rollback_decisions",
    metadata,
    Column("id", Integer, primary_key=True),
    _text("service"),
    _time("at"),
    _text("kind"),
    _text("mode"),
    _text("phase"),
    _text("plan", nullable=True),
    _text("cure", nullable=True),
    Column("share", Double, nullable=False),
    _text("who", nullable=True),
    Column("pages", Boolean, nullable=False),
    _text("sentence"),
    _text("evidence"),
    UniqueConstraint("service", "at", "kind"),
    Index(None, "plan"),
    Index(None, "at"),
)

rollback_orders = Table(
    "rollback_orders",
    metadata,
    Column("id", Integer, primary_key=True),
    _text("service"),
    _time("at"),
    _text("who"),
    _text("kind"),
    _text("plan", nullable=True),
    Column("force", Boolean, nullable=False),
    _time("taken_at", nullable=True),
    Index(None, "taken_at"),
)

# Which annotation of Grafana stands for which plan.
rollback_marks = Table(
    "rollback_marks",
    metadata,
    _text("plan"),
    Column("number", Integer, nullable=False),
    _time("ended_at", nullable=True),
    PrimaryKeyConstraint("plan"),
)
