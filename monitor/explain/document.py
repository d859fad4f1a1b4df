"""The explanation as one plain document (docs/explain.md has its fields)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from monitor.explain.ladder import Case, Rung, climb, half_width, why_no_speedup
from monitor.explain.outlook import Turn, condition_of, outlook
from monitor.explain.profile import profile
from monitor.explain.rebuild import Point, Rebuilt, rebuild, remembered
from monitor.health import words
from monitor.health.detect import THRESHOLD, Cusum
from monitor.health.figures import spread_between_positions
from monitor.health.interval import default_design_effect
from monitor.health.ledger import add
from monitor.health.past import Changes
from monitor.health.shape import Change
from monitor.health.speedup import BLOCKS, LEAST_BLOCKS, running
from monitor.health.target import Trial
from monitor.health.verdict import (
    LEAST_REQUESTS,
    LEAST_SAMPLES,
    WIDEST_HALF,
    Facts,
    inconclusive,
)
from monitor.model import Counts, Estimate, Identity, Verdict
from monitor.report import iso, number, to_document
from monitor.store.rows import StoredMoment, StoredOrder, StoredState

SCHEMA = "monitor.explain/1"
SHOWN_SECONDS = 6.0 * 3600.0
"""How much of the past is shown unless something older is behind the verdict."""
LONGEST_SHOWN = 24.0 * 3600.0
_BEFORE = 0.5 * 3600.0
"""How much is shown before what is behind the verdict."""
_PARTS = 56
"""Parts that the shown past is summed to."""
_PAGE = "page"


def explain(moment: StoredMoment, shown: float = SHOWN_SECONDS) -> dict[str, Any]:
    """Why a target had the verdict it had at a moment."""
    rebuilt = rebuild(moment)
    chosen = rebuilt.deliberation.chosen if rebuilt.deliberation is not None else None
    case = _case(rebuilt, chosen) if chosen is not None else None
    rungs = [*_before_rules(rebuilt, case), *(_rules(rebuilt, case) if case is not None else [])]
    start = _shown_from(rebuilt, case, shown)
    document = {
        "schema": SCHEMA,
        "target": moment.facts.target,
        "service": moment.facts.service,
        "at": iso(rebuilt.at),
        "last_look": iso(rebuilt.points[-1].end) if rebuilt.points else None,
        "verdict": _verdict(rebuilt),
        "judged_again": _judged_again(rebuilt),
        "threshold": moment.judge.threshold,
        "windows": _windows(rebuilt),
        "sums": _sums(case.facts) if case is not None else None,
        "acceptance": _acceptance(case) if case is not None else None,
        "speedup": _speedup(rebuilt, case.facts) if case is not None else None,
        "reference": _reference(rebuilt),
        "detector": _detector(rebuilt),
        "changes": _changes(case.facts.past.changes) if case is not None else [],
        "ladder": [asdict(rung) for rung in rungs],
        "outlook": [_turn(turn) for turn in _outlook(rebuilt, case)],
        "history": list(_history(rebuilt, start)),
        "orders": _waiting(moment.orders),
        "notes": _notes(rebuilt),
    }
    tidied: dict[str, Any] = tidy(document)
    return tidied


def reference_document(
    target: str, state: StoredState | None, orders: Sequence[StoredOrder], now: float
) -> dict[str, Any]:
    """What is learnt to be normal for a target, as the daemon last stored it."""
    parsed = remembered(target, state) if state is not None else None
    identity = parsed.identity if parsed is not None else Identity()
    known = parsed is not None and identity.engine is not None
    document = {
        "target": target,
        "at": iso(state.at) if state is not None else None,
        "server": identity._asdict(),
        "reference": (
            profile(parsed.memory.watch.reference(identity), now)
            if parsed is not None and known
            else None
        ),
        "orders": _waiting(orders),
    }
    tidied: dict[str, Any] = tidy(document)
    return tidied


def order_document(given: StoredOrder) -> dict[str, Any]:
    """One order about a reference."""
    return {
        "id": given.id,
        "at": iso(given.at),
        "who": given.who,
        "kind": given.order.kind,
        "rate": given.order.rate,
        "applied_at": _iso(given.applied_at),
    }


def _waiting(orders: Sequence[StoredOrder]) -> list[dict[str, Any]]:
    return [order_document(given) for given in orders if given.applied_at is None]


def tidy(value: Any) -> Any:
    """Plain JSON values: whole numbers without a fraction, the rest without noise."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return {key: tidy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [tidy(item) for item in value]
    return value


