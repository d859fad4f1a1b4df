"""Which receivers a notification goes to, told by its labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from monitor.alerting.model import Notification

_MATCHER = re.compile(r"\s*([a-zA-Z_][a-zA-Z0-9_]{0,99})\s*(!?=)\s*(.*?)\s*", re.DOTALL)
_MAX_PATTERN = 200


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on one label; ``*`` in the pattern stands for any text.

    There are no regular expressions: values come from pages of others, and an expression can
    be made to run for hours.
    """

    label: str
    pattern: str
    negated: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the condition holds; a label that is missing is empty."""
        return _glob(self.pattern, labels.get(self.label, "")) is not self.negated

    def __str__(self) -> str:
        return f"{self.label}{'!=' if self.negated else '='}{self.pattern}"


def parse_matcher(text: str) -> Matcher:
    """A matcher from ``label=value``, ``label!=value`` or ``label=val*``."""
    match = _MATCHER.fullmatch(text)
    if match is None or not text.isprintable():
        raise ValueError("is not a condition: write label=value, label!=value or label=begin*")
    pattern = match[3]
    if len(pattern) >= 2 and pattern[0] == pattern[-1] == '"':  # noqa: PLR2004 - both quotes
        pattern = pattern[1:-1]
    if pattern.startswith("~"):
        raise ValueError("is a regular expression, which is not known here: write label=begin*")
    if len(pattern) > _MAX_PATTERN:
        raise ValueError(f"is longer than {_MAX_PATTERN} characters")
    return Matcher(match[1], pattern, negated=match[2] == "!=")


def matches_all(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """Whether all conditions hold; without any they do."""
    return all(matcher.matches(labels) for matcher in matchers)


@dataclass(frozen=True, slots=True)
class Route:
    """Where notifications go whose labels meet all of the conditions."""

    receivers: tuple[str, ...]
    matchers: tuple[Matcher, ...] = ()
    goes_on: bool = False
    """Whether the routes below are asked, too."""


@dataclass(frozen=True, slots=True)
class Routing:
    """All receivers by name and the routes that lead to them."""

    receivers: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()

    def choose(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The receivers for these labels, each once; without routes all of them."""
        if not self.routes:
            return self.receivers
        chosen: dict[str, None] = {}
        for route in self.routes:
            if matches_all(route.matchers, labels):
                chosen |= dict.fromkeys(route.receivers)
                if not route.goes_on:
                    break
        return tuple(chosen)


NOWHERE = Routing()


def labels_of(notification: Notification) -> dict[str, str]:
    """What conditions are put on; our own words win over labels of the configuration."""
    own = {
        "rule": notification.rule,
        "severity": notification.severity.value,
        "service": notification.service,
        "target": notification.target,
        "state": notification.state.value,
        "reason": notification.reason.value,
        "cause": notification.cause or "",
        "action": notification.action,
    }
    return {**notification.labels, **own}


def _glob(pattern: str, text: str) -> bool:
    """Whether ``text`` is ``pattern``, in time that grows with both lengths only."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if len(text) < len(first) + len(last) or not text.startswith(first):
        return False
    if not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
