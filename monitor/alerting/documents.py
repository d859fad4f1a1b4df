"""Notifications as plain values for the store, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from monitor.alerting.model import Notification, Reason, Severity, State
from monitor.logs import REDACTOR


def to_stored(notification: Notification) -> dict[str, Any]:
    """Plain values without secrets."""
    values = {field.name: getattr(notification, field.name) for field in fields(Notification)}
    return {name: redacted(value) for name, value in values.items()}


def from_stored(document: Mapping[str, Any]) -> Notification:
    """The notification that ``to_stored`` was given."""
    known = {field.name for field in fields(Notification)}
    values = {name: value for name, value in document.items() if name in known}
    words = {
        "reason": Reason(document["reason"]),
        "state": State(document["state"]),
        "severity": Severity(document["severity"]),
    }
    return Notification(**{**values, **words})


def redacted(value: Any) -> Any:
    """Plain values with every known secret blotted out.

    Texts of alerts come from pages and errors of others, and go to people and disks.
    """
    if isinstance(value, str):
        return REDACTOR.text(str(value))
    if isinstance(value, Mapping):
        return {REDACTOR.text(str(name)): redacted(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item) for item in value]
    return value
