"""The part of the monitor's own metrics that tells what is decided about targets, and on what.

No label value is a text of a page. Positions of draft tokens and engines of a server are told
apart by their numbers, and only by those below a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from prometheus_client.metrics_core import Metric

from monitor.model import (
    Alarm,
    Assessment,
    Counts,
    EngineVerdict,
    Estimate,
    Evidence,
    Figures,
    Verdict,
)
from monitor.settings import Role
from monitor.web.families import TargetFamily, Values, gauge, single
from monitor.web.status import SEVERITY
from monitor.web.view import TargetView

NUMBERED = 64
"""Positions and engines with a number below this are shown."""
_NUMBERS = frozenset(map(str, range(NUMBERED)))

SEVERITY_CODES = {verdict: 10.0 * code for code, verdict in enumerate(reversed(SEVERITY))}
"""A number for each verdict, the worst one highest. Steps of ten leave room between them for
a verdict to come without changing what was stored."""

_Figure = Callable[[Assessment], float | None]
_Estimated = Callable[[Assessment | Figures], Estimate | None]

_ESTIMATES: tuple[tuple[str, str, _Estimated], ...] = (
    ("acceptance_rate", "Accepted draft tokens / draft tokens", lambda a: a.acceptance_rate),
    (
        "acceptance_length",
        "Tokens per draft, bonus token included",
        lambda a: a.acceptance_length,
    ),
    ("speedup", "Decode speed relative to no speculation at the same load", lambda a: a.speedup),
)

_FIGURES: tuple[tuple[str, str, _Figure], ...] = (
    (
        "break_even_acceptance_length",
        "Acceptance length from which speculation pays at this load",
        lambda a: a.break_even.acceptance_length if a.break_even else None,
    ),
    (
        "break_even_acceptance_rate",
        "Acceptance rate from which speculation pays at this load",
        lambda a: a.break_even.acceptance_rate if a.break_even else None,
    ),
    (
        "effective_k",
        "Draft tokens per draft",
        lambda a: _effective_k(a.window.counts) if a.window and a.acceptance_rate else None,
    ),
    (
        "best_draft_size",
        "Draft size that would be fastest at this load; 0 is plain decoding",
        lambda a: a.what_if.best_k if a.what_if else None,
    ),
    (
        "evidence_drafts",
        "Drafts the verdict rests on",
        lambda a: a.window.counts.drafts if a.window else None,
    ),
    (
        "evidence_requests",
        "Finished requests the verdict rests on",
        lambda a: a.window.counts.requests if a.window else None,
    ),
    (
        "evidence_seconds",
        "Length of the window the verdict rests on",
        lambda a: a.window.end - a.window.start if a.window else None,
    ),
    (
        "evidence_weak",
        "1 where gauges are the evidence, 0 where counters are",
        lambda a: None if a.evidence is None else float(a.evidence is Evidence.GAUGE),
    ),
    ("running_requests", "Running requests, mean of the window", lambda a: a.load.running),
    ("waiting_requests", "Waiting requests, mean of the window", lambda a: a.load.waiting),
    ("tpot_seconds", "Time per output token", lambda a: a.load.tpot),
    ("step_seconds", "Time per decode step as a request sees it", lambda a: a.load.step),
    ("tokens_per_step", "Output tokens per decode step", lambda a: a.load.tokens_per_step),
    ("coverage", "Drafts per decode step", lambda a: a.load.coverage),
    (
        "baseline_measured_timestamp_seconds",
        "When the baseline was measured that it is compared with",
        lambda a: a.baseline.measured_at if a.baseline else None,
    ),
)

_TOTALS: tuple[tuple[str, str, Callable[[Counts], float | None]], ...] = (
    ("output_tokens", "Tokens that came out", lambda c: c.output_tokens),
    ("finished_requests", "Requests that finished", lambda c: c.requests),
    ("drafts", "Drafts", lambda c: _counted(c, c.drafts)),
    ("draft_tokens", "Draft tokens", lambda c: _counted(c, c.draft_tokens)),
    ("accepted_tokens", "Accepted draft tokens", lambda c: _counted(c, c.accepted_tokens)),
    ("decode_seconds", "Time spent decoding, summed over requests", lambda c: c.decode_seconds),
    ("decode_tokens", "Tokens that came out of decode steps", lambda c: c.decode_tokens),
    (
        "compared_decode_seconds",
        "Decode time at a load that the baseline covers",
        lambda c: c.compared_seconds,
    ),
    (
        "baseline_decode_seconds",
        "Decode time the baseline would have needed for the same tokens",
        lambda c: c.baseline_seconds,
    ),
    ("server_restarts", "Times the server began to count anew", lambda c: c.resets),
)


def services(targets: Sequence[TargetView]) -> Metric:
    """A service has the worst verdict of its targets that speculate."""
    speculative = sorted(
        (view.service, SEVERITY_CODES[view.assessment.verdict])
        for view in targets
        if view.assessment is not None and view.role != Role.BASELINE
    )
    worst = (
        ((service,), max(code for _, code in group))
        for service, group in groupby(speculative, key=lambda pair: pair[0])
    )
    text = "The worst verdict on the speculative side of a service, as a number"
    return gauge("service_verdict_severity", text, ("service",), worst)


def _assessed(figure: _Figure) -> Callable[[TargetView], Values]:
    """The values of a family with one figure for each target that was looked at."""
    return lambda view: () if view.assessment is None else (((), figure(view.assessment)),)


def _verdict(view: TargetView) -> Values:
    if (a := view.assessment) is not None:
        for verdict in Verdict:
            yield (verdict.value,), float(verdict is a.verdict)


def _decision(view: TargetView) -> Values:
    if (a := view.assessment) is not None:
        yield (a.verdict.value, a.cause or "", a.action.value), 1.0


def _alarms(view: TargetView) -> Values:
    if view.assessment is not None:
        for alarm in Alarm:
            yield (alarm.value,), float(alarm in view.alarms)


def _positions(view: TargetView) -> Values:
    for found in view.assessment.positions[:NUMBERED] if view.assessment else ():
        yield (str(found.position),), found.rate


def _engines(figure: Callable[[EngineVerdict], float | None]) -> Callable[[TargetView], Values]:
    def values(view: TargetView) -> Values:
        for engine in view.assessment.engines if view.assessment else ():
            if engine.label in _NUMBERS:
                yield (engine.label,), figure(engine)

    return values


def _baseline(view: TargetView) -> Values:
    if view.assessment is not None and (baseline := view.assessment.baseline) is not None:
        yield (baseline.name,), float(baseline.matches)


def _part(estimate: _Estimated, index: int) -> _Figure:
    return lambda a: None if (found := estimate(a)) is None else found[index]


def _by_window(estimate: _Estimated) -> Callable[[TargetView], Values]:
    def values(view: TargetView) -> Values:
        for seconds, figures in view.windows().items():
            found = estimate(figures)
            yield (f"{seconds:g}s",), None if found is None else found.value

    return values


def _total(total: Callable[[Counts], float | None]) -> Callable[[TargetView], Values]:
    return single(lambda view: total(view.totals))


def _effective_k(counts: Counts) -> float | None:
    if counts.drafts <= 0.0 or counts.uncounted_draft_tokens > 0.0:
        return None
    return counts.draft_tokens / counts.drafts


def _counted(counts: Counts, value: float) -> float | None:
    """``value`` if drafts, their tokens and the accepted ones are all known, for quotients."""
    known = counts.unsized_drafts <= 0.0 and counts.uncounted_draft_tokens <= 0.0
    return value if known else None


JUDGED: tuple[TargetFamily, ...] = (
    TargetFamily(
        "target_info",
        "1 for each target that is watched; its side of the service",
        lambda view: (((view.role,), 1.0),),
        ("role",),
    ),
    TargetFamily(
        "acceptance_threshold",
        "Acceptance rate from which down an alert may be raised",
        single(lambda view: view.threshold),
    ),
    TargetFamily(
        "acceptance_threshold_own",
        "1 if that was set for the service itself, 0 if it is the general one",
        single(lambda view: float(view.threshold_is_set)),
    ),
    TargetFamily(
        "alarm",
        "1 while the detector stands by a drop or a rise of acceptance",
        _alarms,
        ("alarm",),
    ),
    TargetFamily(
        "alert_firing",
        "1 for an alert that fires",
        lambda view: [((a.rule, a.severity.value), 1.0) for a in view.alerts],
        ("rule", "severity"),
    ),
    TargetFamily("verdict", "1 for the verdict that holds", _verdict, ("verdict",)),
    TargetFamily(
        "verdict_severity",
        "The verdict as a number, the worst one highest",
        _assessed(lambda a: SEVERITY_CODES[a.verdict]),
    ),
    TargetFamily(
        "verdict_since_timestamp_seconds",
        "Since when the verdict holds",
        single(lambda view: None if view.assessment is None else view.since),
    ),
    TargetFamily(
        "decision_info", "1 for what is decided", _decision, ("verdict", "cause", "action")
    ),
    *(
        TargetFamily(name + suffix, text + which, _assessed(_part(estimate, index)))
        for name, text, estimate in _ESTIMATES
        for index, (suffix, which) in enumerate(
            (("", ""), ("_low", ", lower limit"), ("_high", ", upper limit"))
        )
    ),
    *(TargetFamily(name, text, _assessed(figure)) for name, text, figure in _FIGURES),
    TargetFamily(
        "position_acceptance_rate",
        "Share of all drafts in which the token at this position was accepted",
        _positions,
        ("position",),
    ),
    TargetFamily(
        "engine_acceptance_length",
        "Tokens per draft of one of several engines",
        _engines(lambda e: e.acceptance_length and e.acceptance_length.value),
        ("engine",),
    ),
    TargetFamily(
        "engine_verdict_severity",
        "The verdict on one of several engines, as a number",
        _engines(lambda e: SEVERITY_CODES[e.verdict]),
        ("engine",),
    ),
    TargetFamily(
        "baseline_matches",
        "1 for the baseline it is compared with; 0 if that is of another kind of server",
        _baseline,
        ("baseline",),
    ),
    *(
        TargetFamily(f"window_{name}", f"{text}, by window", _by_window(estimate), ("window",))
        for name, text, estimate in _ESTIMATES
    ),
    *(TargetFamily(name, text, _total(total), counts=True) for name, text, total in _TOTALS),
)
"""All families about verdicts and figures of targets."""
