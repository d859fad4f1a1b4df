"""Tables: the columns say where they come from, how they are named and how they look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common, table
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as looks
from grafana_foundation_sdk.models import dashboard

from monitor.grafana import look
from monitor.grafana.panels import dress, limits
from monitor.grafana.queries import Query, Rows


@dataclass(frozen=True, slots=True)
class Column:
    """A column: of a label by its name, of the value of query B by ``Value #B``."""

    source: str
    name: str
    unit: str | None = None
    decimals: int | None = None
    width: int | None = None
    mapping: dashboard.ValueMap | None = None
    steps: Sequence[dashboard.Threshold] | None = None
    """Colours the figures."""
    links: tuple[build.DashboardLink, ...] = ()

    @property
    def properties(self) -> list[dashboard.DynamicConfigValue]:
        """What differs from the other columns."""
        found: list[tuple[str, object]] = []
        if self.unit is not None:
            found.append(("unit", self.unit))
        if self.decimals is not None:
            found.append(("decimals", self.decimals))
        if self.width is not None:
            found.append(("custom.width", self.width))
        if self.mapping is not None:
            found.append(("mappings", [self.mapping]))
        if self.steps is not None:
            found.append(("thresholds", limits(self.steps).build()))
        if self.steps is not None or self._coloured:
            kind = "color-text" if self.steps is not None else "color-background"
            found.append(("custom.cellOptions", {"type": kind}))
        if self.links:
            found.append(("links", [link.build() for link in self.links]))
        return [dashboard.DynamicConfigValue(name, value) for name, value in found]

    @property
    def _coloured(self) -> bool:
        if self.mapping is None:
            return False
        return any(result.color for result in self.mapping.options.values())


def rows(
    number: int,
    title: str,
    text: str,
    queries: Sequence[Query],
    columns: Sequence[Column],
    *,
    empty: str,
    size: tuple[int, int] = (24, 8),
    sort: tuple[str, bool] | None = None,
) -> table.Panel:
    """A table of ``columns`` in this order, sorted by a column (name, descending)."""
    panel = dress(table.Panel(), number, title, text, queries, unit="none", empty=empty, size=size)
    panel = (
        panel.thresholds(limits(look.CALM))
        .cell_height(looks.TableCellHeight.SM)
        .show_header(True)
        .filterable(True)
    )
    if isinstance(queries[0], Rows):
        panel.with_transformation(dashboard.DataTransformerConfig("merge", None, None, None, {}))
        panel.with_transformation(_chosen(columns))
    for column in columns:
        if column.properties:
            panel.override_by_name(column.name, column.properties)
    if sort is not None:
        name, falling = sort
        panel.sort_by([common.TableSortByFieldState().display_name(name).desc(falling)])
    return panel


def _chosen(columns: Sequence[Column]) -> dashboard.DataTransformerConfig:
    """Only these columns, in this order, under these names."""
    return dashboard.DataTransformerConfig(
        id_val="organize",
        options={
            "includeByName": {column.source: True for column in columns},
            "indexByName": {column.source: index for index, column in enumerate(columns)},
            "renameByName": {column.source: column.name for column in columns},
        },
    )
