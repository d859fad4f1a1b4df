"""What all dashboards have in common: names, variables, links and annotations."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard

from monitor.grafana.marks import TAG
from monitor.grafana.queries import DATABASE, GRAFANA, METRICS, Raw, squeeze

Panel = Builder[dashboard.Panel]

PAYING, SERVICE, ENGINES, HISTORY, MONITOR = (
    f"specdec-{name}" for name in ("paying", "service", "engines", "history", "monitor")
)
"""The uids: stable, for links and bookmarks."""


def board(uid: str, title: str, text: str, *, since: str = "now-6h") -> build.Dashboard:
    """An empty dashboard."""
    return (
        build.Dashboard(title)
        .uid(uid)
        .description(squeeze(text))
        .tags([TAG])
        .timezone("browser")
        .time(since, "now")
        .refresh("30s")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .editable()
        .link(
            build.DashboardLink("Speculative decoding")
            .type(dashboard.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .icon("external link")
            .include_vars(True)
            .keep_time(True)
        )
    )


def row(number: int, title: str, panels: Sequence[Panel]) -> build.Row:
    """A row that is folded up."""
    made = build.Row(title).id(number)
    for panel in panels:
        made.with_panel(panel)
    return made


# -- variables -----------------------------------------------------------------------------


def metrics_source() -> build.DatasourceVariable:
    """Which Prometheus."""
    return _source("datasource", "Prometheus", "prometheus")


def database_source() -> build.DatasourceVariable:
    """Which PostgreSQL, with the monitor's database behind it."""
    return _source("database", "PostgreSQL", str(DATABASE.type_val))


def _source(name: str, label: str, kind: str) -> build.DatasourceVariable:
    return (
        build.DatasourceVariable(name)
        .label(label)
        .type(kind)
        .current(dashboard.VariableOption(text="default", value="default", selected=False))
    )


def choice(name: str, label: str, query: str, *, many: bool = True) -> build.QueryVariable:
    """Values of a label; with ``many``, all of them unless some are chosen."""
    made = (
        build.QueryVariable(name)
        .label(label)
        .datasource(METRICS)
        .query({"query": query, "refId": name})
        .definition(query)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NATURAL_ASC)
    )
    # Grafana takes the first value instead of one that is not there.
    first = dashboard.VariableOption(text="", value="", selected=True)
    return _all(made) if many else made.current(first)


def database_choice(name: str, label: str, query: str) -> build.QueryVariable:
    """Values of a column of the history."""
    return _all(
        build.QueryVariable(name)
        .label(label)
        .datasource(DATABASE)
        .query(query)
        .definition(query)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NATURAL_ASC)
    )


def fixed_choice(name: str, label: str, values: Sequence[str]) -> build.CustomVariable:
    """One of a few values; the first one unless another is chosen."""
    options = [
        dashboard.VariableOption(text=value, value=value, selected=value == values[0])
        for value in values
    ]
    return (
        build.CustomVariable(name)
        .label(label)
        .values(",".join(values))
        .options(options)
        .current(options[0])
    )


def _all(made: build.QueryVariable) -> build.QueryVariable:
    everything = dashboard.VariableOption(text=["All"], value=["$__all"], selected=True)
    return made.multi(True).include_all(True).current(everything)


# -- annotations ---------------------------------------------------------------------------


def happened(name: str, expr: str, title: str, text: str, colour: str) -> build.AnnotationQuery:
    """A region for each stretch of time in which ``expr`` has a series."""
    return (
        build.AnnotationQuery()
        .name(name)
        .datasource(METRICS)
        .enable(True)
        .icon_color(colour)
        .expr(squeeze(expr))
        .step("60s")
        .title_format(title)
        .text_format(text)
        .tag_keys("service,target")
    )


def told(name: str, sql: str, colour: str) -> build.AnnotationQuery:
    """What the history tells: columns time, timeend, text and tags."""
    asked = {
        "refId": "Anno",
        "datasource": DATABASE.to_json(),
        "editorMode": "code",
        "format": "table",
        "rawQuery": True,
        "rawSql": squeeze(sql),
    }
    return (
        build.AnnotationQuery()
        .name(name)
        .datasource(DATABASE)
        .enable(True)
        .icon_color(colour)
        .target(Raw(asked))
    )


def marked(name: str, tags: Sequence[str], colour: str) -> build.AnnotationQuery:
    """What was written into Grafana's own annotations under all of ``tags``."""
    return (
        build.AnnotationQuery()
        .name(name)
        .datasource(GRAFANA)
        .enable(True)
        .icon_color(colour)
        .target(Raw({"type": "tags", "tags": [*tags], "matchAny": False, "limit": 100}))
    )
