"""History and decisions, from the PostgreSQL store: also what was backfilled is there at once."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from monitor.grafana import look
from monitor.grafana.board import (
    HISTORY,
    Panel,
    board,
    database_choice,
    database_source,
    row,
    told,
)
from monitor.grafana.panels import bars, dashed, lines, tiles, timeline
from monitor.grafana.queries import Sql
from monitor.grafana.tables import Column, rows

CHOSEN = "service IN (${service:sqlstring}) AND target IN (${target:sqlstring})"
SERVICES = "service IN (${service:sqlstring})"
# Some alerts are about the monitor and no single service.
ABOUT = f"({SERVICES} OR service = '')"
SPAN = "$__unixEpochFilter(at)"
# Rows of ten minutes are enough, and a tenth as many, once a point of a graph is that long.
STEP = "step = CASE WHEN $__interval_ms >= 600000 THEN 600 ELSE 60 END"
WHERE = f"{SPAN} AND {STEP} AND {CHOSEN}"
GROUP = "$__unixEpochGroupAlias(at - step, $__interval)"
SEEN = "(max(at) - min(at) + max(step))"
"""Seconds that a group of rows covers."""

LENGTH = """CASE WHEN sum(uncounted_draft_tokens) = 0
    THEN 1 + sum(accepted_tokens) / nullif(sum(drafts), 0) END"""
RATE = """CASE WHEN sum(unsized_drafts) = 0
    THEN sum(accepted_tokens) / nullif(sum(draft_tokens), 0) END"""
SPEEDUP = "sum(baseline_seconds) / nullif(sum(compared_seconds), 0)"
TPOT = "sum(decode_seconds) / nullif(sum(decode_tokens), 0)"

_NOTHING = "Nothing is stored of this time"


def build() -> dashboard.Dashboard:
    """The dashboard."""
    made = board(
        HISTORY,
        "Speculation: history and decisions",
        """What the monitor has stored: figures as exact sums over any time, every change of a
        verdict with its sentence, alerts, rollbacks and baselines. Needs the PostgreSQL store and
        a datasource whose user has the role monitor_reader.""",
        since="now-7d",
    )
    for variable in (
        database_source(),
        database_choice("service", "Service", "SELECT DISTINCT service FROM v_targets ORDER BY 1"),
        database_choice(
            "target",
            "Target",
            f"SELECT target FROM v_targets WHERE {SERVICES} ORDER BY 1",
        ),
    ):
        made.with_variable(variable)
    for annotation in _marks():
        made.annotation(annotation)
    for panel in (*_answer(), *_figures(), *_decisions()):
        made.with_panel(panel)
    return made.with_row(row(90, "Baselines, events and restarts", _more()))


def _marks() -> tuple[dashboard.AnnotationQuery, ...]:
    return (
        told(
            "Alerts",
            f"""SELECT time, coalesce(ended, now()) AS timeend, title AS text,
                severity || ',' || rule AS tags
            FROM v_alerts WHERE {SPAN} AND {ABOUT}""",
            "red",
        ),
        told(
            "Rollbacks",
            f"""SELECT time, sentence AS text, kind || ',' || mode AS tags
            FROM v_rollbacks WHERE {SPAN} AND {SERVICES}""",
            "purple",
        ),
    )


def series(value: str, by: str = "service", where: str = WHERE) -> Sql:
    """A line for each service or target."""
    return Sql(
        f"SELECT {GROUP}, {by} AS metric, {value} AS value\n"
        f"FROM v_history WHERE {where}\nGROUP BY 1, 2 ORDER BY 1",
        "time_series",
    )


def _answer() -> tuple[Panel, ...]:
    return (
        tiles(
            1,
            "Speedup in this time",
            """Time the baseline would have needed for the same tokens at the same load, divided
            by the time that was needed, over all that is chosen.""",
            [Sql(f'SELECT {SPEEDUP} AS "speedup" FROM v_history WHERE {WHERE}')],
            unit="suffix:x",
            decimals=2,
            empty="Nothing was compared: no baseline covers the load",
            size=(4, 5),
            steps=look.SPEEDUP,
        ),
        tiles(
            2,
            "Decode time saved",
            """What the baseline would have needed on top, or less, summed over requests. Below
            zero: speculation has cost that much time.""",
            [
                Sql(
                    "SELECT sum(baseline_seconds) - sum(compared_seconds) AS saved"
                    f" FROM v_history WHERE {WHERE} HAVING sum(compared_seconds) > 0"
                )
            ],
            unit="s",
            decimals=1,
            empty="Nothing was compared",
            size=(4, 5),
            steps=look.steps(look.RED, (0.0, look.GREEN)),
        ),
        tiles(
            3,
            "Newest look",
            "Time since the last look at any target that is chosen, as far as it is stored.",
            [
                Sql(
                    "SELECT extract(epoch FROM now() - max(last_look)) AS age"
                    f" FROM v_targets WHERE {CHOSEN}"
                )
            ],
            unit="s",
            decimals=0,
            empty="No target was ever looked at",
            size=(4, 5),
            steps=look.AGE,
        ),
        bars(
            4,
            "Time by verdict",
            """How long each verdict held, summed over targets that speculate: share of the time of
            which one is known.""",
            [
                Sql(
                    f"""SELECT replace(verdict, '_', ' ') AS verdict,
    sum(held) / sum(sum(held)) OVER () AS share
