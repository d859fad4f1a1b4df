"""Is speculation paying? The fleet at a glance, for whoever is woken at night."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from monitor.grafana import look
from monitor.grafana.board import (
    PAYING,
    SERVICE,
    Panel,
    board,
    choice,
    happened,
    marked,
    metrics_source,
    row,
)
from monitor.grafana.marks import ROLLBACK, TAG
from monitor.grafana.panels import dashed, lines, link, tiles, timeline
from monitor.grafana.queries import Now, Range, Rows
from monitor.grafana.tables import Column, rows

S = 'service=~"$service"'
T = "service, target"
NAME = "{{service}}"
RATE = "[$__rate_interval]"

_TO_SERVICE = link("Open this service", SERVICE, "service=${__field.labels.service}")
_TO_ROW = link("Open this service", SERVICE, "service=${__data.fields.service}")
_QUIET = "No data: nothing was decoded, or the monitor is not scraped"


def build() -> dashboard.Dashboard:
    """The dashboard."""
    made = board(
        PAYING,
        "Is speculation paying?",
        """Whether speculative decoding makes each service faster right now, against its stored
        baseline at the same load; why not; and since when. From the monitor's own metrics.""",
    )
    for variable in (
        metrics_source(),
        choice("service", "Service", "label_values(monitor_target_info, service)"),
    ):
        made.with_variable(variable)
    for annotation in marks():
        made.annotation(annotation)
    for panel in (*_answer(), *_why()):
        made.with_panel(panel)
    return made.with_row(row(90, "Alerts, rollbacks and restarts", _events()))


def marks() -> tuple[dashboard.AnnotationQuery, ...]:
    """Alerts that fired, and what rollbacks wrote into Grafana."""
    return (
        happened(
            "Alerts",
            f"max by (service, target, rule) (monitor_alert_firing{{{S}}}) == 1",
            "{{rule}}",
            "{{service}} {{target}}",
            "red",
        ),
        happened(
            "Traffic on the plain servers",
            f"max by (service) (monitor_rollback_baseline_share{{{S}}}) > 0",
            "rolled back",
            "{{service}}",
            "purple",
        ),
        marked("Rollbacks", (TAG, ROLLBACK), "purple"),
    )


