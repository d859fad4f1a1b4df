"""The monitor itself: whether its word can be trusted right now."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from monitor.grafana import look
from monitor.grafana.board import MONITOR, Panel, board, choice, metrics_source
from monitor.grafana.panels import aside, dashed, lines, tiles
from monitor.grafana.queries import Now, Range, Rows
from monitor.grafana.tables import Column, rows

M = 'instance=~"$instance"'
NAME = "{{instance}}"
RATE = "[$__rate_interval]"
_GONE = "The monitor is not scraped"


def build() -> dashboard.Dashboard:
    """The dashboard."""
    made = board(
        MONITOR,
        "Speculation: the monitor itself",
        """Whether the monitor looks at its targets in time, stores what it sees and tells it, and
        what it needs for that. If something is red here, look at the other dashboards with
        care.""",
    )
    for variable in (
        metrics_source(),
        choice("instance", "Monitor", "label_values(monitor_build_info, instance)"),
    ):
        made.with_variable(variable)
    for panel in (*_answer(), *_rounds(), *_store(), *_told()):
        made.with_panel(panel)
    return made


def _answer() -> tuple[Panel, ...]:
    return (
        tiles(
            1,
            "Last round started",
            """Time since any round of looks was started (monitor_loop_age_seconds). Beyond two
            and a half intervals /livez fails: restart the monitor.""",
            [Now(f"max(monitor_loop_age_seconds{{{M}}})")],
            unit="s",
            empty=_GONE,
            size=(4, 4),
            steps=look.AGE,
        ),
        tiles(
            2,
            "Pages late",
            """Targets that gave no page for longer than two and a half intervals of 15 seconds
            (monitor_scrape_age_seconds).""",
            [
                Now(
                    f"count(max by (service, target) (monitor_scrape_age_seconds{{{M}}})"
                    f" > {look.LATE_SECONDS:g}) or 0 * count(monitor_build_info{{{M}}})"
                )
            ],
            empty=_GONE,
            size=(4, 4),
            steps=look.NONE_IS_GOOD,
        ),
        tiles(
            3,
            "Rows that wait",
            """Rows that wait for the database (monitor_store_queue_rows). From 20,000 on the
            oldest are dropped.""",
            [Now(f"sum(monitor_store_queue_rows{{{M}}})")],
            unit="short",
            empty=_GONE,
            size=(3, 4),
            steps=look.steps(look.GREEN, (1_000.0, look.YELLOW), (10_000.0, look.RED)),
        ),
        tiles(
            4,
            "Rows lost in an hour",
            "Rows that were dropped unwritten (monitor_store_rows_dropped_total).",
            [Now(f"sum(increase(monitor_store_rows_dropped_total{{{M}}}[1h]))")],
            unit="short",
            empty=_GONE,
            size=(3, 4),
            decimals=0,
            steps=look.NONE_IS_GOOD,
        ),
        tiles(
            5,
            "Configuration",
            """Whether the last reload succeeded (monitor_config_reload_success). After a failure
            the old configuration stays in force.""",
            [Now(f"min(monitor_config_reload_success{{{M}}})")],
            empty=_GONE,
            size=(4, 4),
            mapping=look.truth("loaded", "REFUSED"),
        ),
        tiles(
            6,
            "Leaders",
            """How many monitors hold the lease of their database (monitor_leading). One for each
            database; the others stand by.""",
            [Now(f"sum(monitor_leading{{{M}}})")],
            empty=_GONE,
            size=(3, 4),
            steps=look.steps(look.RED, (1.0, look.GREEN)),
        ),
        tiles(
            18,
            "Rollbacks",
            """Whether traffic may be moved (monitor_rollback_frozen). Frozen: so many services are
            hurt at once that the monitor suspects itself, and a person must look.""",
            [Now(f"max(monitor_rollback_frozen{{{M}}})")],
            empty=_GONE,
            size=(3, 4),
            mapping=look.FROZEN,
        ),
        rows(
            7,
            "Monitors",
            """Release and configuration of each monitor (monitor_build_info,
            monitor_config_info, monitor_config_reload_timestamp_seconds, monitor_lease_fence).
            Two that share a database should not differ.""",
            [
                Rows(f"max by (instance, version) (monitor_build_info{{{M}}})"),
                Rows(f"max by (instance, hash) (monitor_config_info{{{M}}})"),
                Rows(f"1000 * max by (instance) (monitor_config_reload_timestamp_seconds{{{M}}})"),
                Rows(f"max by (instance) (monitor_leading{{{M}}})"),
                Rows(f"max by (instance) (monitor_clock_lead_seconds{{{M}}})"),
                Rows(f"count by (instance) (monitor_target_info{{{M}}})"),
            ],
            [
                Column("instance", "monitor"),
                Column("version", "release"),
                Column("hash", "configuration"),
                Column("Value #C", "loaded", unit="dateTimeFromNow"),
                Column("Value #D", "lease", mapping=look.LEASE),
                Column("Value #E", "ahead of the clock", unit="s"),
                Column("Value #F", "targets", unit="short"),
            ],
            empty=_GONE,
            size=(24, 5),
        ),
    )


def _rounds() -> tuple[Panel, ...]:
    slots = ("missed", "skipped", "failed")
    return (
        lines(
            8,
            "Rounds left out",
            """Per hour: started too late to run, skipped as the last still ran, or not handed out
            (monitor_slots_missed_total, _skipped_total, _failed_total), and rounds of a target
            that was not done with the one before (monitor_rounds_late_total).""",
            [
                *(
                    Range(f"sum(increase(monitor_slots_{name}_total{{{M}}}[1h]))", name)
                    for name in slots
                ),
                Range(f"sum(increase(monitor_rounds_late_total{{{M}}}[1h]))", "late targets"),
                Range(f"sum(increase(monitor_scheduler_rebuilds_total{{{M}}}[1h]))", "rebuilds"),
            ],
            unit="none",
            decimals=0,
            empty=_GONE,
        ),
        lines(
            9,
            "Failed scrapes by kind",
            "Looks that gave no page, per minute (monitor_scrape_errors_total).",
            [
                Range(
                    f"60 * sum by (kind) (rate(monitor_scrape_errors_total{{{M}}}{RATE}))",
                    "{{kind}}",
                )
            ],
            unit="none",
            decimals=1,
            empty="No scrape ever failed",
        ),
        lines(
            10,
            "How long a fetch takes",
            """The slowest and the mean of the last fetch of each target
            (monitor_scrape_duration_seconds).""",
            [
                Range(
                    f"max by (service) (monitor_scrape_duration_seconds{{{M}}})",
                    "{{service}} slowest",
                ),
                Range(
                    f"avg by (service) (monitor_scrape_duration_seconds{{{M}}})",
                    "{{service}} mean",
                ),
            ],
            unit="s",
            empty=_GONE,
            size=(8, 8),
        ),
        lines(
            11,
            "Age of the last page",
            "The oldest of each service (monitor_scrape_age_seconds).",
            [Range(f"max by (service) (monitor_scrape_age_seconds{{{M}}})", "{{service}}")],
            unit="s",
            empty=_GONE,
            size=(8, 8),
            steps=look.AGE,
        ),
        lines(
            12,
            "Rounds and mistakes",
            """Looks per second (monitor_rounds_total), and rounds that failed on a mistake of the
            monitor (monitor_tick_errors_total): please report those.""",
            [
                Range(f"sum by (instance) (rate(monitor_rounds_total{{{M}}}{RATE}))", NAME),
                Range(
                    f"sum by (instance) (rate(monitor_tick_errors_total{{{M}}}{RATE}))",
                    f"{NAME} mistakes",
                ),
            ],
            unit="none",
            decimals=1,
            empty=_GONE,
            size=(8, 8),
        ),
    )


def _store() -> tuple[Panel, ...]:
    written = lines(
        13,
        "Rows written per second (dashed: waiting)",
        "monitor_store_rows_written_total; dashed: monitor_store_queue_rows.",
        [
            Range(
                f"sum by (instance) (rate(monitor_store_rows_written_total{{{M}}}{RATE}))", NAME
            ),
            Range(f"sum by (instance) (monitor_store_queue_rows{{{M}}})", f"{NAME} waiting"),
        ],
        unit="none",
        decimals=1,
        empty=_GONE,
        size=(8, 8),
    )
    return (
        dashed(written, "waiting"),
        aside(
            lines(
                14,
                "Time since the last write (dashed: failed writes)",
                """Time since the database took anything (monitor_store_write_age_seconds), and
                writes it refused in an hour (monitor_store_write_errors_total).""",
                [
                    Range(f"max by (instance) (monitor_store_write_age_seconds{{{M}}})", NAME),
                    Range(
                        "sum by (instance)"
                        f" (increase(monitor_store_write_errors_total{{{M}}}[1h]))",
                        f"{NAME} failed writes",
                    ),
                ],
                unit="s",
                empty=_GONE,
                size=(8, 8),
            ),
            "failed writes",
            "none",
        ),
        dashed(
            lines(
                15,
                "Size of the database (dashed: used)",
                """In all, and dashed without the room that deleted rows have left
                (monitor_database_bytes).""",
                [
                    Range(
                        f'max by (instance) (monitor_database_bytes{{kind="total", {M}}})', NAME
                    ),
                    Range(
                        f'max by (instance) (monitor_database_bytes{{kind="used", {M}}})',
                        f"{NAME} used",
                    ),
                ],
                unit="bytes",
                empty="Not measured yet",
                size=(8, 8),
            ),
            "used",
        ),
    )


def _told() -> tuple[Panel, ...]:
    sent = lines(
        16,
        "Messages sent per minute (dashed: repeated)",
        """What each receiver has taken (monitor_notifications_sent_total), and attempts that
        failed and are repeated (monitor_notifications_retried_total).""",
        [
            Range(_per_minute("sent"), "{{receiver}}"),
            Range(_per_minute("retried"), "{{receiver}} repeated"),
        ],
        unit="none",
        decimals=1,
        empty="No receiver is configured",
        size=(12, 7),
    )
    return (
        dashed(sent, "repeated"),
        rows(
            17,
            "Receivers",
            """Messages that wait, for how long the oldest has, and those that were given up since
            the monitor started (monitor_notifications_waiting, _oldest_seconds, _dead_total):
            'monitor alerts deadletter list' shows them.""",
            [
                Rows(f"max by (receiver) (monitor_notifications_waiting{{{M}}})"),
                Rows(f"max by (receiver) (monitor_notifications_oldest_seconds{{{M}}})"),
                Rows(f"sum by (receiver) (monitor_notifications_dead_total{{{M}}})"),
            ],
            [
                Column("receiver", "receiver"),
                Column("Value #A", "waiting", unit="short"),
                Column("Value #B", "oldest", unit="s", steps=look.AGE),
                Column("Value #C", "given up", unit="short", steps=look.NONE_IS_GOOD),
            ],
            empty="No receiver is configured",
            size=(12, 7),
        ),
    )


def _per_minute(what: str) -> str:
    return f"60 * sum by (receiver) (rate(monitor_notifications_{what}_total{{{M}}}{RATE}))"
