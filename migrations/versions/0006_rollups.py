"""Roll-ups of samples, and what is known of each level."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

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
TARGET_FIGURES = ("seconds", "saturated_seconds", "resets")


def upgrade() -> None:
    """Marks samples, creates the tables, and helps PostgreSQL to find rows by their time."""
    op.add_column(
        "samples", sa.Column("rolled", sa.Boolean, nullable=False, server_default=sa.false())
    )
    op.create_index(
        "ix_samples_fresh",
        "samples",
        ["end", "series_id"],
        sqlite_where=sa.text("NOT rolled"),
        postgresql_where=sa.text("NOT rolled"),
    )
    op.create_table(
        "rollups",
        sa.Column("series_id", sa.Integer, sa.ForeignKey("series.id"), nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("warmup", sa.Boolean, nullable=False),
        sa.Column("start", sa.Double, nullable=False),
        sa.Column("end", sa.Double, nullable=False),
        *(sa.Column(name, sa.Double, nullable=False) for name in FIGURES),
        sa.Column("positions", sa.Text, nullable=False),
        *(sa.Column(f"target_{name}", sa.Double, nullable=False) for name in TARGET_FIGURES),
        sa.PrimaryKeyConstraint("series_id", "step", "at", "warmup"),
        sqlite_with_rowid=False,
    )
    levels = op.create_table(
        "levels",
        sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("dropped_until", sa.Double, nullable=False),
        sa.Column("pruned_at", sa.Double),
    )
    empty = [{"step": step, "row_count": 0, "dropped_until": 0.0} for step in (0, 60, 600)]
    op.bulk_insert(levels, empty)
    if op.get_bind().dialect.name == "postgresql":
        # Rows come in the order of time, so that a few kilobytes tell where a span of it lies.
        op.create_index("ix_samples_end", "samples", ["end"], postgresql_using="brin")
        op.create_index("ix_rollups_at", "rollups", ["at"], postgresql_using="brin")
