"""Asks what the dashboards ask, of a real Prometheus and a real PostgreSQL, and keeps it."""

from __future__ import annotations

import json
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

from fleet import INTERVAL, START, Past
from prometheus_server import Prometheus, fill
from sqlalchemy import Engine

from benchmarks.history import server
from benchmarks.panel_sql import fill as fill_sql
from monitor.resources import data_dir
from monitor.store import schema
from monitor.store.connect import open_store, reading
from monitor.store.repository import Repository
from monitor.store.rollup import roll_up

Json = dict[str, Any]


class Asker:
    """Knows the moment and the choices that the pictures show."""

    def __init__(self, prometheus: Prometheus, engine: Engine, past: Past, minutes: int) -> None:
        self._prometheus = prometheus
        self._engine = engine
        self.start, self.end = START, START + 60.0 * minutes
        self._range = f"{minutes}m"
        self._chosen = {
            "service": sorted({m.service for m in past.members.values() if m.service}),
            "target": sorted(m.name for m in past.members.values() if m.service),
        }

    def board(self, file: str, **variables: str) -> Json:
        """The dashboard with the answers to all its questions, by panel and query."""
        document = json.loads((data_dir("dashboards") / file).read_text("utf-8"))
        answers = {
            panel["id"]: [self._answer(query, variables) for query in panel.get("targets", ())]
            for row in document["panels"]
            for panel in (row.get("panels") or [row])
        }
        span = {"from": self.start * 1000.0, "to": self.end * 1000.0}
        return {"document": document, "answers": answers, "range": span, "variables": variables}

    def _answer(self, query: Json, variables: dict[str, str]) -> Json:
        if "rawSql" in query:
            return self._rows(query)
        expr = fill(query["expr"], **{"__range": self._range, **variables})
        shape = "table" if query.get("format") == "table" else "series"
        if query.get("instant"):
            series = [
                {"labels": labels, "points": [[self.end, value]]}
                for labels, value in self._prometheus.vector(expr, self.end)
            ]
        else:
            series = list(self._matrix(expr))
        return {
            "ref": query["refId"],
            "shape": shape,
            "legend": query.get("legendFormat"),
            "series": series,
        }

    def _matrix(self, expr: str) -> Iterator[Json]:
        # About as many points as the panels are wide.
        step = max(INTERVAL, (self.end - self.start) / 400.0)
        asked = {"query": expr, "start": self.start, "end": self.end, "step": step}
        url = f"{self._prometheus.url}/api/v1/query_range?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            for found in json.load(answer)["data"]["result"]:
                points = [[at, _number(value)] for at, value in found["values"]]
                yield {"labels": found["metric"], "points": points}

    def _rows(self, query: Json) -> Json:
        sql = fill_sql(query["rawSql"], self.start, self.end, 300.0, self._chosen)
        sql = sql.replace("now()", f"to_timestamp({self.end})")
        with reading(self._engine) as connection:
            found = connection.exec_driver_sql(sql.replace("%", "%%"))
            names, rows = list(found.keys()), [list(row) for row in found]
        shape = "metrics" if query["format"] == "time_series" else "rows"
        return {"ref": query["refId"], "shape": shape, "names": names, "rows": rows}


def _number(text: str) -> float | None:
    value = float(text)
    return value if isfinite(value) else None


@contextmanager
def stored(past: Past) -> Iterator[Engine]:
    """A PostgreSQL with what the monitor wrote."""
    with server() as url:
        schema.upgrade(url)
        engine = open_store(url)
        repository = Repository(engine)
        repository.register([worker.settings for worker in past.watch.workers], START)
        for first in range(0, len(past.watch.rows), 500):
            repository.write_round(past.watch.rows[first : first + 500])
        while roll_up(engine, past.watch.clock.utc() + 3600.0):
            pass
        yield engine
        engine.dispose()


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder that is gone afterwards."""
    return tempfile.TemporaryDirectory(prefix="preview")


def write(answers: Json, file: Path) -> None:
    """Writes them for the page to load."""
    file.write_text(json.dumps(answers, default=str), encoding="utf-8")
