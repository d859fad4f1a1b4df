"""What panels ask: PromQL of the metrics datasource, SQL of the PostgreSQL datasource."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any, Literal

from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.runtime import UnknownDataquery
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

METRICS = DataSourceRef("prometheus", "${datasource}")
DATABASE = DataSourceRef("grafana-postgresql-datasource", "${database}")
GRAFANA = DataSourceRef("grafana", "-- Grafana --")
"""Annotations that Grafana keeps itself; it has this name in every Grafana."""


@dataclass(frozen=True, slots=True)
class Range:
    """A PromQL expression over the time of the dashboard."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Now:
    """A PromQL expression at the end of that time: it has no value where there is none now."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """Like ``Now``, with a column for each label."""

    expr: str


@dataclass(frozen=True, slots=True)
class Sql:
    """A query of the history."""

    text: str
    shape: Literal["table", "time_series"] = "table"


Query = Range | Now | Rows | Sql


def targets(queries: Sequence[Query]) -> list[Builder[Dataquery]]:
    """The queries of one panel, A, B, C and so on."""
    return [_target(query, ref) for query, ref in zip(queries, ascii_uppercase, strict=False)]


def source(queries: Sequence[Query]) -> DataSourceRef:
    """The datasource of a panel; all its queries have the same."""
    return DATABASE if isinstance(queries[0], Sql) else METRICS


def _target(query: Query, ref: str) -> Builder[Dataquery]:
    if isinstance(query, Sql):
        return Raw(
            {
                "refId": ref,
                "datasource": DATABASE.to_json(),
                "editorMode": "code",
                "format": query.shape,
                "rawQuery": True,
                "rawSql": query.text.strip(),
            }
        )
    asked = prometheus.Dataquery().datasource(METRICS).ref_id(ref).expr(squeeze(query.expr))
    match query:
        case Rows():
            return asked.instant().format(PromQueryFormat.TABLE)
        case Now():
            return asked.instant().legend_format(query.legend)
        case Range():
            return asked.range().legend_format(query.legend)


def squeeze(expr: str) -> str:
    """One line, whatever the layout in the source."""
    return " ".join(expr.split())


class Raw(Builder[Dataquery]):
    """A query of a datasource that the SDK has no model of."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def build(self) -> Dataquery:
        """The query."""
        return UnknownDataquery(self._data)
