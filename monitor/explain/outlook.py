"""What would change a verdict: found by asking the very rules again with other figures.

One figure at a time is moved away from what it is, in both directions, until the rules say
something else; so the answer cannot differ from what the daemon would say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

from monitor.explain.ladder import Case, half_width
from monitor.health import verdict, words
from monitor.health.figures import acceptance
from monitor.health.reference import LEAST_EVER
from monitor.health.verdict import Facts, Finding, decide
from monitor.model import Counts, Estimate, Verdict

_STEPS = 128
_HALVINGS = 40
_MOST_TRAFFIC = 1e4
_FASTER = 2.0
"""Up to which multiple of what it is, or of plain decoding, the speedup is moved."""
_MATCH = 2e-3
"""How near to a limit of the rules a figure must be where the verdict turns."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One way in which the verdict would become another one."""

    verdict: Verdict | None
    """None where it depends on what then is seen."""
    quantity: str
    sentence: str
    direction: str | None = None
    """``above`` or ``below``."""
    now: Estimate | None = None
    needed: Estimate | None = None
    """The figure at the turn, with its interval as it then would be."""
    limit: str | None = None
    """Which part of the figure meets the bound of a rule: ``low``, ``high`` or ``value``."""
    bound: float | None = None


class _Probe(NamedTuple):
    """A figure that can be moved."""

    quantity: str
    now: float
    least: float
    most: float
    at: Callable[[float], Facts]


class _Bound(NamedTuple):
    """A number that rules compare a part of a figure with."""

    of: str
    part: str
    value: float


def outlook(case: Case) -> list[Turn]:
    """The nearest turns of each figure that is known."""
    facts = case.facts
    found = decide(facts)
    turns = [*_turns(case, found)]
    return turns or [_without_figures(found, facts)]


def _turns(case: Case, found: Finding) -> Iterator[Turn]:
    if found.verdict is Verdict.INSUFFICIENT and case.facts.too_little is not None:
        turn = _more_traffic(case, found)
        if turn is not None:
            yield turn
        return
    if found.verdict in _NOT_BY_FIGURES:
        return
    if found.verdict is Verdict.UNPROVEN:
        yield from _proofs(case)
    for probe in _probes(case):
        for far in (probe.most, probe.least):
            yield from _seek(case, probe, far, found)


def _proofs(case: Case) -> Iterator[Turn]:
    """What there would have to be to judge by."""
    if case.facts.settings.baseline is None:
        sentence = "unproven → healthy, neutral or harmful with a baseline to compare with"
        yield Turn(None, "baseline", sentence)
    if case.facts.past.normal is None and case.facts.speedup is None:
        seen = f"{words.count(case.learnt_requests)} of {LEAST_EVER:.0f} requests so far"
        yield Turn(
            Verdict.HEALTHY,
            "reference",
            f"unproven → healthy once a normal is learnt that this is in line with ({seen})",
            direction="above",
            now=Estimate(case.learnt_requests),
            needed=Estimate(LEAST_EVER),
        )


def _probes(case: Case) -> Iterator[_Probe]:
    facts = case.facts
    rate, gain, step = facts.accepted.rate, facts.speedup, facts.past.changes.step
    if rate is not None:
        yield _Probe("acceptance_rate", rate.value, 0.0, 1.0, lambda x: _with_rate(case, x))
    if gain is not None and gain.value > 0.0:
        yield _Probe(
            "speedup",
            gain.value,
            0.0,
            _FASTER * max(gain.value, 1.0),
            lambda x: _with_speedup(facts, x),
        )
    if step is not None and facts.past.changes.is_slower:
        yield _Probe("step", step.after, step.before, step.after, lambda x: _with_step(facts, x))


def _seek(case: Case, probe: _Probe, far: float, found: Finding) -> Iterator[Turn]:
    """The turns on the way from what is to ``far``, the first to each other verdict."""

    def said(value: float) -> Verdict:
        return decide(probe.at(value)).verdict

    near, before = probe.now, found.verdict
    if said(near) is not before or far == near:
        return
    seen = {before}
    for number in range(1, _STEPS + 1):
        value = probe.now + (far - probe.now) * number / _STEPS
        now = said(value)
        if now is not before and now not in seen:
            yield _turn(case, probe, _halve(near, value, said, before), found)
        seen.add(now)
        near, before = value, now


def _halve(same: float, other: float, said: Callable[[float], Verdict], before: Verdict) -> float:
    """The value nearest to ``same`` at which the verdict is another one."""
    for _ in range(_HALVINGS):
        middle = (same + other) / 2.0
        if said(middle) is before:
            same = middle
        else:
            other = middle
    return other


