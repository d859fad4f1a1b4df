"""Whether something speaks against taking a baseline of a service, now or back then."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import inf
from typing import Protocol

from monitor.alerting.ruleset import load_rules
from monitor.health import words
from monitor.store.alerts import Incident, IncidentFilter

_MOST = 1_000
_SHOWN = 3


class IncidentStore(Protocol):
    """Where incidents are found; raises ``StoreError``."""

    def incidents(
        self, which: IncidentFilter, limit: int, service: str | None
    ) -> Sequence[Incident]:
        """The newest incidents of a service, newest first."""
        ...


def open_alerts(store: IncidentStore, service: str) -> str | None:
    """The open alerts about a service in words, or None.

    What a sick service does is no measure of a healthy one: a baseline taken of it would hide
    the fault for ever. Alerts that only ask for a baseline do not count.
    """
    standing = _standing(store, IncidentFilter.OPEN, service)
    if not standing:
        return None
    more = f" and {len(standing) - _SHOWN} more" if len(standing) > _SHOWN else ""
    each = ", ".join(map(_in_words, standing[:_SHOWN]))
    noun = "an alert is" if len(standing) == 1 else "alerts are"
    return f"{noun} open on service {service!r}: {each}{more}"


def alerted_spans(store: IncidentStore, service: str) -> list[tuple[float, float]]:
    """The times at which such an alert was open, each with its start and its end."""
    found = _standing(store, IncidentFilter.ALL, service)
    return [(i.started_at, inf if i.ended_at is None else i.ended_at) for i in found]


def _standing(store: IncidentStore, which: IncidentFilter, service: str) -> list[Incident]:
    found = store.incidents(which, _MOST, service)
    return [incident for incident in found if incident.rule not in _asking()]


@cache
def _asking() -> frozenset[str]:
    """The shipped rules whose alerts only say that there is nothing to compare with."""
    return frozenset(rule.id for rule in load_rules(()).rules if rule.asks_for_baseline)


def _in_words(incident: Incident) -> str:
    return f"{incident.rule} of {incident.target} since {words.clock(incident.started_at)}"
