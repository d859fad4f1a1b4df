"""Alerts: their states, incidents, notifications, the outbox, and silences."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Creates the tables."""
    op.create_table(
        "alert_states",
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("rule", "target"),
    )
    op.create_table(
        "incidents",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("severity", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("started_at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_incidents_at", "incidents", ["at"])
    op.create_table(
        "notifications",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("incident", sa.Text, nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.UniqueConstraint("incident", "sequence"),
    )
    op.create_table(
        "silences",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("matchers", sa.Text, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("starts_at", sa.Double, nullable=False),
        sa.Column("ends_at", sa.Double, nullable=False),
        sa.Column("weekly", sa.Text),
        sa.Column("holds_rollback", sa.Boolean, nullable=False),
        sa.Column("expired_at", sa.Double),
    )
    op.create_index("ix_silences_ends_at", "silences", ["ends_at"])
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column(
            "notification_id", sa.Integer, sa.ForeignKey("notifications.id"), nullable=False
        ),
        sa.Column("receiver", sa.Text, nullable=False),
        sa.Column("incident", sa.Text, nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("next_at", sa.Double, nullable=False),
        sa.Column("lease_owner", sa.Text),
        sa.Column("lease_until", sa.Double),
        sa.Column("settled_at", sa.Double),
        sa.Column("problem", sa.Text),
        sa.Column("silence_id", sa.Integer, sa.ForeignKey("silences.id")),
        sa.UniqueConstraint("notification_id", "receiver"),
    )
    op.create_index("ix_outbox_receiver_state_next_at", "outbox", ["receiver", "state", "next_at"])
    op.create_index(
        "ix_outbox_incident_receiver_sequence", "outbox", ["incident", "receiver", "sequence"]
    )
