"""What is different between what Grafana has and what it should have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from monitor.alerting.wording import plain

_SHOWN = 60


def differences(found: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """One line for each value that is not as wanted.

    Keys that only Grafana has are its own: it adds ids, versions and defaults.
    """
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        for key, value in wanted.items():
            place = f"{path}.{key}" if path else str(key)
            yield from differences(found.get(key), value, place)
    elif isinstance(wanted, list) and isinstance(found, list):
        if len(found) != len(wanted):
            yield f"{path}: {len(found)} → {len(wanted)} entries"
        for number, (old, new) in enumerate(zip(found, wanted, strict=False)):
            yield from differences(old, new, f"{path}[{number}]")
    elif found != wanted or isinstance(found, bool) != isinstance(wanted, bool):
        yield f"{path}: {_shown(found)} → {_shown(wanted)}"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping | list):
        return f"{len(value)} entries"
    return repr(plain(value, _SHOWN)) if isinstance(value, str) else str(value)[:_SHOWN]
