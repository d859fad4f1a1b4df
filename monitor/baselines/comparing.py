"""Two spans side by side: is acceptance the same, is it different, or can nobody tell?"""

from __future__ import annotations

from dataclasses import dataclass

from monitor.baselines.spans import Span
from monitor.health.compare import (
    LEAST_REQUESTS,
    MARGIN,
    Difference,
    Side,
    difference,
    suspects_integration,
)
from monitor.model import Identity


@dataclass(frozen=True, slots=True)
class PositionPair:
    """Acceptance at one draft position on both sides; None where a side has no such position."""

    position: int
    first: float | None
    second: float | None

    @property
    def difference(self) -> float | None:
        """The second less the first."""
        if self.first is None or self.second is None:
            return None
        return self.second - self.first


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer about two spans."""

    first: Span
    second: Span
    acceptance: Difference | None
    """None where a side has no acceptance rate."""
    integration: bool
    """Whether both are equally bad, so that the engine rather than a drafter is to blame."""
    positions: tuple[PositionPair, ...]
    sentence: str
    notes: tuple[str, ...]


def compare_spans(first: Span, second: Span) -> Comparison:
    """Compares two spans of figures."""
    sides = _side(first), _side(second)
    found, integration = None, False
    if sides[0] is not None and sides[1] is not None:
        found = difference(sides[0], sides[1])
        integration = suspects_integration(sides[0], sides[1], found)
    return Comparison(
        first=first,
        second=second,
        acceptance=found,
        integration=integration,
        positions=_pairs(first, second),
        sentence=_sentence(first, second, found, integration=integration),
        notes=(*first.notes, *second.notes, *_notes(first, second, found)),
    )


def _side(span: Span) -> Side | None:
    counts, acceptance = span.window.counts, span.acceptance
    if acceptance.rate is None or acceptance.samples <= 0.0:
        return None
    accepted = min(max(counts.accepted_tokens, 0.0), counts.draft_tokens)
    return Side(accepted, counts.draft_tokens, counts.draft_tokens / acceptance.samples)


def _pairs(first: Span, second: Span) -> tuple[PositionPair, ...]:
    rates = [{entry.position: entry.rate for entry in span.positions} for span in (first, second)]
    return tuple(
        PositionPair(position, rates[0].get(position), rates[1].get(position))
        for position in sorted(rates[0].keys() | rates[1].keys())
    )


def _sentence(first: Span, second: Span, found: Difference | None, *, integration: bool) -> str:
    if found is None:
        silent = " and ".join(span.name for span in (first, second) if not span.acceptance.rate)
        return f"nothing to compare: no acceptance rate of {silent}"
    rates = f"{_percent(_rate(first))} against {_percent(_rate(second))}"
    if integration:
        return (
            f"both accept equally little ({rates}, the same within {MARGIN:g}): if these are"
            " two different drafters, suspect the integration, not the drafters"
        )
    delta = found.estimate
    if found.equivalent:
        return f"{first.name} and {second.name} accept the same: {rates}, within {MARGIN:g}"
    limits = f"{_signed(delta.low)} to {_signed(delta.high)}"
    if found.different:
        more = "more" if delta.value > 0.0 else "less"
        rates = f"{_percent(_rate(second))} against {_percent(_rate(first))}"
        return f"{second.name} accepts {more} than {first.name}: {rates} ({limits} points)"
    return f"undecided: {rates}, a difference of {limits} points; more requests would tell"


def _notes(first: Span, second: Span, found: Difference | None) -> list[str]:
    notes = []
    for span in (first, second):
        requests = span.window.counts.requests
        if found is not None and requests < LEAST_REQUESTS:
            notes.append(
                f"{span.name} has {requests:.0f} requests; below {LEAST_REQUESTS} on each side"
                " the test hardly ever proves two drafters the same"
            )
    notes += _differences(first.identity, second.identity)
    one, other = first.acceptance.k, second.acceptance.k
    if one is not None and other is not None and abs(one - other) > _OTHER_K * max(one, other):
        notes.append(
            f"draft sizes differ ({one:.2g} and {other:.2g}): the rate falls with the size by"
            " itself, so compare acceptance lengths and speedups"
        )
    return notes


_OTHER_K = 0.05


def _differences(first: Identity, second: Identity) -> list[str]:
    parts = zip(Identity._fields, first, second, strict=True)
    told = [
        f"{name.replace('_', ' ')} {one} and {other}"
        for name, one, other in parts
        if name != "draft_size" and None not in (one, other) and one != other
    ]
    return [f"the servers differ: {', '.join(told)}"] if told else []


def _rate(span: Span) -> float:
    return span.acceptance.rate.value if span.acceptance.rate is not None else 0.0


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _signed(value: float | None) -> str:
    return "?" if value is None else f"{value * 100:+.1f}"
