"""The part of the monitor's own metrics that tells what is decided about targets, and on what.

No label value is a text of a page. Positions of draft tokens and engines of a server are told
apart by their numbers, and only by those below a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from prometheus_client.metrics_core import Metric

from monitor.model import Alarm, Assessment, Counts, Estimate, Evidence, Verdict
from monitor.settings import Role
from monitor.web.families import TARGET_LABELS, Values, counter, gauge
from monitor.web.status import SEVERITY
from monitor.web.view import TargetView

NUMBERED = 64
"""Positions and engines with a number below this are shown."""

SEVERITY_CODES = {verdict: 10.0 * code for code, verdict in enumerate(reversed(SEVERITY))}
"""A number for each verdict, the worst one highest. Steps of ten leave room between them for
a verdict to come without changing what was stored."""

_Figure = Callable[[Assessment], float | None]
_Estimated = Callable[[Assessment], Estimate | None]

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


def judged(targets: Sequence[TargetView]) -> Iterator[Metric]:
    """All families about verdicts and figures."""
    yield from _targets(targets)
    yield from _verdicts(targets)
    yield from _services(targets)
    for name, text, estimate in _ESTIMATES:
        yield from _estimates(name, text, targets, estimate)
    for name, text, figure in _FIGURES:
        yield gauge(name, text, TARGET_LABELS, _each(targets, figure))
    yield _positions(targets)
    yield from _engines(targets)
    yield _baselines(targets)
    yield from _windows(targets)
    for name, text, total in _TOTALS:
        sums = ((_key(view), total(view.totals)) for view in targets)
        yield counter(name, text, TARGET_LABELS, sums)


def _key(view: TargetView) -> tuple[str, str]:
    return view.service, view.target


def _assessed(targets: Iterable[TargetView]) -> Iterator[tuple[TargetView, Assessment]]:
    for view in targets:
        if view.assessment is not None:
            yield view, view.assessment


def _each(targets: Iterable[TargetView], figure: _Figure) -> Values:
    return ((_key(view), figure(assessment)) for view, assessment in _assessed(targets))


def _targets(targets: Sequence[TargetView]) -> Iterator[Metric]:
    yield gauge(
        "target_info",
        "1 for each target that is watched; its side of the service",
        (*TARGET_LABELS, "role"),
        (((*_key(view), view.role), 1.0) for view in targets),
    )
    yield gauge(
        "acceptance_threshold",
        "Acceptance rate from which down an alert may be raised",
        TARGET_LABELS,
        ((_key(view), view.threshold) for view in targets),
    )
    yield gauge(
        "acceptance_threshold_own",
        "1 if that was set for the service itself, 0 if it is the general one",
        TARGET_LABELS,
        ((_key(view), float(view.threshold_is_set)) for view in targets),
    )
    yield gauge(
        "alarm",
        "1 while the detector stands by a drop or a rise of acceptance",
        (*TARGET_LABELS, "alarm"),
        (
            ((*_key(view), alarm.value), float(alarm in view.alarms))
            for view, _ in _assessed(targets)
            for alarm in Alarm
        ),
    )
    yield gauge(
        "alert_firing",
        "1 for an alert that fires",
        (*TARGET_LABELS, "rule", "severity"),
        (
            ((*_key(view), alert.rule, alert.severity.value), 1.0)
            for view in targets
            for alert in view.alerts
        ),
    )


def _verdicts(targets: Sequence[TargetView]) -> Iterator[Metric]:
    yield gauge(
        "verdict",
        "1 for the verdict that holds",
        (*TARGET_LABELS, "verdict"),
        (
            ((*_key(view), verdict.value), float(verdict is assessment.verdict))
            for view, assessment in _assessed(targets)
            for verdict in Verdict
        ),
    )
    yield gauge(
        "verdict_severity",
        "The verdict as a number, the worst one highest",
        TARGET_LABELS,
        _each(targets, lambda a: SEVERITY_CODES[a.verdict]),
    )
    yield gauge(
        "verdict_since_timestamp_seconds",
        "Since when the verdict holds",
        TARGET_LABELS,
        ((_key(view), view.since) for view, _ in _assessed(targets)),
    )
    yield gauge(
        "decision_info",
        "1 for what is decided",
        (*TARGET_LABELS, "verdict", "cause", "action"),
        (
            ((*_key(view), a.verdict.value, a.cause or "", a.action.value), 1.0)
            for view, a in _assessed(targets)
        ),
    )


def _services(targets: Sequence[TargetView]) -> Iterator[Metric]:
    """A service has the worst verdict of its targets that speculate."""
    speculative = sorted(
        ((view.service, SEVERITY_CODES[a.verdict]))
        for view, a in _assessed(targets)
        if view.role != Role.BASELINE
    )
    worst = (
        ((service,), max(code for _, code in group))
        for service, group in groupby(speculative, key=lambda pair: pair[0])
    )
    text = "The worst verdict on the speculative side of a service, as a number"
    yield gauge("service_verdict_severity", text, ("service",), worst)


def _estimates(
    name: str, text: str, targets: Sequence[TargetView], estimate: _Estimated
) -> Iterator[Metric]:
    def part(index: int) -> _Figure:
        return lambda a: None if (found := estimate(a)) is None else found[index]

    for index, (suffix, which) in enumerate((("", ""), ("_low", ", lower"), ("_high", ", upper"))):
        words = f"{text}{which and which + ' limit'}"
        yield gauge(name + suffix, words, TARGET_LABELS, _each(targets, part(index)))


def _effective_k(counts: Counts) -> float | None:
    if counts.drafts <= 0.0 or counts.uncounted_draft_tokens > 0.0:
        return None
    return counts.draft_tokens / counts.drafts


def _counted(counts: Counts, value: float) -> float | None:
    """``value`` if drafts, their tokens and the accepted ones are all known, for quotients."""
    known = counts.unsized_drafts <= 0.0 and counts.uncounted_draft_tokens <= 0.0
    return value if known else None


def _positions(targets: Sequence[TargetView]) -> Metric:
    return gauge(
        "position_acceptance_rate",
        "Share of all drafts in which the token at this position was accepted",
        (*TARGET_LABELS, "position"),
        (
            ((*_key(view), str(found.position)), found.rate)
            for view, assessment in _assessed(targets)
            for found in assessment.positions[:NUMBERED]
        ),
    )


def _engines(targets: Sequence[TargetView]) -> Iterator[Metric]:
    labels = (*TARGET_LABELS, "engine")
    numbers = {str(number) for number in range(NUMBERED)}
    engines = [
        ((*_key(view), engine.label), engine)
        for view, assessment in _assessed(targets)
        for engine in assessment.engines
        if engine.label in numbers
    ]
    yield gauge(
        "engine_acceptance_length",
        "Tokens per draft of one of several engines",
        labels,
        ((key, e.acceptance_length and e.acceptance_length.value) for key, e in engines),
    )
    yield gauge(
        "engine_verdict_severity",
        "The verdict on one of several engines, as a number",
        labels,
        ((key, SEVERITY_CODES[engine.verdict]) for key, engine in engines),
    )


def _baselines(targets: Sequence[TargetView]) -> Metric:
    used = (
        ((*_key(view), baseline.name), float(baseline.matches))
        for view, assessment in _assessed(targets)
        if (baseline := assessment.baseline) is not None
    )
    text = "1 for the baseline it is compared with; 0 if that is of another kind of server"
    return gauge("baseline_matches", text, (*TARGET_LABELS, "baseline"), used)


def _windows(targets: Sequence[TargetView]) -> Iterator[Metric]:
    labels = (*TARGET_LABELS, "window")
    assessed = [
        ((*_key(view), f"{seconds:g}s"), assessment)
        for view in targets
        for seconds, assessment in view.windows().items()
    ]
    for name, text, estimate in _ESTIMATES:
        found = ((key, estimate(assessment)) for key, assessment in assessed)
        values = ((key, None if value is None else value.value) for key, value in found)
        yield gauge(f"window_{name}", f"{text}, by window", labels, values)