# -- the verdict ---------------------------------------------------------------------------


def _verdict(rebuilt: Rebuilt) -> dict[str, Any] | None:
    """What was stored; the sentence is that of the last change of verdict, cause or action."""
    change = rebuilt.change
    if change is None:
        return None
    since = rebuilt.moment.since
    return {
        "verdict": change.verdict,
        "cause": change.cause,
        "action": change.action,
        "sentence": change.sentence,
        "since": iso(since) if since is not None else None,
        "changed_at": iso(change.at),
    }


def _judged_again(rebuilt: Rebuilt) -> dict[str, Any] | None:
    """The whole assessment that the stored samples lead to."""
    if rebuilt.deliberation is None:
        return None
    return {**to_document(rebuilt.deliberation.assessment), "agrees": _agrees(rebuilt)}


def _agrees(rebuilt: Rebuilt) -> bool:
    """Whether judging again gave what was stored."""
    change, deliberation = rebuilt.change, rebuilt.deliberation
    if change is None or deliberation is None:
        return True
    again = deliberation.assessment
    found = (again.verdict, again.cause, again.action)
    return found == (change.verdict, change.cause, change.action)


def _windows(rebuilt: Rebuilt) -> list[dict[str, Any]]:
    if rebuilt.deliberation is None:
        return []
    chosen = rebuilt.deliberation.chosen
    return [
        {
            "seconds": trial.seconds,
            "verdict": trial.finding.verdict,
            "conclusive": not inconclusive(trial.finding, trial.facts),
            "decided": trial is chosen,
        }
        for trial in rebuilt.deliberation.trials
    ]


# -- the figures ---------------------------------------------------------------------------


def _case(rebuilt: Rebuilt, chosen: Trial) -> Case:
    reference = rebuilt.reference
    return Case(
        facts=chosen.facts,
        learnt_effect=reference.design_effect if reference is not None else None,
        evidence=rebuilt.watch.drop.evidence,
        learnt_requests=reference.requests if reference is not None else 0.0,
    )


def _sums(facts: Facts) -> dict[str, Any]:
    """All sums of the window, and when it began and ended."""
    window = facts.window
    return {
        "start": iso(window.start),
        "end": iso(window.end),
        "running_now": window.running_now,
        **{name: value for name, value in facts.counts._asdict().items() if name != "positions"},
        "positions": list(facts.counts.positions),
    }


def _acceptance(case: Case) -> dict[str, Any]:
    """How the interval of the acceptance rate follows from the sums."""
    facts, accepted = case.facts, case.facts.accepted
    effect, source = _design_effect(case)
    return {
        "rate": _estimate(accepted.rate),
        "length": _estimate(accepted.length),
        "k": accepted.k,
        "draft_tokens": facts.counts.draft_tokens,
        "design_effect": effect,
        "design_effect_from": source,
        "samples": accepted.samples,
        "samples_needed": LEAST_SAMPLES,
        "requests": accepted.requests,
        "requests_needed": LEAST_REQUESTS,
        "half_width": half_width(facts),
        "half_width_allowed": WIDEST_HALF,
        "evidence": accepted.evidence,
    }


def _design_effect(case: Case) -> tuple[float | None, str | None]:
    """Draft tokens per independent sample, and where that comes from."""
    accepted, counts = case.facts.accepted, case.facts.counts
    if accepted.rate is None or accepted.samples <= 0.0:
        return None, None
    effect = counts.draft_tokens / accepted.samples
    stored = case.learnt_effect or default_design_effect(
        counts.draft_tokens, accepted.requests or 0.0
    )
    if max(stored, 1.0) < spread_between_positions(counts, accepted.k):
        return effect, "positions"
    return effect, "learnt" if case.learnt_effect else "assumed"