def _answer() -> tuple[Panel, ...]:
    return (
        tiles(
            1,
            "Does it pay now?",
            """The worst verdict on the speculative side of each service, the worst service first
            (monitor_service_verdict_severity). Green: faster than without speculation, proven.
            Yellow: neither. Orange and red: it costs, or is about to. Blue: nobody can say, there
            is no baseline. Grey: no traffic. Click a tile for the service.""",
            [Now(f"sort_desc(max by (service) (monitor_service_verdict_severity{{{S}}}))", NAME)],
            empty="No verdict: the monitor is not scraped, or watches no such service",
            size=(12, 5),
            mapping=look.verdict_codes(),
            named=True,
            links=[_TO_SERVICE],
        ),
        tiles(
            2,
            "Alerts firing",
            "Alerts of the monitor that fire now (monitor_alert_firing).",
            [Now(f"count(monitor_alert_firing{{{S}}} == 1) or 0 * count(monitor_build_info)")],
            empty="The monitor is not scraped",
            size=(3, 5),
            steps=look.NONE_IS_GOOD,
        ),
        tiles(
            3,
            "Slowest speedup",
            """The lowest speedup of a target that can be compared now (monitor_speedup). Below
            one, plain decoding would be faster at this load.""",
            [Now(f"min(monitor_speedup{{{S}}})")],
            unit="suffix:x",
            decimals=2,
            empty="Nothing is compared now",
            size=(3, 5),
            steps=look.SPEEDUP,
        ),
        tiles(
            4,
            "Oldest page",
            """Age of the oldest figure on this dashboard: time since the last metrics page that a
            target gave (monitor_scrape_age_seconds). A target is down without a page for two and
            a half intervals.""",
            [Now(f"max(monitor_scrape_age_seconds{{{S}}})")],
            unit="s",
            empty="The monitor is not scraped",
            size=(3, 5),
            steps=look.AGE,
        ),
        tiles(
            14,
            "Rolled back",
            """Services whose traffic, or a part of it, goes to the plain servers
            (monitor_rollback_baseline_share).""",
            [
                Now(
                    f"count(max by (service) (monitor_rollback_baseline_share{{{S}}}) > 0)"
                    " or 0 * count(monitor_build_info)"
                )
            ],
            empty="The monitor is not scraped",
            size=(3, 5),
            steps=look.steps(look.GREEN, (1.0, look.PURPLE)),
        ),
        rows(
            5,
            "Targets, worst first",
            """What is decided about each target, why and since when, and the figures behind it.
            The speedup is the decode speed against the baseline at the same load, with the limits
            of its interval; it pays from the required acceptance length on. An empty cell means
            that this cannot be known now.""",
            [
                Rows(f"max by ({T}, cause, action) (monitor_decision_info{{{S}}})"),
                Rows(f"max by ({T}) (monitor_verdict_severity{{{S}}})"),
                Rows(f"1000 * max by ({T}) (monitor_verdict_since_timestamp_seconds{{{S}}})"),
                Rows(f"max by ({T}) (monitor_speedup{{{S}}})"),
                Rows(f"max by ({T}) (monitor_speedup_low{{{S}}})"),
                Rows(f"max by ({T}) (monitor_speedup_high{{{S}}})"),
                Rows(f"max by ({T}) (monitor_acceptance_length{{{S}}})"),
                Rows(f"max by ({T}) (monitor_break_even_acceptance_length{{{S}}})"),
                Rows(f"max by ({T}) (monitor_running_requests{{{S}}})"),
                Rows(f"max by ({T}) (monitor_evidence_drafts{{{S}}})"),
                Rows(f"max by ({T}) (monitor_scrape_age_seconds{{{S}}})"),
            ],
            [
                Column("service", "service", links=(_TO_ROW,)),
                Column("target", "target"),
                Column("Value #B", "verdict", mapping=look.verdict_codes(), width=130),
                Column("cause", "cause", mapping=look.CAUSES),
                Column("action", "do", mapping=look.ACTIONS),
                Column("Value #C", "since", unit="dateTimeFromNow", width=120),
                Column("Value #D", "speedup", "suffix:x", 2, 90, steps=look.SPEEDUP),
                Column("Value #E", "from", "suffix:x", 2, 80),
                Column("Value #F", "to", "suffix:x", 2, 80),
                Column("Value #G", "acceptance length", decimals=2),
                Column("Value #H", "required", decimals=2, width=90),
                Column("Value #I", "running", decimals=1, width=90),
                Column("Value #J", "drafts", unit="short", width=90),
                Column("Value #K", "page age", unit="s", width=95, steps=look.AGE),
            ],
            empty="No verdict: the monitor is not scraped, or watches no such service",
            size=(24, 9),
            sort=("verdict", True),
        ),
        timeline(
            6,
            "Verdict over time",
            """The worst verdict on the speculative side of each service
            (monitor_service_verdict_severity). A hole: the monitor did not run or was not
            scraped.""",
            [Range(f"max by (service) (monitor_service_verdict_severity{{{S}}})", NAME)],
            empty="No verdict in this time",
            mapping=look.verdict_codes(),
            size=(24, 6),
            links=[_TO_SERVICE],
        ),
    )


