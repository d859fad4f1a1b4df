"""``monitor rollback``: where rollbacks stand, why, and orders about them."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli import exits, rollback_orders, rollback_plan
from monitor.cli.apps import group
from monitor.cli.locate import database_url
from monitor.cli.options import ConfigOption, DatabaseOption, JsonOption
from monitor.cli.output import print_json
from monitor.cli.render_rollback import print_list, print_story
from monitor.cli.rollback_documents import TROUBLE, list_document, story_document
from monitor.cli.stored import stored
from monitor.clock import SystemClock
from monitor.model import StoreError
from monitor.rollback.fleet import FLEET, Fleet
from monitor.store.rollbacks import StoredRollback, find_plan

app = group("See, plan and steer rollbacks to the plain servers.")

app.command("plan")(rollback_plan.plan)
app.command("run")(rollback_orders.run)
app.command("approve")(rollback_orders.approve)
app.command("abort")(rollback_orders.abort)
app.command("rearm")(rollback_orders.rearm)


@app.command("list")
def list_(
    *,
    service: Annotated[str | None, typer.Option(metavar="NAME", help="Only this one.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="N", help="Most plans to show.")
    ] = 20,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """List where each service stands, and the newest plans; 1 if a person is asked for."""
    with stored(database_url(database, config)) as repository:
        states = repository.rollbacks.states()
        plans = repository.rollbacks.plans(service, limit)
    frozen = _frozen(states.get(FLEET))
    if service is not None:
        if service not in states:
            raise StoreError(f"there is no service {service!r} in the database")
        states = {service: states[service]}
    document = list_document(states, plans, frozen)
    if json:
        print_json(document)
    else:
        print_list(document, SystemClock().utc())
    trouble = any(s["state"] in TROUBLE for s in document["services"])
    return exits.BAD if trouble or frozen is not None else exits.OK


@app.command()
def show(
    key: Annotated[
        str, typer.Argument(metavar="ID|SERVICE", help="A plan, or the newest of a service.")
    ],
    *,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Pages and curves, too.")
    ] = False,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Show all that was decided and done in a plan, and on what evidence."""
    with stored(database_url(database, config)) as repository:
        rollbacks = repository.rollbacks
        plan = find_plan(rollbacks.plans(limit=10_000), key)
        decisions, steps = rollbacks.decisions(plan=plan.plan), rollbacks.steps(plan.plan)
    document = story_document(plan, decisions, steps)
    if json:
        print_json(document)
    else:
        print_story(document, verbose=verbose)
    return exits.OK


def _frozen(stored_fleet: StoredRollback | None) -> str | None:
    if stored_fleet is None or not stored_fleet.state:
        return None
    fleet = Fleet.from_json(stored_fleet.state)
    return fleet.why if fleet.frozen_at is not None else None