def _speedup(rebuilt: Rebuilt, facts: Facts) -> dict[str, Any]:
    """How the speedup follows from the sums, or why there is none."""
    counts, even, band = facts.counts, facts.break_even, facts.settings.dead_band
    measured = facts.speedup is not None
    return {
        "speedup": _estimate(facts.speedup),
        "why_not": None if measured else why_no_speedup(facts),
        "baseline": rebuilt.baseline.name if rebuilt.baseline is not None else None,
        "baseline_seconds": counts.baseline_seconds,
        "compared_seconds": counts.compared_seconds,
        "uncompared_seconds": counts.uncompared_seconds,
        "blocks": {"most": BLOCKS, "needed": LEAST_BLOCKS},
        "dead_band": [1.0 - band, 1.0 + band],
        "break_even": (
            {"length": even.acceptance_length, "rate": even.acceptance_rate} if even else None
        ),
    }


def _estimate(estimate: Estimate | None) -> dict[str, float | None] | None:
    return estimate._asdict() if estimate is not None else None


# -- the past ------------------------------------------------------------------------------


def _reference(rebuilt: Rebuilt) -> dict[str, Any] | None:
    if rebuilt.reference is None:
        return None
    return profile(rebuilt.reference, rebuilt.at)


def _detector(rebuilt: Rebuilt) -> dict[str, Any]:
    points = rebuilt.points
    return {
        "threshold": THRESHOLD,
        "counted_from": iso(points[0].start) if points else None,
        "drop": _cusum(rebuilt.watch.drop),
        "rise": _cusum(rebuilt.watch.rise),
        "slowdown": _cusum(rebuilt.watch.pace.fall),
    }


def _cusum(cusum: Cusum) -> dict[str, Any]:
    return {
        "evidence": cusum.evidence,
        "left_zero_at": _iso(cusum.rising_since),
        "alarm_at": _iso(cusum.alarm_at),
        "changed_at": _iso(cusum.changed_at),
    }


def _iso(at: float | None) -> str | None:
    return iso(at) if at is not None else None


def _changes(changes: Changes) -> list[dict[str, Any]]:
    """Changes that were found in the past, and whether each is large enough to count."""
    found = (
        ("acceptance_rate", changes.rate, changes.has_fallen or changes.has_risen),
        ("step", changes.step, changes.is_slower),
        ("load", changes.load, False),
    )
    return [
        {"of": what, **_change(change), "matters": matters}
        for what, change, matters in found
        if change is not None
    ]


def _change(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "at": iso(change.at),
        "error": change.error,
        "before": change.before,
        "after": change.after,
    }


def _shown_from(rebuilt: Rebuilt, case: Case | None, shown: float) -> float:
    """Where the shown past begins: early enough for what is behind the verdict."""
    rate = case.facts.past.changes.rate if case is not None else None
    causes = [
        rebuilt.watch.drop.changed_at,
        rebuilt.watch.rise.changed_at,
        rebuilt.watch.pace.fall.changed_at,
        rate.at if rate is not None else None,
    ]
    first = min([rebuilt.at - shown, *(at - _BEFORE for at in causes if at is not None)])
    known = rebuilt.points[0].start if rebuilt.points else rebuilt.at
    return max(first, known, rebuilt.at - LONGEST_SHOWN)


def _history(rebuilt: Rebuilt, start: float) -> Iterator[dict[str, Any]]:
    """The shown past in equal parts; those without a look are left out."""
    width = (rebuilt.at - start) / _PARTS
    parts: dict[int, list[Point]] = {}
    for point in rebuilt.points:
        if start < point.end <= rebuilt.at:
            index = min(int((point.end - start) / width), _PARTS - 1)
            parts.setdefault(index, []).append(point)
    for points in parts.values():
        yield _part(points, rebuilt)


