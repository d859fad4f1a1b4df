"""One service: each target, engine and draft position, and what the verdicts rest on."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from monitor.grafana import look
from monitor.grafana.board import (
    SERVICE,
    Panel,
    board,
    choice,
    database_source,
    metrics_source,
    row,
)
from monitor.grafana.boards.paying import marks
from monitor.grafana.panels import bars, dashed, lines, tiles, timeline
from monitor.grafana.queries import Now, Range, Rows, Sql
from monitor.grafana.tables import Column, rows

S = 'service=~"$service", target=~"$target"'
NAME = "{{target}}"
RATE = "[$__rate_interval]"
_BUCKET = "vllm:request_time_per_output_token_seconds_bucket"
_QUIET = "No data: nothing was decoded, or the monitor is not scraped"

LOADS = ((0, 2), (2, 4), (4, 8), (8, 16), (16, 32), (32, 64), (64, None))
"""Running requests: from, up to."""


def build() -> dashboard.Dashboard:
    """The dashboard."""
    made = board(
        SERVICE,
        "Speculation: one service",
        """The targets of one service: what is decided about each and why, whether it is faster
        than without speculation at its load, how good the drafts are by position, and on how much
        that rests. From the monitor's own metrics; percentiles from those of the engine.""",
    )
    for variable in (
        metrics_source(),
        database_source(),
        choice("service", "Service", "label_values(monitor_target_info, service)", many=False),
        choice(
            "target", "Target", 'label_values(monitor_target_info{service=~"$service"}, target)'
        ),
        choice(
            "model", "Model (percentiles)", "label_values(vllm:num_requests_running, model_name)"
        ),
    ):
        made.with_variable(variable)
    for annotation in marks():
        made.annotation(annotation)
    for panel in (*_decision(), *_paying(), *_drafts(), *_time()):
        made.with_panel(panel)
    return made.with_row(row(90, "Evidence", _evidence())).with_row(
        row(91, "In words (needs the PostgreSQL store)", _words())
    )


def each(metric: str) -> str:
    """A figure of each target; two monitors that watch the same one count once."""
    return f"max by (service, target) ({metric}{{{S}}})"


def _decision() -> tuple[Panel, ...]:
    return (
        rows(
            1,
            "Decided now",
            """Verdict, cause and the one thing to do, for each target, and since when
            (monitor_decision_info, monitor_verdict_since_timestamp_seconds). The sentence with
            all figures: 'monitor explain --target NAME', or the dashboard 'History and
            decisions'.""",
            [
                Rows(f"max by (service, target, cause, action) (monitor_decision_info{{{S}}})"),
                Rows(each("monitor_verdict_severity")),
                Rows(f"1000 * {each('monitor_verdict_since_timestamp_seconds')}"),
                Rows(each("monitor_speedup")),
            ],
            [
                Column("target", "target"),
                Column("Value #B", "verdict", mapping=look.verdict_codes(), width=130),
                Column("cause", "cause", mapping=look.CAUSES),
                Column("action", "do", mapping=look.ACTIONS),
                Column("Value #C", "since", unit="dateTimeFromNow"),
                Column("Value #D", "speedup", "suffix:x", 2, 90, steps=look.SPEEDUP),
            ],
            empty="No verdict: the monitor is not scraped, or does not watch this service",
            size=(12, 7),
            sort=("verdict", True),
        ),
        tiles(
            2,
            "Draft size: used now",
            """Draft tokens / drafts (monitor_effective_k).""",
            [Now(each("monitor_effective_k"), NAME)],
            empty="No drafts now",
            size=(4, 7),
            decimals=1,
            named=True,
        ),
        tiles(
            3,
            "Draft size: fastest",
            """The draft size that would be fastest at this load, by what the drafter's positions
            give and a step costs (monitor_best_draft_size). 0: plain decoding. Compare with the
            size that is used.""",
            [Now(each("monitor_best_draft_size"), NAME)],
            empty="Not known: no baseline, or too few drafts",
            size=(4, 7),
            decimals=0,
            named=True,
        ),
        tiles(
            4,
            "Age of the baseline",
            """Time since the baseline was measured that the speedup is relative to
            (monitor_baseline_measured_timestamp_seconds). Measure again after a new release of
            the engine, other hardware or another mix of prompts.""",
            [Now(f"time() - {each('monitor_baseline_measured_timestamp_seconds')}", NAME)],
            unit="s",
            empty="No baseline, or it is not known when it was measured",
            size=(4, 7),
            steps=look.steps(look.GREEN, (look.OLD_BASELINE, look.YELLOW)),
            named=True,
        ),
        timeline(
            5,
            "Verdict by target",
            """What was decided about each target (monitor_verdict_severity).""",
            [Range(each("monitor_verdict_severity"), NAME)],
            empty="No verdict in this time",
            mapping=look.verdict_codes(),
            size=(24, 5),
        ),
    )


