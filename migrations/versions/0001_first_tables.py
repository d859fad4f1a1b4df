"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# Written out instead of taken from the program: a migration must do the same for ever.
FIGURES = (
    "seconds",
    "output_tokens",
    "requests",
    "prompt_tokens",
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "unsized_drafts",
    "uncounted_draft_tokens",
    "gauge_drafts",
    "position_drafts",
    "decode_seconds",
    "decode_tokens",
    "decode_steps",
    "engine_steps",
    "batched_steps",
    "prefix_queries",
    "prefix_hits",
    "first_token_seconds",
    "first_tokens",
    "running_seconds",
    "waiting_seconds",
    "saturated_seconds",
    "baseline_seconds",
    "compared_seconds",
    "uncompared_seconds",
    "resets",
)


def _target(*, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(
        "target_id",
        sa.Integer,
        sa.ForeignKey("targets.id"),
        nullable=nullable,
    )


def _time(name: str, *, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def upgrade() -> None:
    """Creates everything."""
    _create_targets()
    _create_samples()
    _create_verdicts()


def _create_targets() -> None:
    op.create_table(
        "services",
        sa.Column("id", sa.Integer, primary_key=True),
        _text("name"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "targets",
        sa.Column("id", sa.Integer, primary_key=True),
        _text("name"),
        sa.Column("service_id", sa.Integer, sa.ForeignKey("services.id"), nullable=False),
        _text("url"),
        _text("role"),
        _text("settings"),
        _time("created_at"),
        _time("retired_at", nullable=True),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "fingerprints",
        _target(),
        _time("since"),
        _text("engine", nullable=True),
        _text("engine_version", nullable=True),
        _text("model", nullable=True),
        _text("method", nullable=True),
        sa.Column("draft_size", sa.Integer, nullable=True),
        sa.Column("tensor_parallel", sa.Integer, nullable=True),
        sa.PrimaryKeyConstraint("target_id", "since"),
    )


def _create_samples() -> None:
    op.create_table(
        "series",
        sa.Column("id", sa.Integer, primary_key=True),
        _target(),
        _text("label"),
        sa.UniqueConstraint("target_id", "label"),
    )
    op.create_table(
        "samples",
        sa.Column("series_id", sa.Integer, sa.ForeignKey("series.id"), nullable=False),
        _time("start"),
        _time("end"),
        sa.Column("warmup", sa.Boolean, nullable=False),
        *(sa.Column(name, sa.Double, nullable=False) for name in FIGURES),
        _text("positions"),
        sa.PrimaryKeyConstraint("series_id", "end"),
        sqlite_with_rowid=False,
    )


def _create_verdicts() -> None:
    op.create_table(
        "target_states",
        sa.Column(
            "target_id",
            sa.Integer,
            sa.ForeignKey("targets.id"),
            primary_key=True,
            autoincrement=False,
        ),
        _time("at"),
        _text("problem", nullable=True),
        _text("state"),
        _time("assessed_at", nullable=True),
        _text("assessment", nullable=True),
    )
    op.create_table(
        "verdicts",
        _target(),
        _time("at"),
        _text("verdict"),
        _text("cause", nullable=True),
        _text("action"),
        _text("sentence"),
        _text("document"),
        sa.PrimaryKeyConstraint("target_id", "at"),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, primary_key=True),
        _time("at"),
        _text("kind"),
        _target(nullable=True),
        _text("text"),
        _text("detail"),
    )
    op.create_index(op.f("ix_events_at"), "events", ["at"])