def _part(points: Sequence[Point], rebuilt: Rebuilt) -> dict[str, Any]:
    counts = Counts()
    for point in points:
        counts = counts if point.warmup else add(counts, point.counts)
    sized = counts.draft_tokens > 0.0 and counts.unsized_drafts <= 0.0
    middle = (points[0].start + points[-1].end) / 2.0
    normal = rebuilt.reference.normal(middle) if rebuilt.reference is not None else None
    return {
        "start": iso(points[0].start),
        "end": iso(points[-1].end),
        "acceptance_rate": counts.accepted_tokens / counts.draft_tokens if sized else None,
        "normal": normal.rate if normal is not None else None,
        "speedup": _quotient(counts.baseline_seconds, counts.compared_seconds),
        "running": running(counts),
        "drop_evidence": max(point.drop for point in points),
        "rise_evidence": max(point.rise for point in points),
    }


def _quotient(part: float, whole: float) -> float | None:
    return part / whole if whole > 0.0 else None


# -- the rules -----------------------------------------------------------------------------


def _before_rules(rebuilt: Rebuilt, case: Case | None) -> list[Rung]:
    """What is asked before there are figures to ask about."""
    change = rebuilt.change
    verdict = change.verdict if change is not None else None
    asked = (
        (_PAGE, "is there no page?", Verdict.DOWN, _last_page(rebuilt)),
        ("families", "a page of no known engine?", Verdict.UNRECOGNISED, _engine(rebuilt)),
        ("figures", "no figures yet?", None, "there are looks with figures"),
    )
    rungs = []
    for rule, asks, decides, because in asked:
        decided = case is None and change is not None and decides in (verdict, None)
        said = change.sentence if decided and change is not None else because
        rungs.append(Rung(rule, asks, decided, said, {}))
        if decided:
            break
    return rungs


def _last_page(rebuilt: Rebuilt) -> str:
    if not rebuilt.points:
        return "a page came"
    return f"the last page with figures came at {words.clock(rebuilt.points[-1].end)}"


def _engine(rebuilt: Rebuilt) -> str:
    identities = rebuilt.moment.identities
    engine = identities[-1][1].engine if identities else None
    return f"a page of {engine}" if engine is not None else "a page of a known engine"


def _rules(rebuilt: Rebuilt, case: Case) -> list[Rung]:
    rungs = climb(case)
    assessment = rebuilt.deliberation.assessment if rebuilt.deliberation is not None else None
    if assessment is None or len(assessment.engines) < 2:  # noqa: PLR2004
        return rungs
    outvoted = assessment.sentence != rungs[-1].because
    figures = {engine.label: engine.verdict for engine in assessment.engines}
    because = assessment.sentence if outvoted else "no engine is sick among healthy ones"
    if outvoted:
        rungs[-1] = replace(rungs[-1], decided=False)
    return [*rungs, Rung("engines", "one engine of several sick?", outvoted, because, figures)]


def _outlook(rebuilt: Rebuilt, case: Case | None) -> list[Turn]:
    if case is not None:
        return outlook(case)
    change = rebuilt.change
    return [condition_of(change.verdict)] if change is not None else []


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "verdict": turn.verdict,
        "quantity": turn.quantity,
        "direction": turn.direction,
        "now": _estimate(turn.now),
        "needed": _estimate(turn.needed),
        "limit": turn.limit,
        "bound": turn.bound,
        "sentence": turn.sentence,
    }


def _called(verdict: Verdict, cause: str | None) -> str:
    return f"{verdict} ({cause})" if cause is not None else str(verdict)


def _notes(rebuilt: Rebuilt) -> list[str]:
    notes = list(rebuilt.notes)
    change, deliberation = rebuilt.change, rebuilt.deliberation
    if deliberation is not None and change is not None and not _agrees(rebuilt):
        again = deliberation.assessment
        notes.insert(
            0,
            f"from what is stored alone it would be {_called(again.verdict, again.cause)}: not"
            f" all that {_called(change.verdict, change.cause)} followed from is stored",
        )
    late = rebuilt.moment.at - rebuilt.at
    if deliberation is not None and late > rebuilt.longest:
        notes.insert(0, f"nothing is stored of the {late:.0f} s before the moment asked for")
    return notes