def _paying() -> tuple[Panel, ...]:
    speedup = lines(
        6,
        "Speedup (dashed: limits of its interval)",
        """Decode speed relative to the baseline at the same load, and the limits of its interval
        (monitor_speedup, _low, _high). Red: slower than plain decoding. A target is harmful
        when even its upper limit is in the red.""",
        [
            Range(each("monitor_speedup"), NAME),
            Range(each("monitor_speedup_low"), f"{NAME} lower limit"),
            Range(each("monitor_speedup_high"), f"{NAME} upper limit"),
        ],
        unit="suffix:x",
        decimals=2,
        empty="No data: nothing was decoded, or no baseline covers the load",
        low=0.5,
        high=1.5,
        steps=look.SPEEDUP,
        area=True,
    )
    by_load = bars(
        7,
        "Speedup by load",
        """Over the time of the dashboard, by running requests: time the baseline would have
        needed / time that was needed (monitor_baseline_decode_seconds_total,
        monitor_compared_decode_seconds_total). Where the bars turn red is the load from which
        speculation costs.""",
        [Now(_speedup_at(low, high), _load_name(low, high)) for low, high in LOADS],
        unit="suffix:x",
        decimals=2,
        empty="Nothing was compared in this time",
        size=(6, 8),
        steps=look.SPEEDUP,
        high=2.0,
    )
    load = lines(
        8,
        "Running requests (dashed: waiting)",
        """Running requests of each target, mean of the window; dashed: waiting ones
        (monitor_running_requests, monitor_waiting_requests).""",
        [
            Range(each("monitor_running_requests"), NAME),
            Range(each("monitor_waiting_requests"), f"{NAME} waiting"),
        ],
        unit="none",
        empty="No data: no page tells the load, or the monitor is not scraped",
        size=(6, 8),
    )
    return dashed(speedup, "(lower|upper) limit"), by_load, dashed(load, "waiting")


def _speedup_at(low: int, high: int | None) -> str:
    """The quotient of sums over the minutes in which a target was this busy."""
    busy = f"{each('monitor_running_requests')} >= {low}"
    if high is not None:
        busy += f" < {high}"

    def spent(metric: str) -> str:
        rate = f"sum by (service, target) (rate({metric}{{{S}}}{RATE}))"
        return f"sum(sum_over_time(({rate} and ({busy}))[$__range:1m]))"

    compared = spent("monitor_compared_decode_seconds_total")
    return f"{spent('monitor_baseline_decode_seconds_total')} / ({compared} > 0)"


def _load_name(low: int, high: int | None) -> str:
    return f"{low} and more" if high is None else f"{low} to {high}"


def _drafts() -> tuple[Panel, ...]:
    length = lines(
        9,
        "Acceptance length (dashed: required to pay, a week before)",
        """Tokens per draft, bonus token included (monitor_acceptance_length). Dashed: from where
        speculation pays at this load (monitor_break_even_acceptance_length), and the length a
        week before.""",
        [
            Range(each("monitor_acceptance_length"), NAME),
            Range(each("monitor_break_even_acceptance_length"), f"{NAME} required"),
            Range(f"{_a_week_before('monitor_acceptance_length')}", f"{NAME} a week before"),
        ],
        unit="none",
        decimals=2,
        empty=_QUIET,
        low=1.0,
        steps=look.DEAD_LINE,
    )
    positions = lines(
        10,
        "Acceptance by draft position",
        """Share of all drafts in which the token at this position was accepted, mean of the
        targets (monitor_position_acceptance_rate). The lowest line is what the last position
        yields in tokens per draft: when it is near zero, the draft is too long.""",
        [
            Range(
                f"avg by (position) (monitor_position_acceptance_rate{{{S}}})",
                "position {{position}}",
            )
        ],
        unit="percentunit",
        empty="No drafts, or an engine that does not count by position",
        size=(6, 8),
        high=1.0,
    )
    last = bars(
        11,
        "Yield of the last position",
        """Tokens per draft that the last draft position adds: the lowest share of
        monitor_position_acceptance_rate. Its price is a longer step for every draft.""",
        [Now(f"min by (target) (monitor_position_acceptance_rate{{{S}}})", NAME)],
        unit="percentunit",
        empty="No drafts, or an engine that does not count by position",
        size=(6, 8),
        steps=look.steps(look.ORANGE, (0.1, look.BLUE)),
        high=1.0,
    )
    engines = lines(
        12,
        "Acceptance length by engine",
        """Of targets with several engines or data-parallel ranks, each one
        (monitor_engine_acceptance_length). One that differs from the others is sick.""",
        [
            Range(
                "max by (service, target, engine) (monitor_engine_acceptance_length{" + S + "})",
                f"{NAME} {{{{engine}}}}",
            )
        ],
        unit="none",
        decimals=2,
        empty="No target here has several engines",
        low=1.0,
        steps=look.DEAD_LINE,
    )
    return dashed(length, "required|a week before"), positions, last, engines


def _a_week_before(metric: str) -> str:
    return f"max by (service, target) ({metric}{{{S}}} offset 1w)"