def _turn(case: Case, probe: _Probe, value: float, found: Finding) -> Turn:
    there = probe.at(value)
    bound = _met(there, case.facts)
    new = decide(there).verdict
    above = value > probe.now
    turn = Turn(
        verdict=new,
        quantity=probe.quantity,
        sentence="",
        direction="above" if above else "below",
        now=_figure(case.facts, probe.quantity),
        needed=_figure(there, probe.quantity),
        limit=bound.part if bound is not None and bound.of == probe.quantity else None,
        bound=bound.value if bound is not None and bound.of == probe.quantity else None,
    )
    condition = _condition(turn, case.facts, there, bound)
    return replace(turn, sentence=f"{found.verdict} → {new} if {condition}")


def _condition(turn: Turn, facts: Facts, there: Facts, bound: _Bound | None) -> str:
    """What would have to be, with how it is now."""
    moved = "rose above" if turn.direction == "above" else "fell below"
    name, show = _NAMES[turn.quantity]
    now, needed = _value(turn.now), _value(turn.needed)
    if turn.limit in ("low", "high") and turn.bound is not None and turn.now is not None:
        side = "upper" if turn.limit == "high" else "lower"
        current = getattr(turn.now, turn.limit)
        return (
            f"the {side} limit of the {name} {moved} {show(turn.bound)} (now {show(current)});"
            f" that takes {show(needed)} (now {show(now)})"
        )
    plain = f"the {name} {moved} {show(needed)} (now {show(now)})"
    if bound is not None and bound.of == "speedup" and there.speedup is not None:
        side = {"low": "lower limit", "high": "upper limit", "value": "value"}[bound.part]
        was = getattr(facts.speedup, bound.part)
        return (
            f"{plain} at the same cost of a step: the {side} of the speedup would then be"
            f" {bound.value:.2f} (now {was:.2f})"
        )
    return plain


def _value(estimate: Estimate | None) -> float:
    return estimate.value if estimate is not None else 0.0


def _milliseconds(seconds: float) -> str:
    return f"{1000.0 * seconds:.1f} ms"


_NAMES: dict[str, tuple[str, Callable[[float], str]]] = {
    "acceptance_rate": ("acceptance rate", lambda share: f"{100.0 * share:.1f} %"),
    "speedup": ("speedup", lambda times: f"{times:.2f}"),
    "step": ("time of a step", _milliseconds),
}


def _figure(facts: Facts, quantity: str) -> Estimate | None:
    if quantity == "acceptance_rate":
        return facts.accepted.rate
    if quantity == "speedup":
        return facts.speedup
    step = facts.past.changes.step
    return Estimate(step.after) if step is not None else None


def _met(there: Facts, now: Facts) -> _Bound | None:
    """The bound of a rule that a figure stands at where the verdict turns."""
    for bound in _bounds(there):
        figure, before = _figure(there, bound.of), _figure(now, bound.of)
        if figure is None or before is None:
            continue
        part = getattr(figure, bound.part)
        # A figure that did not move has not made the verdict turn.
        moved = part is not None and part != getattr(before, bound.part)
        if moved and abs(part - bound.value) <= _MATCH * max(bound.value, 0.1):
            return bound
    return None


def _bounds(facts: Facts) -> Sequence[_Bound]:
    band = facts.settings.dead_band
    expected, k = facts.past.expected_rate, facts.accepted.k
    rate = "acceptance_rate"
    return [
        _Bound(rate, "high", facts.settings.threshold),
        _Bound(rate, "value", verdict.SUSPICIOUS_RATE),
        *([_Bound(rate, "value", (verdict.dead_below(facts) - 1.0) / k)] if k else []),
        *([_Bound(rate, "high", verdict.UNHEALTHY_SHARE * expected)] if expected else []),
        *(_Bound("speedup", part, edge) for part in ("low", "high") for edge in _edges(band)),
        *(_Bound("speedup", "value", edge) for edge in _edges(band)),
    ]


def _edges(band: float) -> tuple[float, float]:
    return 1.0 - band, 1.0 + band


# -- moving one figure ---------------------------------------------------------------------


def _with_rate(case: Case, rate: float) -> Facts:
    """The facts as if another share of the draft tokens had been accepted.

    A step costs what it costs, so the speedup moves with the tokens that a step gives.
    """
    facts = case.facts
    before = facts.accepted.rate
    counts = _accepting(facts.counts, rate)
    window = facts.window._replace(counts=counts)
    accepted = acceptance(window, case.learnt_effect)
    gain, per_step, k = facts.speedup, facts.load.tokens_per_step, facts.accepted.k
    if gain is not None and per_step and k is not None and before is not None:
        coverage = min(facts.load.coverage or 1.0, 1.0)
        grown = (per_step + coverage * k * (rate - before.value)) / per_step
        gain = _scaled(gain, max(grown, 0.0))
    return facts._replace(window=window, accepted=accepted, speedup=gain)


