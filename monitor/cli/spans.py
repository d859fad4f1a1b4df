"""Reads the spans that ``monitor compare`` and ``monitor pays`` are about."""

from __future__ import annotations

from functools import partial

from monitor.baselines.spans import Interval, Span, summarise, totals
from monitor.cli.named_baseline import stored_baseline
from monitor.cli.options import checked
from monitor.cli.times import parse_point
from monitor.health.baseline import Baseline
from monitor.model import ConfigError
from monitor.store.repository import Repository
from monitor.store.rows import TargetFacts


def parse_span(option: str, text: str, now: float) -> tuple[float, float]:
    """Start and end of ``START..END``; each as ``monitor history`` takes it."""
    start, dots, end = text.partition("..")
    if not dots:
        raise ConfigError(f"{option} must be START..END, such as -2d..-1d")
    return checked_span(option, start or "0", end or "now", now)


def checked_span(option: str, start: str, end: str, now: float) -> tuple[float, float]:
    """The same from two texts."""
    read = partial(parse_point, now=now)
    span = checked(option, read, start), checked(option, read, end)
    if span[0] >= span[1]:
        raise ConfigError(f"{option}: the start must lie before the end")
    return span


def read_intervals(
    repository: Repository, target: str, span: tuple[float, float]
) -> tuple[TargetFacts, list[Interval]]:
    """What is stored about a target between two times."""
    facts = repository.facts(target)
    return facts, totals(repository.samples(target, *span))


def baseline_for(repository: Repository, service: str, named: str | None) -> Baseline | None:
    """The baseline that was named, else the active one of the service."""
    if named is not None:
        return stored_baseline(named, repository, service)
    return repository.baselines.active(service)


def read_span(
    repository: Repository,
    target: str,
    span: tuple[float, float],
    *,
    name: str,
    baseline: str | None,
) -> Span | None:
    """The figures of a stored target between two times; None where there are none."""
    facts, intervals = read_intervals(repository, target, span)
    curve = baseline_for(repository, facts.service, baseline)
    return summarise(name, facts.identity, intervals, curve)