def _time() -> tuple[Panel, ...]:
    tpot = lines(
        13,
        "Time per output token (dashed: without speculation)",
        """What users see after the first token (monitor_tpot_seconds). Dashed: what the baseline
        needs at the same load (time × speedup). Speculation pays while the dashed line is the
        higher one.""",
        [
            Range(each("monitor_tpot_seconds"), NAME),
            Range(
                f"{each('monitor_tpot_seconds')} * {each('monitor_speedup')}",
                f"{NAME} without speculation",
            ),
        ],
        unit="s",
        empty=_QUIET,
    )
    percentiles = lines(
        14,
        "Time per output token of requests (dashed: a week before)",
        f"""Percentiles over the requests that finished, by model, from vLLM's own metrics
        ({_BUCKET}; vLLM 0.11 and later); dashed: the 95th a week before. It needs a Prometheus
        that scrapes the servers, too.""",
        [
            *(
                Range(_percentile(share), f"{{{{model_name}}}} p{100 * share:.0f}")
                for share in (0.5, 0.95, 0.99)
            ),
            Range(_percentile(0.95, " offset 1w"), "{{model_name}} p95 a week before"),
        ],
        unit="s",
        empty="No request finished, or Prometheus does not scrape the servers themselves",
    )
    step = lines(
        15,
        "Time per step",
        """How long a decode step takes as a request sees it (monitor_step_seconds). It rises with
        the draft size: that is the price of speculation.""",
        [Range(each("monitor_step_seconds"), NAME)],
        unit="s",
        empty=_QUIET,
    )
    return (
        dashed(tpot, "without speculation"),
        dashed(percentiles, "a week before"),
        step,
    )


def _percentile(share: float, offset: str = "") -> str:
    rate = f'rate({_BUCKET}{{model_name=~"$model"}}{RATE}{offset})'
    # Without requests it is not a number, and nothing is shown.
    return f"histogram_quantile({share}, sum by (model_name, le) ({rate})) >= 0"


def _evidence() -> tuple[Panel, ...]:
    return (
        rows(
            16,
            "What the verdicts rest on",
            """Drafts, finished requests and seconds of the window that decided
            (monitor_evidence_drafts, _requests, _seconds), whether gauges are the evidence, which
            is weak (monitor_evidence_weak), and which baseline the speed is compared with.""",
            [
                Rows(each("monitor_evidence_drafts")),
                Rows(each("monitor_evidence_requests")),
                Rows(each("monitor_evidence_seconds")),
                Rows(each("monitor_evidence_weak")),
                Rows(f"max by (service, target, baseline) (monitor_baseline_matches{{{S}}})"),
                Rows(each("monitor_coverage")),
                Rows(each("monitor_scrape_age_seconds")),
            ],
            [
                Column("target", "target"),
                Column("Value #A", "drafts", unit="short"),
                Column("Value #B", "requests", unit="short"),
                Column("Value #C", "window", unit="s"),
                Column("Value #D", "evidence", mapping=look.EVIDENCE),
                Column("baseline", "baseline"),
                Column("Value #E", "same kind of server", mapping=look.truth("yes", "no")),
                Column("Value #F", "steps with a draft", "percentunit", 0),
                Column("Value #G", "page age", unit="s", steps=look.AGE),
            ],
            empty="No verdict: the monitor is not scraped",
            size=(24, 7),
        ),
        rows(
            17,
            "Figures by window",
            """The same figures over each configured window (monitor_window_acceptance_rate,
            _acceptance_length, monitor_window_speedup): short windows see a change first, long
            ones are surer.""",
            [
                Rows(_window("acceptance_length")),
                Rows(_window("acceptance_rate")),
                Rows(_window("speedup")),
            ],
            [
                Column("target", "target"),
                Column("window", "window", mapping=look.WINDOWS),
                Column("Value #A", "acceptance length", decimals=2),
                Column("Value #B", "acceptance rate", "percentunit", 1),
                Column("Value #C", "speedup", "suffix:x", 2, steps=look.SPEEDUP),
            ],
            empty="No figures: nothing was decoded in any window",
            size=(12, 8),
        ),
        lines(
            18,
            "Restarts of the servers",
            "Times a server began to count anew, per hour (monitor_server_restarts_total).",
            [Range(f"max by (target) (increase(monitor_server_restarts_total{{{S}}}[1h]))", NAME)],
            unit="none",
            decimals=0,
            empty="No data: the monitor is not scraped",
            size=(12, 8),
        ),
    )


def _words() -> tuple[Panel, ...]:
    return (
        rows(
            19,
            "The last decisions, in words",
            """The sentence of each decision, newest first, with all figures and the reason. From
            the monitor's PostgreSQL store: a label of a metric must not carry it.""",
            [
                Sql(
                    """SELECT time, target, verdict, sentence FROM v_verdicts
WHERE service IN (${service:sqlstring}) AND target IN (${target:sqlstring})
ORDER BY at DESC LIMIT 20"""
                )
            ],
            [
                Column("time", "time", width=165),
                Column("target", "target", width=130),
                Column("verdict", "verdict", width=115, mapping=look.verdict_words()),
            ],
            empty="No decision is stored of this service",
            size=(24, 8),
        ),
    )


def _window(figure: str) -> str:
    return f"max by (service, target, window) (monitor_window_{figure}{{{S}}})"
