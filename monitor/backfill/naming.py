"""Whose past it is: which target a series belongs to, and how that target is judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from monitor.model import ConfigError
from monitor.settings import TargetSettings
from monitor.sources.address import parse_url

UNKNOWN = "unknown"


@dataclass(slots=True)
class Naming:
    """The targets of a run.

    Args:
        configured: the targets of the configuration.
        label: the label whose value is a target's address or name.
        service: the service of targets that are not configured; None leaves those out as soon
            as any target is configured, and else takes the job of their series.
        target: the name to give to everything that is found.
    """

    configured: tuple[TargetSettings, ...]
    label: str = "instance"
    service: str | None = None
    target: str | None = None
    _services: dict[str, str] = field(default_factory=dict)
    _by_value: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self._by_value = {item.name: item.name for item in self.configured}
        for item in self.configured:
            self._by_value.setdefault(_authority(item), item.name)

    def name_of(self, labels: Mapping[str, str]) -> str | None:
        """The target that series with these added labels are of; None for one to leave out."""
        if self.target is not None:
            return self.target
        value = labels.get(self.label, "")
        known = self._by_value.get(value)
        if known is not None or (self.configured and self.service is None):
            return known
        name = value or labels.get("job", "") or UNKNOWN
        self._services.setdefault(name, self.service or labels.get("job", "") or name)
        return name

    def settings(self, names: Iterable[str]) -> dict[str, TargetSettings]:
        """How each of these targets is judged."""
        known = {item.name: item for item in self.configured}
        return {name: known.get(name) or self._made_up(name) for name in names}

    def _made_up(self, name: str) -> TargetSettings:
        if not name.strip() or not name.isprintable():
            raise ConfigError("the name of a target must be printable text")
        return TargetSettings(name, self._services.get(name) or self.service or name, url="")


def _authority(item: TargetSettings) -> str:
    return parse_url(item.url).authority