FROM (
    SELECT verdict, extract(epoch FROM
        least(until, $__timeTo()) - greatest(time, $__timeFrom())) AS held
    FROM v_verdicts
    WHERE time < $__timeTo() AND until > $__timeFrom() AND {CHOSEN} AND role = 'speculative'
) v
GROUP BY 1 ORDER BY 2 DESC"""
                )
            ],
            unit="percentunit",
            empty=_NOTHING,
            size=(12, 5),
            high=1.0,
            each_row=True,
        ),
        timeline(
            5,
            "Verdict by target",
            "Each change of a verdict; it holds until the next one.",
            [
                Sql(
                    f"""SELECT greatest(time, $__timeFrom()) AS time, target AS metric,
    severity AS value
FROM v_verdicts
WHERE time <= $__timeTo() AND until >= $__timeFrom() AND {CHOSEN}
ORDER BY 1""",
                    "time_series",
                )
            ],
            empty=_NOTHING,
            mapping=look.verdict_codes(),
            size=(24, 7),
        ),
    )


def _figures() -> tuple[Panel, ...]:
    load = "running_seconds / nullif(seconds, 0)"
    compared = f"{WHERE} AND compared_seconds > 0"
    tpot = lines(
        8,
        "Time per output token (dashed: without speculation)",
        """Decode time / tokens by service. Dashed: what the baseline would have needed for them,
        where it covers the load.""",
        [
            series(TPOT),
            series(f"({TPOT}) * {SPEEDUP}", "service || ' without speculation'"),
        ],
        unit="s",
        empty=_NOTHING,
    )
    used = lines(
        9,
        "Running requests",
        "Mean number of running requests, summed over the targets of a service.",
        [series(f"sum(running_seconds) / {SEEN}")],
        unit="none",
        decimals=1,
        empty=_NOTHING,
        size=(12, 8),
    )
    return (
        lines(
            6,
            "Speedup by service",
            """Sums before quotients: the speedup over all targets and all time in a point. Red:
            slower than plain decoding.""",
            [series(SPEEDUP)],
            unit="suffix:x",
            decimals=2,
            empty="Nothing was compared: no baseline covers the load",
            low=0.5,
            high=1.5,
            steps=look.SPEEDUP,
            area=True,
        ),
        lines(
            7,
            "Acceptance length by service",
            "1 + accepted tokens / drafts, bonus token included.",
            [series(LENGTH)],
            unit="none",
            decimals=2,
            empty="No drafts are stored of this time",
            low=1.0,
            steps=look.DEAD_LINE,
        ),
        dashed(tpot, "without speculation"),
        used,
        bars(
            10,
            "Speedup by load",
            """By running requests, over all that is chosen. Where the bars turn red is the load
            from which speculation costs.""",
            [
                Sql(
                    f"""SELECT
    power(2, band)::int || ' to ' || power(2, band + 1)::int AS running,
    {SPEEDUP} AS speedup
FROM (
    SELECT *, floor(ln(greatest({load}, 1)) / ln(2.0::float8) + 1e-9) AS band
    FROM v_history WHERE {compared}
) h
GROUP BY band ORDER BY band"""
                )
            ],
            unit="suffix:x",
            decimals=2,
            empty="Nothing was compared in this time",
            size=(6, 8),
            steps=look.SPEEDUP,
            high=2.0,
            each_row=True,
        ),
        bars(
            11,
            "Speedup by hour of the day (UTC)",
            "Over all that is chosen: when speculation pays and when it does not.",
            [
                Sql(
                    f"""SELECT to_char(hour, 'FM00') || ':00' AS hour, {SPEEDUP} AS speedup
