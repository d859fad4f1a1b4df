"""Alerts: rules over verdicts, incidents with a life of their own, and their delivery."""
