"""``monitor rollback run, approve, abort, rearm``: orders that the daemon carries out."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli import exits
from monitor.cli.locate import database_url
from monitor.cli.options import ConfigOption, DatabaseOption, JsonOption
from monitor.cli.output import clean, print_error, print_json, print_text
from monitor.cli.rollback_documents import order_document
from monitor.cli.stored import stored
from monitor.cli.whoami import whoami
from monitor.clock import SystemClock
from monitor.config.problems import did_you_mean
from monitor.model import ConfigError, StoreError
from monitor.rollback.fleet import FLEET
from monitor.rollback.model import IDLE, Command, Kind, Order, Phase
from monitor.store.repository import Repository
from monitor.store.rollbacks import Decision, StoredRollback

_POLL_SECONDS = 0.2
_PROPOSABLE = frozenset({Phase.PROPOSED})

ServiceArgument = Annotated[
    str, typer.Argument(metavar="SERVICE|ID", help="A service, or the plan in progress of one.")
]
WaitOption = Annotated[
    float,
    typer.Option(
        min=0.0, max=3600.0, metavar="S", help="Seconds to wait for the daemon's answer."
    ),
]


def run(
    key: ServiceArgument,
    *,
    wait: WaitOption = 15.0,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Begin a rollback now, votes or not; the baseline side is checked first all the same."""
    with stored(database_url(database, config)) as repository:
        service, plan = _find(repository, key)
        return _give(repository, Order.RUN, service, plan, wait=wait, json=json)


def approve(
    key: ServiceArgument,
    *,
    wait: WaitOption = 15.0,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Let the rollback that is proposed go on."""
    with stored(database_url(database, config)) as repository:
        service, plan = _find(repository, key)
        known = repository.rollbacks.states()[service]
        if known.phase not in _PROPOSABLE:
            state = "idle" if known.phase == Phase.ARMED else known.phase
            raise StoreError(f"nothing is proposed for {service}: its rollback is {state}")
        # The order is about the plan that the operator could see, and no later one.
        return _give(repository, Order.APPROVE, service, plan or known.plan, wait=wait, json=json)


def abort(
    key: ServiceArgument,
    *,
    wait: WaitOption = 15.0,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Stop a rollback and put traffic back where it was; harmless where there is none."""
    with stored(database_url(database, config)) as repository:
        service, plan = _find(repository, key)
        plan = plan or _in_progress(repository, service)
        return _give(repository, Order.ABORT, service, plan, wait=wait, json=json)


def rearm(
    key: Annotated[
        str | None, typer.Argument(metavar="SERVICE|ID", help="A service, or its plan.")
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Lift the freeze of all rollbacks instead.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Although the speculative side is the one it was left for."),
    ] = False,
    wait: WaitOption = 15.0,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Try the speculative side again after a fix, or arm a service whose rollback has ended."""
    if everything == (key is not None):
        raise ConfigError("name a service, or write --all for the freeze of all rollbacks")
    with stored(database_url(database, config)) as repository:
        service, plan = (FLEET, None) if key is None else _find(repository, key)
        if key is None:
            plan = _in_progress(repository, FLEET)
        return _give(repository, Order.REARM, service, plan, force=force, wait=wait, json=json)


def _find(repository: Repository, key: str) -> tuple[str, str | None]:
    """The service that is meant, and the plan if it was named."""
    services = repository.rollbacks.services()
    if key in services:
        return key, None
    states: dict[str, StoredRollback] = repository.rollbacks.states()
    for service, known in states.items():
        if known.plan == key:
            return service, key
    hint = did_you_mean(key, services) if services else "none is stored yet"
    raise StoreError(f"{clean(key, 100)!r} is neither a service nor a plan in progress; {hint}")


def _in_progress(repository: Repository, service: str) -> str | None:
    """The plan, or the freeze, that the operator could see: an order is about no later one."""
    known = repository.rollbacks.states().get(service)
    return None if known is None or known.phase in IDLE else known.plan


def _give(
    repository: Repository,
    order: Order,
    service: str,
    plan: str | None,
    *,
    wait: float,
    json: bool,
    force: bool = False,
) -> int:
    before = {decision.id for decision in repository.rollbacks.decisions(service=service)}
    given = repository.rollbacks.order(
        service, order, at=SystemClock().utc(), who=whoami(), plan=plan, force=force
    )
    taken = _await(repository, given, wait)
    answer = _answer(repository, given, before) if taken else None
    if json:
        print_json(order_document(given, answer, taken=taken))
    elif answer is not None:
        print_text(clean(answer.sentence, 1000))
    elif taken:
        print_text("taken by the daemon")
    else:
        print_error(
            "the order is stored, but no daemon has answered it yet; is 'monitor run' running?"
        )
    if not taken:
        return exits.NO_VERDICT if wait > 0.0 else exits.OK
    refused = answer is not None and answer.kind == Kind.REFUSED
    return exits.BAD if refused else exits.OK


def _await(repository: Repository, given: Command, seconds: float) -> bool:
    """Waits until the daemon has answered; whether it has."""
    clock = SystemClock()
    until = clock.monotonic() + seconds
    while not (taken := repository.rollbacks.is_taken(given)) and clock.monotonic() < until:
        clock.sleep(_POLL_SECONDS)
    return taken


def _answer(repository: Repository, given: Command, before: set[int]) -> Decision | None:
    """The first decision since that was taken because of this person."""
    for decision in repository.rollbacks.decisions(service=given.service):
        if decision.id not in before and decision.who == given.who:
            return decision
    return None
