"""Moves traffic back to the baseline service, and forth again."""
