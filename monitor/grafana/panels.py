"""Panels with our habits: an id, a description, a unit and words for no data in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, TypeVar

from grafana_foundation_sdk.builders import bargauge, common, stat, statetimeline, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import text as text_panel
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common as looks
from grafana_foundation_sdk.models import dashboard
from grafana_foundation_sdk.models.text import TextMode

from monitor.grafana import look
from monitor.grafana.queries import Query, source, squeeze, targets


class _Panel(Protocol):
    """The part that the builders of all panels have."""

    def id(self, id_val: int, /) -> Self: ...
    def title(self, title: str, /) -> Self: ...
    def description(self, description: str, /) -> Self: ...
    def datasource(self, datasource: looks.DataSourceRef, /) -> Self: ...
    def targets(self, targets: list[Builder[Dataquery]], /) -> Self: ...
    def unit(self, unit: str, /) -> Self: ...
    def no_value(self, no_value: str, /) -> Self: ...
    def height(self, h: int, /) -> Self: ...
    def span(self, w: int, /) -> Self: ...


_P = TypeVar("_P", bound=_Panel)


def dress(
    panel: _P,
    number: int,
    title: str,
    text: str,
    queries: Sequence[Query],
    *,
    unit: str,
    empty: str,
    size: tuple[int, int],
) -> _P:
    """What every panel has. ``size`` is width, of 24, and height; ``empty`` stands for no data."""
    width, height = size
    return (
        panel.id(number)
        .title(title)
        .description(squeeze(text))
        .datasource(source(queries))
        .targets(targets(queries))
        .unit(unit)
        .no_value(empty)
        .span(width)
        .height(height)
    )


def limits(steps: Sequence[dashboard.Threshold]) -> build.ThresholdsConfig:
    """Colours by absolute limits."""
    return build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps([*steps])


def link(title: str, uid: str, *variables: str) -> build.DashboardLink:
    """Leads to another dashboard with the time, the datasource and ``name=value`` variables."""
    parts = ("${__url_time_range}", "${datasource:queryparam}", *(f"var-{v}" for v in variables))
    return build.DashboardLink(title).url(f"/d/{uid}?" + "&".join(parts))


def tiles(
    number: int,
    title: str,
    text: str,
    queries: Sequence[Query],
    *,
    unit: str = "none",
    empty: str,
    size: tuple[int, int] = (4, 4),
    steps: Sequence[dashboard.Threshold] = look.CALM,
    mapping: dashboard.ValueMap | None = None,
    named: bool = False,
    decimals: int | None = None,
    links: Sequence[build.DashboardLink] = (),
) -> stat.Panel:
    """Figures as of now, coloured by limit or by what they mean."""
    panel = dress(stat.Panel(), number, title, text, queries, unit=unit, empty=empty, size=size)
    solid = looks.BigValueColorMode.BACKGROUND_SOLID
    quiet = looks.BigValueColorMode.VALUE
    return (
        _decimals(panel, decimals)
        .thresholds(limits(steps))
        .color_scheme(build.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS))
        .mappings([mapping] if mapping else [])
        .data_links([*links])
        .graph_mode(looks.BigValueGraphMode.NONE)
        .color_mode(solid if mapping else quiet)
        .text_mode(
            looks.BigValueTextMode.VALUE_AND_NAME if named else looks.BigValueTextMode.VALUE
        )
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    )


def lines(
    number: int,
    title: str,
    text: str,
    queries: Sequence[Query],
    *,
    unit: str,
    empty: str,
    size: tuple[int, int] = (12, 8),
    low: float | None = 0.0,
    high: float | None = None,
    steps: Sequence[dashboard.Threshold] | None = None,
    area: bool = False,
    decimals: int | None = None,
    links: Sequence[build.DashboardLink] = (),
) -> timeseries.Panel:
    """Figures over time. ``steps`` are drawn as lines, with ``area`` as coloured bands."""
    panel = dress(
        timeseries.Panel(), number, title, text, queries, unit=unit, empty=empty, size=size
    )
    panel = (
        _decimals(panel, decimals)
        .draw_style(looks.GraphDrawStyle.LINE)
        .line_width(2)
        .fill_opacity(0)
        .show_points(looks.VisibilityMode.NEVER)
        # A hole in the figures is a hole in the line: nothing was known.
        .span_nulls(False)
        .color_scheme(build.FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC))
        .data_links([*links])
        .legend(_legend())
        .tooltip(
            common.VizTooltipOptions()
            .mode(looks.TooltipDisplayMode.MULTI)
            .sort(looks.SortOrder.DESCENDING)
        )
    )
    if low is not None:
        panel.axis_soft_min(low)
    if high is not None:
        panel.axis_soft_max(high)
    if steps is not None:
        mode = looks.GraphThresholdsStyleMode.DASHED
        both = looks.GraphThresholdsStyleMode.DASHED_AND_AREA
        panel.thresholds(limits(steps)).thresholds_style(
            common.GraphThresholdsStyleConfig().mode(both if area else mode)
        )
    return panel


def dashed(panel: timeseries.Panel, pattern: str) -> timeseries.Panel:
    """Draws the series whose name matches as thin dashed lines that the legend leaves out.

    They are what the others are compared with; the title says what they are.
    """
    properties = [
        dashboard.DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [6, 6]}),
        dashboard.DynamicConfigValue("custom.lineWidth", 1),
        dashboard.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": look.GREY}),
        dashboard.DynamicConfigValue(
            "custom.hideFrom", {"legend": True, "tooltip": False, "viz": False}
        ),
    ]
    return panel.override_by_regexp(f"/{pattern}/", properties)


def aside(panel: timeseries.Panel, pattern: str, unit: str) -> timeseries.Panel:
    """Draws the series whose name matches dashed, and by an axis of their own on the right."""
    properties = [
        dashboard.DynamicConfigValue("unit", unit),
        dashboard.DynamicConfigValue("custom.axisPlacement", "right"),
    ]
    return dashed(panel, pattern).override_by_regexp(f"/{pattern}/", properties)


def timeline(
    number: int,
    title: str,
    text: str,
    queries: Sequence[Query],
    *,
    empty: str,
    mapping: dashboard.ValueMap,
    size: tuple[int, int] = (24, 5),
    links: Sequence[build.DashboardLink] = (),
) -> statetimeline.Panel:
    """A bar for each series, coloured by its state."""
    panel = dress(
        statetimeline.Panel(), number, title, text, queries, unit="none", empty=empty, size=size
    )
    return (
        panel.mappings([mapping])
        .color_scheme(build.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS))
        .thresholds(limits(look.CALM))
        .data_links([*links])
        .merge_values(True)
        .show_value(looks.VisibilityMode.AUTO)
        .row_height(0.85)
        .fill_opacity(85)
        .line_width(0)
        .legend(common.VizLegendOptions().show_legend(False))
        .tooltip(common.VizTooltipOptions().mode(looks.TooltipDisplayMode.SINGLE))
    )


def bars(
    number: int,
    title: str,
    text: str,
    queries: Sequence[Query],
    *,
    unit: str,
    empty: str,
    size: tuple[int, int] = (8, 8),
    steps: Sequence[dashboard.Threshold] = look.CALM,
    low: float = 0.0,
    high: float | None = None,
    decimals: int | None = None,
    each_row: bool = False,
) -> bargauge.Panel:
    """A bar for each series, as of now, or for each row of a table."""
    panel = dress(
        bargauge.Panel(), number, title, text, queries, unit=unit, empty=empty, size=size
    )
    panel = (
        _decimals(panel, decimals)
        .thresholds(limits(steps))
        .color_scheme(build.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS))
        .min(low)
        .orientation(looks.VizOrientation.HORIZONTAL)
        .display_mode(looks.BarGaugeDisplayMode.BASIC)
        .value_mode(looks.BarGaugeValueMode.COLOR)
        .show_unfilled(True)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(each_row))
    )
    return panel if high is None else panel.max(high)


def note(number: int, title: str, content: str, size: tuple[int, int]) -> text_panel.Panel:
    """Words."""
    width, height = size
    return (
        text_panel.Panel()
        .id(number)
        .title(title)
        .description(title)
        .mode(TextMode.MARKDOWN)
        .content(content)
        .span(width)
        .height(height)
    )


def _legend() -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .display_mode(looks.LegendDisplayMode.LIST)
        .placement(looks.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs([])
    )


class _Decimal(Protocol):
    def decimals(self, decimals: float, /) -> Self: ...


_D = TypeVar("_D", bound=_Decimal)


def _decimals(panel: _D, decimals: int | None) -> _D:
    return panel if decimals is None else panel.decimals(decimals)
