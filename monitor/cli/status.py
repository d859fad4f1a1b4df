"""``monitor status``: what the database says about every service, with or without a daemon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.cli import exits
from monitor.cli.apps import single
from monitor.cli.locate import database_url
from monitor.cli.options import ConfigOption, DatabaseOption, JsonOption
from monitor.cli.output import print_error, print_json
from monitor.cli.render_status import print_services
from monitor.cli.stored import stored
from monitor.clock import SystemClock
from monitor.config.values import format_duration
from monitor.model import Verdict
from monitor.web.status import STALE_SECONDS, stored_status

app = single()


@app.command()
def status(
    *,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Show the latest verdict on every service, from the database alone."""
    now = SystemClock().utc()
    with stored(database_url(database, config)) as repository:
        document = stored_status(repository, now)
    services = document["services"]
    if json:
        print_json(document)
    else:
        print_services(services, now)
    if stale := [name for service in services for name in _stale_targets(service)]:
        print_error(
            f"no look at {', '.join(stale)} within the last {format_duration(STALE_SECONDS)}; "
            "is 'monitor run' running?"
        )
    return exits.worst(_code(service) for service in services) if services else exits.NO_VERDICT


def _stale_targets(service: Mapping[str, Any]) -> list[str]:
    return [target["target"] for target in service["targets"] if target["stale"]]


def _code(service: Mapping[str, Any]) -> int:
    verdict = service["verdict"]
    return exits.exit_code(
        None if verdict is None else Verdict(verdict), stale=bool(_stale_targets(service))
    )
