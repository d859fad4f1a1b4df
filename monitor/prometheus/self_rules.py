"""Alerts about the daemon itself, which it could not tell of."""

from __future__ import annotations

from monitor.alerting.model import Severity
from monitor.prometheus.rule_file import Alerting, Group

SELF_RULES = Group(
    "monitor",
    [
        Alerting(
            name=name,
            expr=expr,
            hold=hold,
            keep_firing=0.0,
            labels={"severity": severity.value},
            annotations={"summary": said, "description": todo, "runbook": "docs/operations.md"},
        )
        for name, expr, hold, severity, said, todo in (
            (
                "MonitorGone",
                "absent(monitor_loop_age_seconds)",
                300.0,
                Severity.CRITICAL,
                "No monitor of speculative decoding reports",
                "Nobody watches whether speculation pays: start the daemon, or see why Prometheus "
                "cannot scrape it.",
            ),
            (
                "MonitorLoopStuck",
                "monitor_loop_age_seconds > 60",
                60.0,
                Severity.CRITICAL,
                "The monitor has not looked at anything for {{ $value | humanizeDuration }}",
                "Restart the daemon; it goes on where it stopped.",
            ),
            (
                "MonitorRowsLost",
                "increase(monitor_store_rows_dropped_total[15m]) > 0",
                0.0,
                Severity.CRITICAL,
                "The monitor loses rows: the database does not take them",
                "Bring the database back; rows wait in memory until there is no more room.",
            ),
            (
                "MonitorStoreFailing",
                "monitor_store_queue_rows > 0 and monitor_store_write_age_seconds > 300",
                120.0,
                Severity.WARNING,
                "{{ $value }} rows of the monitor wait for the database",
                "See whether the database answers and whether its disk is full.",
            ),
            (
                "MonitorReloadFailed",
                "monitor_config_reload_success == 0",
                300.0,
                Severity.WARNING,
                "The last change of the monitor's configuration is not in force",
                "Run `monitor config check`: it names the line and the fix.",
            ),
            (
                "MonitorTickErrors",
                "sum by (service, target) (increase(monitor_tick_errors_total[15m])) > 0",
                0.0,
                Severity.WARNING,
                "The monitor fails on the page of {{ $labels.target }}",
                "A mistake of the monitor: its log has the details.",
            ),
        )
    ],
)
