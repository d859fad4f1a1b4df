"""``monitor reference``: what is normal for a target, and orders about it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from monitor.cli import exits
from monitor.cli.apps import group
from monitor.cli.locate import database_url
from monitor.cli.options import ConfigOption, DatabaseOption, JsonOption, TargetOption
from monitor.cli.output import print_json, print_text
from monitor.cli.render_explain import print_reference
from monitor.cli.stored import stored
from monitor.cli.whoami import whoami
from monitor.clock import SystemClock
from monitor.explain.document import order_document, reference_document
from monitor.health.orders import Order, OrderKind
from monitor.model import ConfigError

SCHEMA = "monitor.reference/1"

app = group("Show, pin or reset what is learnt to be normal for a target.")


@app.command()
def show(
    *,
    target: TargetOption,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Show the normal acceptance rate by hour of day and what is behind it."""
    now = SystemClock().utc()
    with stored(database_url(database, config)) as repository:
        state, orders = repository.state(target), repository.orders(target)
    document = reference_document(target, state, orders, now)
    if json:
        print_json({"schema": SCHEMA, **document})
    else:
        print_reference(document, now)
    known = document["reference"] is not None and document["reference"]["normal"] is not None
    return exits.OK if known else exits.NO_VERDICT


@app.command()
def pin(
    *,
    target: TargetOption,
    rate: Annotated[
        float, typer.Option(metavar="R", help="Acceptance rate that is normal: 0.70.")
    ],
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Let this acceptance rate count as normal; nothing is learnt meanwhile."""
    if not 0.0 < rate <= 1.0:
        raise ConfigError("--rate must lie above 0 and at most at 1: write 0.70 for 70 %")
    return _give(target, Order(OrderKind.PIN, rate), database_url(database, config), json=json)


@app.command()
def unpin(
    *,
    target: TargetOption,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Go back to what was learnt."""
    return _give(target, Order(OrderKind.UNPIN), database_url(database, config), json=json)


@app.command()
def reset(
    *,
    target: TargetOption,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Forget what was learnt about the server that is watched now, and learn anew."""
    return _give(target, Order(OrderKind.RESET), database_url(database, config), json=json)


def _give(target: str, order: Order, url: str, *, json: bool) -> int:
    with stored(url) as repository:
        given = repository.order(target, order, at=SystemClock().utc(), who=whoami())
    document: dict[str, Any] = order_document(given)
    if json:
        print_json({"schema": "monitor.order/1", "target": target, **document})
    else:
        print_text(
            f"ordered: {given.words} of {target}; a running daemon does so within two minutes,"
            " else the next one that starts"
        )
    return exits.OK