def _why() -> tuple[Panel, ...]:
    compared = f"sum by (service) (rate(monitor_compared_decode_seconds_total{{{S}}}{RATE}))"
    baseline = f"sum by (service) (rate(monitor_baseline_decode_seconds_total{{{S}}}{RATE}))"
    accepted = f"sum by (service) (rate(monitor_accepted_tokens_total{{{S}}}{RATE}))"
    drafts = f"sum by (service) (rate(monitor_drafts_total{{{S}}}{RATE}))"
    drafted = f"sum by (service) (rate(monitor_draft_tokens_total{{{S}}}{RATE}))"
    speedup = lines(
        7,
        "Speedup by service (dashed: its slowest target)",
        """Time that the baseline would have needed for the same tokens at the same load, divided
        by the time that was needed, summed over all targets. Dashed: the lowest speedup of a
        target (monitor_speedup). Below one plain decoding would be faster: red is a loss, yellow
        neither, green a gain. Only loads that the baseline covers count. The table above has the
        intervals, and so has the dashboard of the service, over time.""",
        [
            Range(f"{baseline} / ({compared} > 0)", NAME),
            Range(f"min by (service) (monitor_speedup{{{S}}})", f"{NAME} slowest"),
        ],
        unit="suffix:x",
        decimals=2,
        empty="No data: nothing was decoded, or no baseline covers the load",
        low=0.5,
        high=1.5,
        steps=look.SPEEDUP,
        area=True,
        links=[_TO_SERVICE],
    )
    length = lines(
        8,
        "Acceptance length (dashed: required to pay)",
        """Tokens per draft, bonus token included, over all targets of a service: one plus
        accepted tokens / drafts. Dashed: the length from which speculation pays at this load, mean
        of the targets (monitor_break_even_acceptance_length). Below its dashed line a service
        loses.""",
        [
            Range(f"1 + {accepted} / ({drafts} > 0)", NAME),
            Range(
                f"avg by (service) (monitor_break_even_acceptance_length{{{S}}})",
                f"{NAME} required",
            ),
        ],
        unit="none",
        decimals=2,
        empty=_QUIET,
        low=1.0,
        steps=look.DEAD_LINE,
        links=[_TO_SERVICE],
    )
    rate = lines(
        9,
        "Acceptance rate (dashed: threshold)",
        """Accepted draft tokens / draft tokens, over all targets of a service. Dashed: the
        threshold in force (monitor_acceptance_threshold). Below it a service without a proven
        gain is degraded.""",
        [
            Range(f"{accepted} / ({drafted} > 0)", NAME),
            Range(f"min by (service) (monitor_acceptance_threshold{{{S}}})", f"{NAME} threshold"),
        ],
        unit="percentunit",
        empty=_QUIET,
        size=(8, 8),
        high=1.0,
        links=[_TO_SERVICE],
    )
    load = lines(
        10,
        "Running requests (dashed: waiting)",
        """Mean number of requests, summed over the targets of a service
        (monitor_running_requests, monitor_waiting_requests). Speculation that pays at low load
        may cost at high load: compare with the speedup above.""",
        [
            Range(f"sum by (service) (max by ({T}) (monitor_running_requests{{{S}}}))", NAME),
            Range(
                f"sum by (service) (max by ({T}) (monitor_waiting_requests{{{S}}}))",
                f"{NAME} waiting",
            ),
        ],
        unit="none",
        empty="No data: no page tells the load, or the monitor is not scraped",
        size=(8, 8),
        links=[_TO_SERVICE],
    )
    tokens = lines(
        11,
        "Output tokens per second",
        """Tokens that came out, summed over the targets of a service
        (monitor_output_tokens_total). Below saturation this is what users ask for, not how fast
        the servers are.""",
        [
            Range(
                f"sum by (service) (max by ({T})"
                f" (rate(monitor_output_tokens_total{{{S}}}{RATE})))",
                NAME,
            )
        ],
        unit="suffix:tok/s",
        empty="No data: the monitor is not scraped",
        size=(8, 8),
        links=[_TO_SERVICE],
    )
    return (
        dashed(speedup, "slowest"),
        dashed(length, "required"),
        dashed(rate, "threshold"),
        dashed(load, "waiting"),
        tokens,
    )


def _events() -> tuple[Panel, ...]:
    return (
        rows(
            12,
            "Alerts that fire",
            "Alerts of the monitor that fire now (monitor_alert_firing), with their runbooks' id.",
            [Rows(f"max by ({T}, severity, rule) (monitor_alert_firing{{{S}}}) == 1")],
            [
                Column("severity", "severity", width=110),
                Column("rule", "rule"),
                Column("service", "service", links=(_TO_ROW,)),
                Column("target", "target"),
            ],
            empty="No alert fires",
            size=(12, 8),
            sort=("severity", False),
        ),
        rows(
            15,
            "Rollbacks",
            """Where the rollback of each service stands, how far the monitor may go, the share of
            the traffic on the plain servers, and whether the windows ask for a rollback now
            (monitor_rollback_phase, _mode, _baseline_share, _wanted). 'monitor rollback show'
            has the plan and the reason.""",
            [
                Rows(f"max by (service, phase) (monitor_rollback_phase{{{S}}}) == 1"),
                Rows(f"max by (service, mode) (monitor_rollback_mode{{{S}}}) == 1"),
                Rows(f"max by (service) (monitor_rollback_baseline_share{{{S}}})"),
                Rows(f"max by (service) (monitor_rollback_wanted{{{S}}})"),
            ],
            [
                Column("service", "service", links=(_TO_ROW,)),
                Column("phase", "stands at", mapping=look.PHASES, width=110),
                Column("mode", "mode", width=90),
                Column("Value #C", "on plain servers", "percentunit", 0),
                Column("Value #D", "asked for", mapping=look.ASKED),
            ],
            empty="No service has a rollback configured",
            size=(12, 8),
            sort=("asked for", True),
        ),
        lines(
            16,
            "Traffic on the plain servers",
            "Share of the traffic by the plan (monitor_rollback_baseline_share).",
            [Range(f"max by (service) (monitor_rollback_baseline_share{{{S}}})", NAME)],
            unit="percentunit",
            empty="No service has a rollback configured",
            size=(12, 8),
            high=1.0,
        ),
        lines(
            13,
            "Server restarts",
            """Times the servers of a service began to count anew, per hour
            (monitor_server_restarts_total).""",
            [
                Range(
                    f"sum by (service) (max by ({T})"
                    f" (increase(monitor_server_restarts_total{{{S}}}[1h])))",
                    NAME,
                )
            ],
            unit="none",
            empty="No data: the monitor is not scraped",
            size=(12, 8),
            decimals=0,
        ),
    )
