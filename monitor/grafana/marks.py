"""Marks in Grafana's own annotations: when traffic was rolled back, and when an alert fired.

For the edges of the program only: a Grafana that does not answer must delay no round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from monitor.alerting.wording import plain
from monitor.grafana.client import Grafana
from monitor.model import GrafanaError

TAG = "spec-decode"
"""All our dashboards and marks have it; dashboards show the marks with ``rollback`` as well."""
ROLLBACK = "rollback"
ALERT = "alert"
_MOST_TEXT = 500
_MOST_TAG = 100


class Mark(NamedTuple):
    """Something that began, and perhaps has ended; times are seconds since the epoch."""

    what: str
    """``ROLLBACK`` or ``ALERT``."""
    text: str
    at: float
    until: float | None = None
    service: str | None = None
    target: str | None = None
    more: Sequence[str] = ()
    """Further tags."""


def begin(grafana: Grafana, mark: Mark) -> int:
    """Makes a mark and returns its number, under which it can be ended.

    An answer that is lost is not asked for again: the mark would be there twice.

    Raises:
        GrafanaError: with the reason, in one line.
    """
    body: dict[str, Any] = {
        "time": _milliseconds(mark.at),
        "tags": tags(mark),
        "text": plain(mark.text, _MOST_TEXT),
    }
    if mark.until is not None:
        body["timeEnd"] = _milliseconds(mark.until)
    answer = grafana.post("/api/annotations", body, "annotation", again=False)
    number = answer.get("id") if isinstance(answer, dict) else None
    if not isinstance(number, int) or isinstance(number, bool):
        raise GrafanaError("annotation: the answer has no id")
    return number


def end(grafana: Grafana, number: int, at: float, text: str | None = None) -> None:
    """Ends a mark, which then is a region; doing it again changes nothing."""
    body: dict[str, Any] = {"timeEnd": _milliseconds(at)}
    if text is not None:
        body["text"] = plain(text, _MOST_TEXT)
    grafana.patch(f"/api/annotations/{number}", body, f"annotation {number}")


def tags(mark: Mark) -> list[str]:
    """``spec-decode``, what it is, and what it is about."""
    about = [f"{name}:{value}" for name, value in _about(mark) if value]
    return [plain(tag, _MOST_TAG) for tag in (TAG, mark.what, *about, *mark.more)]


def _about(mark: Mark) -> list[tuple[str, str | None]]:
    return [("service", mark.service), ("target", mark.target)]


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000.0)
