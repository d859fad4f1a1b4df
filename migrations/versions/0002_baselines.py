"""Stored baselines, and which one was a service's own when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Creates the two tables."""
    op.create_table(
        "baselines",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("service_id", sa.Integer, sa.ForeignKey("services.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("points", sa.Text, nullable=False),
        sa.Column("engine", sa.Text),
        sa.Column("engine_version", sa.Text),
        sa.Column("model", sa.Text),
        sa.Column("tensor_parallel", sa.Integer),
        sa.Column("provenance", sa.Text, nullable=False),
        sa.Column("valid", sa.Boolean, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("deleted_at", sa.Double),
        sa.Column("deleted_by", sa.Text),
        sa.UniqueConstraint("service_id", "name", "version"),
    )
    op.create_table(
        "baseline_activations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("service_id", sa.Integer, sa.ForeignKey("services.id"), nullable=False),
        sa.Column("baseline_id", sa.Integer, sa.ForeignKey("baselines.id")),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
    )
    op.create_index(
        op.f("ix_baseline_activations_service_id_id"), "baseline_activations", ["service_id", "id"]
    )