def _accepting(counts: Counts, rate: float) -> Counts:
    accepted = rate * counts.draft_tokens
    moved = counts._replace(accepted_tokens=accepted)
    if counts.accepted_tokens <= 0.0:
        return moved._replace(positions=(), position_drafts=0.0)
    factor = accepted / counts.accepted_tokens
    shares = tuple(factor * position for position in counts.positions)
    if shares and max(shares) > counts.position_drafts:
        # No position can be accepted more often than it was drafted: which would be, then,
        # is not known.
        return moved._replace(positions=(), position_drafts=0.0)
    return moved._replace(positions=shares)


def _with_speedup(facts: Facts, value: float) -> Facts:
    gain = facts.speedup
    return facts if gain is None else facts._replace(speedup=_scaled(gain, value / gain.value))


def _scaled(gain: Estimate, factor: float) -> Estimate:
    low, high = gain.low, gain.high
    return Estimate(
        gain.value * factor,
        low * factor if low is not None else None,
        high * factor if high is not None else None,
    )


def _with_step(facts: Facts, after: float) -> Facts:
    step = facts.past.changes.step
    if step is None:
        return facts
    changes = facts.past.changes._replace(step=replace(step, after=after))
    return facts._replace(past=facts.past._replace(changes=changes))


def _with_traffic(case: Case, factor: float) -> Facts:
    """The facts of a window with more traffic of the same kind."""
    counts = case.facts.counts
    scaled = Counts._make(
        (*(factor * figure for figure in counts[:-1]), tuple(factor * s for s in counts.positions))
    )
    window = case.facts.window._replace(counts=scaled._replace(seconds=counts.seconds))
    return case.facts._replace(window=window, accepted=acceptance(window, case.learnt_effect))


def _more_traffic(case: Case, found: Finding) -> Turn | None:
    def said(factor: float) -> Verdict:
        return decide(_with_traffic(case, factor)).verdict

    near, factor = 1.0, 1.0
    while factor < _MOST_TRAFFIC:
        near, factor = factor, 1.25 * factor
        if said(factor) is not found.verdict:
            break
    else:
        return None
    needed = _halve(near, factor, said, found.verdict)
    there = _with_traffic(case, needed)
    new = decide(there).verdict
    more, quantity, now, then = _more(case.facts, there)
    return Turn(
        verdict=new,
        quantity=quantity,
        sentence=f"{found.verdict} → {new} with {more} like those seen",
        direction="above",
        now=Estimate(now),
        needed=Estimate(then),
    )


def _plural(requests: float) -> str:
    return "request" if requests == 1 else "requests"


def _more(facts: Facts, there: Facts) -> tuple[str, str, float, float]:
    """What is missing, in requests where they are counted, else in draft tokens."""
    now, then = facts.accepted.requests, there.accepted.requests
    if now is not None and then is not None:
        missing = max(ceil(then - now), 1)
        return f"{words.count(missing)} more {_plural(missing)}", "requests", now, now + missing
    tokens = there.counts.draft_tokens - facts.counts.draft_tokens
    return (
        f"{words.count(tokens)} more draft tokens",
        "draft_tokens",
        facts.counts.draft_tokens,
        there.counts.draft_tokens,
    )


# -- verdicts that no figure turns ---------------------------------------------------------

_NOT_BY_FIGURES = frozenset(
    {
        Verdict.IDLE,
        Verdict.OFF,
        Verdict.STALLED,
        Verdict.MISREPORTED,
        Verdict.NOT_DRAFTING,
        Verdict.UNRECOGNISED,
        Verdict.DOWN,
        Verdict.INSUFFICIENT,
    }
)

_CONDITIONS = {
    Verdict.IDLE: ("output_tokens", "as soon as tokens flow"),
    Verdict.OFF: ("speculation", "as soon as the server is started with speculation"),
    Verdict.STALLED: ("output_tokens", "with the first token that comes"),
    Verdict.MISREPORTED: ("page", "once the figures agree with each other"),
    Verdict.NOT_DRAFTING: (
        "coverage",
        f"once {words.percent(verdict.BYPASS_COVERAGE)} of the decode steps carry a draft",
    ),
    Verdict.UNRECOGNISED: ("page", "once the page shows figures under known names"),
    Verdict.DOWN: ("page", "with the next page that can be had"),
    Verdict.INSUFFICIENT: ("output_tokens", "with the next figures"),
}


def _without_figures(found: Finding, facts: Facts) -> Turn:
    if facts.window.warming_up and found.verdict is Verdict.INSUFFICIENT:
        condition = ("warmup", "once the server has been up for 60 s and has served 8 requests")
    elif found.verdict is Verdict.INSUFFICIENT and half_width(facts) is not None:
        condition = ("requests", "with far more traffic")
    else:
        condition = _CONDITIONS.get(found.verdict, ("page", "nothing that is known would do it"))
    return condition_of(found.verdict, condition)


def condition_of(before: Verdict, condition: tuple[str, str] | None = None) -> Turn:
    """What ends a verdict that no figure of a window turns."""
    quantity, when = condition or _CONDITIONS.get(before, ("page", "with the next page"))
    return Turn(None, quantity, f"{before} → another verdict {when}")