FROM (
    SELECT *, floor(((at - step)::bigint % 86400) / 3600) AS hour
    FROM v_history WHERE {compared}
) h
GROUP BY h.hour ORDER BY h.hour"""
                )
            ],
            unit="suffix:x",
            decimals=2,
            empty="Nothing was compared in this time",
            size=(6, 8),
            steps=look.SPEEDUP,
            high=2.0,
            each_row=True,
        ),
        rows(
            12,
            "Worst targets",
            "Targets with the lowest speedup over all this time.",
            [
                Sql(
                    f"""SELECT service, target, {SPEEDUP} AS speedup, {LENGTH} AS length,
    {RATE} AS rate, sum(running_seconds) / nullif(sum(seconds), 0) AS running,
    sum(output_tokens) AS tokens
FROM v_history WHERE {WHERE} AND role = 'speculative'
GROUP BY 1, 2 ORDER BY 3 NULLS LAST, 2 LIMIT 50"""
                )
            ],
            [
                Column("speedup", "speedup", "suffix:x", 2, 90, steps=look.SPEEDUP),
                Column("length", "length", decimals=2, width=80),
                Column("rate", "rate", "percentunit", 0, 70),
                Column("running", "running", decimals=1, width=80),
                Column("tokens", "tokens", unit="short", width=90),
            ],
            empty=_NOTHING,
            size=(12, 8),
        ),
    )


def _decisions() -> tuple[Panel, ...]:
    return (
        rows(
            13,
            "Decisions, newest first",
            """Every change of verdict, cause or action, with the sentence that gives the figures
            and the reason.""",
            [
                Sql(
                    f"""SELECT time, service, target, verdict, replace(cause, '_', ' ') AS cause,
    replace(action, '_', ' ') AS "do", sentence
FROM v_verdicts WHERE {SPAN} AND {CHOSEN}
ORDER BY at DESC LIMIT 300"""
                )
            ],
            [
                Column("time", "time", width=165),
                Column("service", "service", width=110),
                Column("target", "target", width=130),
                Column("verdict", "verdict", width=115, mapping=look.verdict_words()),
                Column("cause", "cause", width=150),
                Column("do", "do", width=115),
            ],
            empty="No verdict changed in this time",
            size=(24, 10),
        ),
        rows(
            14,
            "Alerts",
            "Incidents that began in this time: since when, until when, and what they said.",
            [
                Sql(
                    f"""SELECT time AS began, ended, severity, rule, title
FROM v_alerts WHERE {SPAN} AND {ABOUT} ORDER BY at DESC LIMIT 200"""
                )
            ],
            [
                Column("began", "began", width=150),
                Column("ended", "ended", width=150),
                Column("severity", "severity", width=80),
                Column("rule", "rule", width=150),
            ],
            empty="No alert fired in this time",
            size=(12, 9),
        ),
        rows(
            15,
            "Rollbacks",
            "What was decided about rollbacks, in which mode, by whom, and why.",
            [
                Sql(
                    f"""SELECT time, service, kind, mode, phase, share, who, sentence
FROM v_rollbacks WHERE {SPAN} AND {SERVICES} ORDER BY at DESC LIMIT 200"""
                )
            ],
            [
                Column("time", "time", width=165),
                Column("share", "share", "percentunit", 0, 80),
            ],
            empty="No rollback was decided on in this time",
            size=(12, 9),
        ),
    )


def _more() -> tuple[Panel, ...]:
    return (
        rows(
            16,
            "Baselines",
            "Which baseline was made the one of a service, when, and by whom.",
            [
                Sql(
                    f"""SELECT time, service, baseline, version, active, engine_version, model,
    who, coalesce(reason, '') AS "why it should not be trusted"
FROM v_baselines WHERE {SERVICES} ORDER BY at DESC LIMIT 100"""
                )
            ],
            [Column("time", "activated", width=165)],
            empty="No baseline was ever activated",
            size=(12, 8),
        ),
        rows(
            17,
            "Events",
            "Starts, reloads and the like, of the monitor and of targets; not verdicts.",
            [
                Sql(
                    f"SELECT time, kind, target, text FROM v_events WHERE {SPAN}"
                    " AND kind <> 'verdict'"
                    " ORDER BY at DESC LIMIT 200"
                )
            ],
            [Column("time", "time", width=165), Column("kind", "kind", width=110)],
            empty="No event in this time",
            size=(12, 8),
        ),
        lines(
            18,
            "Restarts of servers",
            "Times the servers of a service began to count anew.",
            [series("sum(restarts)")],
            unit="none",
            decimals=0,
            empty=_NOTHING,
            size=(24, 6),
        ),
    )
