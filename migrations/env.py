"""Runs the migrations on the connection that ``monitor.store.schema`` hands over."""

from __future__ import annotations

from alembic import context

from monitor.store.tables import metadata

# The caller has begun the transaction and holds the lock, so nothing is begun or committed
# here, and no logging is set up: that is the program's.
context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
