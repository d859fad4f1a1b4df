"""Marks rollbacks in Grafana: each is a region from its beginning to its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from urllib.parse import urlencode

import structlog

from monitor.grafana import marks
from monitor.grafana.client import Grafana
from monitor.model import GrafanaError, StoreError
from monitor.settings import GrafanaSettings
from monitor.store.rollback_marks import DueMark, RollbackMarks

MARK_SECONDS = 10.0
"""How often there is a look for what is to be marked."""

_log = structlog.get_logger(__name__)


class Marker:
    """Brings to Grafana what the database says; one that does not answer delays nobody.

    Args:
        store: what is to be marked.
        settings: where Grafana is now, if there is one.
    """

    def __init__(
        self, store: RollbackMarks, settings: Callable[[], GrafanaSettings | None]
    ) -> None:
        self._store = store
        self._settings = settings
        self._problem: str | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="grafana", daemon=True)

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Ends; what is not marked yet is marked by the next process."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def work(self) -> None:
        """Marks what is due, and ends what is over."""
        settings = self._settings()
        if settings is None:
            return
        begin, end = self._store.to_begin(), self._store.to_end()
        if not begin and not end:
            return
        grafana = Grafana(settings)
        try:
            for due in begin:
                self._store.begun(due.plan, _begin(grafana, due))
            for due in end:
                if due.number is not None:
                    marks.end(grafana, due.number, due.at)
                    self._store.ended(due.plan, due.at)
        finally:
            grafana.close()

    def _run(self) -> None:
        while not self._ending.wait(MARK_SECONDS):
            try:
                self.work()
                self._problem = None
            except (GrafanaError, StoreError) as error:
                if str(error) != self._problem:
                    _log.warning("rollbacks are not marked in Grafana", error=str(error))
                self._problem = str(error)
            except Exception:
                # The border of this thread, which must not end.
                _log.exception("marking rollbacks in Grafana stumbled")


def _begin(grafana: Grafana, due: DueMark) -> int:
    """The number of the mark of a plan, made unless it is there.

    An answer that was lost, or a process that died before it wrote the number down, must not
    lead to a second one.
    """
    tag = f"plan:{due.plan}"
    query = urlencode({"tags": tag, "limit": 1})
    found = grafana.get(f"/api/annotations?{query}", "annotations")
    if isinstance(found, list) and found and isinstance(found[0].get("id"), int):
        return int(found[0]["id"])
    mark = marks.Mark(marks.ROLLBACK, due.text, due.at, service=due.service, more=(tag,))
    return marks.begin(grafana, mark)
