"""What the commands that make a baseline share: their options, and how it is kept."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.baselines.documents import baseline_document
from monitor.baselines.standing import open_alerts
from monitor.cli.output import print_json
from monitor.cli.render_baseline import print_stored
from monitor.model import ConfigError
from monitor.store.baseline_rows import StoredBaseline
from monitor.store.repository import Repository

ServiceName = Annotated[
    str, typer.Option("--service", metavar="NAME", help="Service that the baseline is of.")
]
NameOption = Annotated[str | None, typer.Option(metavar="NAME", help="Name of the baseline.")]
ActivateOption = Annotated[
    bool, typer.Option("--activate", help="Compare the service with it from now on.")
]


def print_kept(found: StoredBaseline, *, as_json: bool) -> None:
    """Says under which name a baseline is stored."""
    document = baseline_document(found)
    if as_json:
        print_json({"schema": "monitor.baseline/1", "baseline": document})
    else:
        print_stored(document)


def check_standing(
    repository: Repository, service: str, *, force: bool, way_out: str
) -> str | None:
    """Refuses with ``ConfigError`` while an alert is open on the service, unless forced.

    Returns:
        With ``force``, what speaks against it, to be kept with the baseline.
    """
    found = open_alerts(repository.alerts, service)
    if found is not None and not force:
        raise ConfigError(f"{found}; a baseline of now could hide the fault ({way_out})")
    return found
