"""Leases: which of several daemons writes, sends and acts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Creates the table."""
    op.create_table(
        "leases",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("taken_at", sa.Double),
        sa.PrimaryKeyConstraint("name"),
    )
