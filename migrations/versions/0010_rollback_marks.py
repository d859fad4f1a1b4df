"""Marks of rollbacks in Grafana, so that what was begun there is ended, and nothing twice."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Creates the table."""
    op.create_table(
        "rollback_marks",
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.PrimaryKeyConstraint("plan"),
    )
