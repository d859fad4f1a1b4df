"""Views of the history for dashboards, and a role that may read nothing else (PostgreSQL).

PostgreSQL changes no column that a view shows: a later migration that must change one drops the
view before and creates it anew after, with its grant.
"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"

READER = "monitor_reader"

# Figures are sums; a ratio is a quotient of two of them over any rows. What is not rolled up yet
# is shown as well, so that what was just stored or backfilled is there at once.
FIGURES = (
    "seconds",
    "output_tokens",
    "requests",
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "unsized_drafts",
    "uncounted_draft_tokens",
    "decode_seconds",
    "decode_tokens",
    "decode_steps",
    "running_seconds",
    "waiting_seconds",
    "baseline_seconds",
    "compared_seconds",
)
_COLUMNS = ", ".join(f"f.{name}" for name in FIGURES)

TARGETS = """
CREATE VIEW v_targets AS
SELECT t.id AS target_id, s.name AS service, t.name AS target, t.role,
       to_timestamp(t.created_at) AS since, to_timestamp(t.retired_at) AS retired,
       to_timestamp(l.at) AS last_look
FROM targets t
JOIN services s ON s.id = t.service_id
LEFT JOIN target_states l ON l.target_id = t.id
"""

HISTORY = f"""
CREATE VIEW v_history AS
SELECT f.at, to_timestamp(f.at) AS time, f.step, t.service, t.target, t.role,
       l.label AS engine, {_COLUMNS}, f.positions, f.restarts
FROM (
    SELECT series_id, step, at, {", ".join(FIGURES)}, positions, target_resets AS restarts
    FROM rollups
    UNION ALL
    SELECT series_id, s.step, ceil("end" / s.step) * s.step, {", ".join(FIGURES)}, positions,
           0::float8
    FROM samples CROSS JOIN (VALUES (60), (600)) AS s (step)
    WHERE NOT rolled
) f
JOIN series l ON l.id = f.series_id
JOIN v_targets t ON t.target_id = l.target_id
"""

VERDICTS = """
CREATE VIEW v_verdicts AS
SELECT v.at, to_timestamp(v.at) AS time, to_timestamp(v.until) AS until,
       t.service, t.target, t.role, v.verdict, v.cause, v.action, v.sentence,
       CASE v.verdict
           WHEN 'off' THEN 0 WHEN 'idle' THEN 10 WHEN 'insufficient' THEN 20
           WHEN 'healthy' THEN 30 WHEN 'neutral' THEN 40 WHEN 'unproven' THEN 50
           WHEN 'not_drafting' THEN 60 WHEN 'unrecognised' THEN 70 WHEN 'down' THEN 80
           WHEN 'misreported' THEN 90 WHEN 'stalled' THEN 100 WHEN 'degraded' THEN 110
           WHEN 'harmful' THEN 120
       END AS severity
FROM (
    SELECT c.target_id, c.at, c.verdict, c.cause, c.action, c.sentence,
           coalesce(lead(c.at) OVER (PARTITION BY c.target_id ORDER BY c.at), s.at, c.at) AS until
    FROM verdicts c LEFT JOIN target_states s ON s.target_id = c.target_id
) v
JOIN v_targets t ON t.target_id = v.target_id
"""

ALERTS = """
CREATE VIEW v_alerts AS
SELECT id AS incident, started_at AS at, to_timestamp(started_at) AS time,
       to_timestamp(ended_at) AS ended, service, target, rule, severity, state, title, sentence
FROM incidents
"""

ROLLBACKS = """
CREATE VIEW v_rollbacks AS
SELECT at, to_timestamp(at) AS time, service, kind, mode, phase, plan, cure, share, who, sentence
FROM rollback_decisions
"""

BASELINES = """
CREATE VIEW v_baselines AS
SELECT a.at, to_timestamp(a.at) AS time, s.name AS service, b.name AS baseline, b.version,
       to_timestamp(b.created_at) AS stored, b.engine, b.engine_version, b.model, b.valid,
       b.reason, a.who,
       a.id = max(a.id) OVER (PARTITION BY a.service_id) AS active
FROM baseline_activations a
JOIN services s ON s.id = a.service_id
LEFT JOIN baselines b ON b.id = a.baseline_id
"""

EVENTS = """
CREATE VIEW v_events AS
SELECT e.at, to_timestamp(e.at) AS time, e.kind, t.service, t.target, e.text
FROM events e LEFT JOIN v_targets t ON t.target_id = e.target_id
"""

VIEWS = ("targets", "history", "verdicts", "alerts", "rollbacks", "baselines", "events")

# Roles belong to the whole server: another database may have made it, at this very moment, or
# this user may not. Then an administrator makes it (docs/database.md); nothing here depends on it.
# A month of ten-minute sums is read from the index alone, and not from among the rows of each
# minute, of which there are ten times as many.
INDEX = f"""
CREATE INDEX ix_rollups_at_tens ON rollups (at, series_id)
INCLUDE (step, {", ".join(FIGURES)}, target_resets) WHERE step = 600
"""

GRANTS = f"""
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{READER}') THEN
        CREATE ROLE {READER} NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN
        RAISE NOTICE 'this user may not create the role {READER}';
END $$;
DO $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO {READER}', current_schema());
    GRANT SELECT ON {", ".join(f"v_{name}" for name in VIEWS)} TO {READER};
EXCEPTION
    WHEN undefined_object OR insufficient_privilege THEN
        RAISE NOTICE 'the role {READER} was given no rights';
END $$;
"""


def upgrade() -> None:
    """Creates the views; SQLite, which no dashboard reads directly, goes without."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for view in (TARGETS, HISTORY, VERDICTS, ALERTS, ROLLBACKS, BASELINES, EVENTS, INDEX, GRANTS):
        op.execute(view)
