"""Rollbacks: where each service stands, every act, every decision, and orders of operators."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Creates the tables."""
    op.create_table(
        "rollbacks",
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("plan", sa.Text),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("service"),
    )
    op.create_table(
        "rollback_steps",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("do", sa.Text, nullable=False),
        sa.Column("share", sa.Double),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_rollback_steps_plan", "rollback_steps", ["plan"])
    op.create_table(
        "rollback_decisions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("plan", sa.Text),
        sa.Column("cure", sa.Text),
        sa.Column("share", sa.Double, nullable=False),
        sa.Column("who", sa.Text),
        sa.Column("pages", sa.Boolean, nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.Column("evidence", sa.Text, nullable=False),
        sa.UniqueConstraint("service", "at", "kind"),
    )
    op.create_index("ix_rollback_decisions_plan", "rollback_decisions", ["plan"])
    op.create_index("ix_rollback_decisions_at", "rollback_decisions", ["at"])
    op.create_table(
        "rollback_orders",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("plan", sa.Text),
        sa.Column("force", sa.Boolean, nullable=False),
        sa.Column("taken_at", sa.Double),
    )
    op.create_index("ix_rollback_orders_taken_at", "rollback_orders", ["taken_at"])
