"""What is wrong with a dashboard that its schema would not tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from grafana_foundation_sdk.models import units

Json = dict[str, Any]

UNITS = {value for name, value in vars(units).items() if isinstance(value, str) and name[0] != "_"}
BUILT_IN = {"__rate_interval", "__range", "__interval", "__interval_ms", "__url_time_range"}
MACROS = re.compile(r"\$__(unixEpochFilter|unixEpochGroupAlias|timeFrom|timeTo)\(")
VARIABLE = re.compile(r"\$\{?(\w+)")
COUNTED = re.compile(r"(?:rate|increase|resets)\((?:\{__name__=~\"([^\"]+)\"|([a-zA-Z_:]+))")
COUNTER = re.compile(r"(_total|_count|_sum|_bucket)$")
SPAN = re.compile(r"(?:rate|increase|resets)\(.*?\[(\$\w+|\d\w*)\]")
SPANS = {"$__rate_interval", "$window", "1h"}


def panels(document: Json) -> Iterator[Json]:
    """All panels but rows, also those of folded rows."""
    for panel in document["panels"]:
        if panel["type"] == "row":
            yield from panel["panels"]
        else:
            yield panel


def queries(document: Json) -> Iterator[tuple[Json, Json]]:
    """Each panel with each of its queries."""
    for panel in panels(document):
        for query in panel.get("targets", ()):
            yield panel, query


def problems(document: Json) -> list[str]:
    """Everything that is wrong, one line each."""
    return [*_frame(document), *_layout(document), *_variables(document), *_queries(document)] + [
        f"panel {panel.get('id')} {panel.get('title')!r}: {found}"
        for panel in panels(document)
        for found in _panel(panel)
    ]


def _frame(document: Json) -> Iterator[str]:
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", document.get("uid", "")):
        yield "no stable uid"
    if "id" in document or not document.get("description"):
        yield "a number of its own, or no description"
    ids = [panel.get("id") for panel in panels(document)]
    ids += [panel.get("id") for panel in document["panels"] if panel["type"] == "row"]
    if len(ids) != len(set(ids)) or not all(ids):
        yield f"panel ids are missing or given twice: {ids}"
    for link in document["links"]:
        if not (link["includeVars"] and link["keepTime"]):
            yield f"link {link['title']} forgets time or variables"


def _layout(document: Json) -> Iterator[str]:
    folded = [panel["panels"] for panel in document["panels"] if panel["type"] == "row"]
    for group in (document["panels"], *folded):
        places: Sequence[tuple[str, Mapping[str, int]]] = [
            (p["title"], p["gridPos"]) for p in group
        ]
        for title, place in places:
            if place["x"] + place["w"] > 24 or min(place["w"], place["h"]) < 1:
                yield f"{title} leaves the grid"
        for (one, a), (other, b) in combinations(places, 2):
            aside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
            if not aside and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]:
                yield f"{one} and {other} overlap"


def _variables(document: Json) -> Iterator[str]:
    defined = {variable["name"]: variable for variable in document["templating"]["list"]}
    used = set(VARIABLE.findall(MACROS.sub("", str(document))))
    for name, variable in defined.items():
        if not variable.get("current"):
            yield f"variable {name} has no current value"
        if name not in used:
            yield f"variable {name} is not used"
    for _, query in queries(document):
        text = MACROS.sub("", query.get("expr") or query.get("rawSql") or "")
        for name in set(VARIABLE.findall(text)) - BUILT_IN - defined.keys():
            yield f"query {text!r} uses an unknown variable: {name}"


def _queries(document: Json) -> Iterator[str]:
    for _, query in queries(document):
        expr = query.get("expr", "")
        if re.search(r"(rate|increase|resets)\(\s*(sum|max|min|avg)", expr):
            yield f"a sum inside a rate: {expr}"
        for names in COUNTED.findall(expr):
            for name in "".join(names).split("|"):
                if not COUNTER.search(name):
                    yield f"a rate of a gauge: {name}"
        for span in SPAN.findall(expr):
            if span not in SPANS:
                yield f"a fixed span: {span}"


def _panel(panel: Json) -> Iterator[str]:
    if not panel.get("title") or not panel.get("description"):
        yield "no title or description"
    if panel["type"] == "text":
        return
    defaults = panel["fieldConfig"]["defaults"]
    overrides = [p for o in panel["fieldConfig"]["overrides"] for p in o["properties"]]
    named = [p["value"] for p in overrides if p["id"] == "unit"]
    for unit in (defaults.get("unit"), *named):
        if unit not in UNITS and not str(unit).startswith("suffix:"):
            yield f"unit {unit!r} is unknown"
    if not defaults.get("noValue"):
        yield "no words for no data"
    refs = [query["refId"] for query in panel["targets"]]
    if not refs or len(refs) != len(set(refs)):
        yield f"queries are missing or named twice: {refs}"
    for asked in (panel, *panel["targets"]):
        if not re.fullmatch(r"\$\{\w+\}", asked["datasource"]["uid"]):
            yield f"datasource {asked['datasource']['uid']!r} is no variable"
    for query in panel["targets"]:
        if not (query.get("expr") or query.get("rawSql")):
            yield f"query {query['refId']} asks nothing"
