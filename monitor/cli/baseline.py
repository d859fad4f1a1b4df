"""``monitor baseline``: what a service does without speculation, measured and kept."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.baselines.curves import compare_curves
from monitor.baselines.documents import baseline_document, curve_comparison_document, documents
from monitor.cli import baseline_bench, baseline_import, baseline_record, exits
from monitor.cli.apps import group
from monitor.cli.baseline_new import check_standing
from monitor.cli.locate import database_url
from monitor.cli.options import ConfigOption, DatabaseOption, JsonOption
from monitor.cli.output import print_json, print_text
from monitor.cli.render_baseline import print_baseline, print_baselines, print_curves
from monitor.cli.stored import stored
from monitor.cli.whoami import whoami
from monitor.clock import SystemClock
from monitor.model import ConfigError

app = group("Measure, import and choose what a service does without speculation.")
app.command("record")(baseline_record.record)
app.command("import")(baseline_import.import_)
app.command("bench")(baseline_bench.bench)

Reference = Annotated[
    str, typer.Argument(metavar="NAME", help="NAME, NAME#VERSION or the id of a baseline.")
]
ServiceOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Service, where a name is not unique.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Even if it was stored by force, or an alert is open.")
]


@app.command("list")
def list_(
    *,
    service: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those of this service.")
    ] = None,
    with_deleted: Annotated[bool, typer.Option("--all", help="Show deleted ones, too.")] = False,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """List the stored baselines."""
    with stored(database_url(database, config)) as repository:
        found = repository.baselines.listing(service, with_deleted=with_deleted)
    if json:
        print_json({"schema": "monitor.baselines/1", "baselines": documents(found)})
    else:
        print_baselines(documents(found), SystemClock().utc())
    return exits.OK


@app.command()
def show(
    name: Reference,
    *,
    service: ServiceOption = None,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Show the curve of a baseline and where it comes from."""
    with stored(database_url(database, config)) as repository:
        document = baseline_document(repository.baselines.find(service, name))
    if json:
        print_json({"schema": "monitor.baseline/1", "baseline": document})
    else:
        print_baseline(document, SystemClock().utc())
    return exits.OK


@app.command()
def activate(
    name: Reference,
    *,
    service: ServiceOption = None,
    force: ForceOption = False,
    config: ConfigOption = None,
    database: DatabaseOption = None,
) -> int:
    """Compare a service with this baseline from now on."""
    with stored(database_url(database, config)) as repository:
        found = repository.baselines.find(service, name)
        if not found.valid and not force:
            raise ConfigError(
                f"baseline {found.label} was stored by force ({found.reason});"
                " --force activates it all the same"
            )
        way_out = "--force activates it all the same"
        standing = check_standing(repository, found.service, force=force, way_out=way_out)
        now, who = SystemClock().utc(), whoami()
        repository.baselines.activate(None, str(found.id), now, who)
        if standing is not None:
            text = f"{found.label} was made the baseline of {found.service} by {who}: {standing}"
            repository.event(now, "baseline", text)
    print_text(f"{found.label} is the baseline of {found.service} from now on")
    return exits.OK


@app.command()
def deactivate(
    *,
    service: Annotated[str, typer.Option(metavar="NAME", help="Name of the service.")],
    config: ConfigOption = None,
    database: DatabaseOption = None,
) -> int:
    """Leave a service without a stored baseline from now on."""
    with stored(database_url(database, config)) as repository:
        if service not in repository.baselines.active_of_all():
            raise ConfigError(f"service {service!r} has no active baseline")
        repository.baselines.deactivate(service, SystemClock().utc(), whoami())
    print_text(f"{service} has no stored baseline from now on")
    return exits.OK


@app.command()
def delete(
    name: Reference,
    *,
    service: ServiceOption = None,
    config: ConfigOption = None,
    database: DatabaseOption = None,
) -> int:
    """Delete a baseline: it is hidden, and kept for whoever looks into the past."""
    with stored(database_url(database, config)) as repository:
        found = repository.baselines.find(service, name)
        repository.baselines.delete(None, str(found.id), SystemClock().utc(), whoami())
    print_text(f"deleted {found.label} of {found.service}")
    if found.active:
        print_text(f"it was the active one: {found.service} has none now")
    return exits.OK


@app.command()
def compare(
    first: Reference,
    second: Reference,
    *,
    service: ServiceOption = None,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Compare two baselines at the loads that both cover."""
    with stored(database_url(database, config)) as repository:
        one = repository.baselines.find(service, first)
        other = repository.baselines.find(service, second)
    found = compare_curves(one, other)
    document = curve_comparison_document(found)
    if json:
        print_json({"schema": "monitor.baseline-compare/1", **document})
    else:
        print_curves(document)
    return exits.OK if found.loads else exits.NO_VERDICT
