"""Backfills: time of a target that was filled in afterwards."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Creates the table."""
    op.create_table(
        "backfills",
        sa.Column("target_id", sa.Integer, sa.ForeignKey("targets.id"), nullable=False),
        sa.Column("start", sa.Double, nullable=False),
        sa.Column("end", sa.Double, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("memory", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("target_id", "start"),
    )
