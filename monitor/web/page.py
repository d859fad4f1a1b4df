"""The status page: what ``/api/v1/status`` says, for people who have a browser and no time.

It is made anew for each request and needs no script: the page of a monitor must also open where
nothing but the monitor answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from monitor.health.words import duration
from monitor.report import format_estimate
from monitor.web.status import SEVERITY
from monitor.web.view import Health

REFRESH_SECONDS = 15
"""After so long the browser asks again: the usual time between two looks at a target."""
FEW_TARGETS = 8
"""So many targets of one service are shown whole; of more, those that are well are folded up."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_CALM = frozenset({"healthy", "insufficient", "idle", "off"})
_RANK = {verdict.value: rank for rank, verdict in enumerate(SEVERITY)}

Document = Mapping[str, Any]


def render(document: Document, health: Health, now: float) -> str:
    """The page as HTML.

    Args:
        document: of ``monitor status --json``.
        health: of the daemon itself.
        now: seconds since the epoch.
    """
    services = sorted(document["services"], key=lambda one: (_rank(one), one["service"]))
    return _TEMPLATE.render(
        now=now,
        refresh=REFRESH_SECONDS,
        warnings=_warnings(health),
        services=[{**service, "shown": _shown(service["targets"])} for service in services],
    )


def _shown(targets: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """The targets to show at once, the worst first, and those to fold up."""
    ordered = sorted(targets, key=lambda one: (_rank(one), one["target"]))
    if len(ordered) <= FEW_TARGETS:
        return ordered, []
    calm = [one for one in ordered if one["verdict"] in _CALM and not one["stale"]]
    return [one for one in ordered if one not in calm], calm


def _rank(judged: Document) -> int:
    return _RANK.get(judged["verdict"], len(_RANK))


def _warnings(health: Health) -> list[str]:
    """What is wrong with the daemon: then the page tells less than it seems to."""
    found = []
    if not health.alive:
        found.append(f"no target was looked at for {duration(health.loop_age)}")
    if health.waiting_for is not None:
        found.append(f"not ready: {health.waiting_for}")
    if health.frozen is not None:
        found.append(f"no traffic is moved: {health.frozen}")
    if not health.reload_ok:
        found.append("the last reload of the configuration failed; the one before is in force")
    return found


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _age(at: str, now: float) -> str:
    return duration(max(0.0, now - datetime.fromisoformat(at).timestamp()))


_PAGES = Environment(
    loader=PackageLoader("monitor.web"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
_PAGES.filters |= {
    "estimate": partial(format_estimate, to="–", unknown="–"),
    "age": _age,
    "moment": _moment,
}
_TEMPLATE = _PAGES.get_template("status.html")
STYLE = _PAGES.get_template("status.css").render()
