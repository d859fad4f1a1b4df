"""The SQL of a dashboard as Grafana's backend would send it to PostgreSQL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from monitor.resources import data_dir


def panel_queries(file: str = "history.json") -> Iterator[tuple[str, str]]:
    """The title and the SQL of every query, annotations and variables included."""
    document: dict[str, Any] = json.loads((data_dir("dashboards") / file).read_text("utf-8"))
    for panel in document["panels"]:
        for one in panel.get("panels") or [panel]:
            for query in one.get("targets", ()):
                if "rawSql" not in query:
                    continue
                yield f"{one['title']} {query['refId']}", query["rawSql"]
    for annotation in document["annotations"].get("list", ()):
        if "rawSql" in annotation.get("target", {}):
            yield f"annotations: {annotation['name']}", annotation["target"]["rawSql"]
    for variable in document["templating"]["list"]:
        if variable["type"] == "query" and "SELECT" in str(variable["query"]):
            yield f"variable {variable['name']}", variable["query"]


def fill(
    sql: str, start: float, end: float, interval: float, chosen: Mapping[str, Sequence[str]]
) -> str:
    """The query with variables and macros filled in, as Grafana documents them."""

    def names(found: re.Match[str]) -> str:
        return ",".join("'" + name.replace("'", "''") + "'" for name in chosen[found[1]])

    def moment(at: float) -> str:
        return f"'{datetime.fromtimestamp(at, UTC).isoformat()}'"

    sql = re.sub(r"\$\{(\w+):sqlstring\}", names, sql)
    sql = sql.replace("$__interval_ms", f"{interval * 1000:.0f}")
    sql = sql.replace("$__timeFrom()", moment(start)).replace("$__timeTo()", moment(end))
    sql = re.sub(r"\$__unixEpochFilter\((.*?)\)", rf"\1 >= {start:.0f} AND \1 <= {end:.0f}", sql)
    return re.sub(
        r"\$__unixEpochGroupAlias\((.*?), \$__interval\)",
        rf'floor((\1)/{interval:.0f})*{interval:.0f} AS "time"',
        sql,
    )
