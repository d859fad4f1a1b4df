"""A replayed incident that needs nothing but Python."""
