"""``monitor alerts list, show, test`` and ``deadletter``: incidents and what was told of them."""

from __future__ import annotations

import secrets
from dataclasses import asdict
from typing import Annotated, Any

import typer

from monitor.alerting import text
from monitor.alerting.model import Notification, Reason, Severity, State
from monitor.alerting.notifiers.base import Message
from monitor.alerting.payload import payload
from monitor.cli import exits
from monitor.cli.apps import group
from monitor.cli.locate import database_url, find_config
from monitor.cli.options import ConfigOption, DatabaseOption, JsonOption
from monitor.cli.output import clean, print_error, print_json, print_text
from monitor.cli.stored import stored
from monitor.clock import SystemClock
from monitor.config.load import load
from monitor.config.problems import did_you_mean
from monitor.logs import REDACTOR
from monitor.model import ConfigError, DeliveryError
from monitor.report import iso
from monitor.store.alerts import Delivery, Incident, IncidentFilter

deadletter = group("See and put back the notifications that were given up.")


def list_(
    *,
    with_ended: Annotated[bool, typer.Option("--all", help="Show ended ones, too.")] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="N", help="Most to show.")
    ] = 100,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """List the incidents that are open; exit code 1 when there is one."""
    which = IncidentFilter.ALL if with_ended else IncidentFilter.OPEN
    with stored(database_url(database, config)) as repository:
        found = repository.alerts.incidents(which, limit)
    if json:
        print_json({"schema": "monitor.alerts/1", "alerts": [_incident(one) for one in found]})
    elif not found:
        print_text("no alert has fired yet" if with_ended else "no alert is firing")
    else:
        print_text("\n".join(_incident_line(one) for one in found))
    return exits.BAD if any(one.ended_at is None for one in found) else exits.OK


def show(
    incident: Annotated[str, typer.Argument(metavar="ID", help="Id, or the beginning of it.")],
    *,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Show an incident, its latest message, and who was told what."""
    with stored(database_url(database, config)) as repository:
        story = repository.alerts.incident(incident)
    deliveries = [_delivery(one) for one in story.deliveries]
    if json:
        latest = payload(story.latest)
        alert = _incident(story.incident)
        document = {"alert": alert, "latest": latest, "deliveries": deliveries}
        print_json({"schema": "monitor.alert/1", **document})
    else:
        head = [text.title(story.latest), text.body(story.latest), "", "Told:"]
        lines = [line for part in head for line in part.splitlines() or [""]]
        print_text("\n".join([*map(clean, lines), *(_delivery_line(one) for one in deliveries)]))
    return exits.OK


def try_receiver(
    receiver: Annotated[str, typer.Argument(metavar="RECEIVER", help="Name of the receiver.")],
    *,
    config: ConfigOption = None,
) -> int:
    """Send a marked test message to a receiver, once, and say what happened."""
    # What sends messages takes long to import, and only this command sends any.
    from monitor.alerting.notifiers.make import make_notifier  # noqa: PLC0415

    path = find_config(config)
    if path is None:
        raise ConfigError("receivers are named in the configuration: give it with -c FILE")
    known = {one.name: one for one in load(path).settings().receivers}
    if receiver not in known:
        hint = did_you_mean(receiver, known) if known else "none is configured"
        raise ConfigError(f"there is no receiver {clean(receiver, 100)!r}; {hint}")
    notifier = make_notifier(known[receiver])
    now = SystemClock().utc()
    try:
        answer = notifier.send(Message(_test_notification(now), test=True), now)
    except DeliveryError as error:
        kind = "for good" if error.permanent else "a real one would be tried again"
        print_error(f"{receiver}: not delivered ({kind}): {REDACTOR.text(str(error))}")
        return exits.BAD
    finally:
        notifier.close()
    print_text(f"{clean(receiver)}: delivered ({clean(answer)})")
    return exits.OK


@deadletter.command("list")
def list_dead(
    *,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """List what was given up, and why; exit code 1 when there is something."""
    with stored(database_url(database, config)) as repository:
        letters = repository.alerts.outbox.dead_letters()
    documents = [{**asdict(letter), "at": iso(letter.at)} for letter in letters]
    if json:
        print_json({"schema": "monitor.deadletters/1", "deadletters": documents})
    elif not documents:
        print_text("nothing was given up")
    else:
        print_text("\n".join(_dead_line(document) for document in documents))
    return exits.BAD if documents else exits.OK


@deadletter.command()
def requeue(
    number: Annotated[
        int | None, typer.Argument(metavar="NUMBER", help="One of those that are listed.")
    ] = None,
    *,
    receiver: Annotated[
        str | None, typer.Option(metavar="NAME", help="All of this receiver.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All there are.")] = False,
    config: ConfigOption = None,
    database: DatabaseOption = None,
) -> int:
    """Put notifications that were given up back; the running daemon sends them."""
    if (number is not None) + (receiver is not None) + all_ != 1:
        raise ConfigError("give one of NUMBER, --receiver and --all")
    with stored(database_url(database, config)) as repository:
        count = repository.alerts.outbox.requeue(
            SystemClock().utc(), key=number, receiver=receiver
        )
    print_text(f"{count} put back")
    return exits.OK


def _test_notification(now: float) -> Notification:
    return Notification(
        incident=f"test-{secrets.token_hex(8)}",
        sequence=1,
        at=now,
        reason=Reason.FIRST,
        state=State.FIRING,
        rule="test",
        severity=Severity.INFO,
        service="test",
        target="test",
        started_at=now,
        ended_at=None,
        title="Test of a receiver of specdec-monitor",
        sentence="somebody ran 'monitor alerts test'; nothing is wrong",
        cause=None,
        action="none",
        labels={"test": "true"},
    )


def _incident(incident: Incident) -> dict[str, Any]:
    ended = incident.ended_at
    times = {
        "started_at": iso(incident.started_at),
        "ended_at": None if ended is None else iso(ended),
        "at": iso(incident.at),
    }
    return {**asdict(incident), **times}


def _incident_line(incident: Incident) -> str:
    state = incident.severity if incident.ended_at is None else "ended"
    return (
        f"{clean(incident.id, 12)}  {state:8}  since {iso(incident.started_at)[:16]}Z"
        f"  {clean(incident.title, 120)}"
    )


def _delivery(delivery: Delivery) -> dict[str, Any]:
    times = {
        name: None if (at := getattr(delivery, name)) is None else iso(at)
        for name in ("at", "next_at", "settled_at")
    }
    return {**asdict(delivery), **times}


def _delivery_line(document: dict[str, Any]) -> str:
    line = f"  {document['sequence']}. {document['reason']} at {document['at']}: "
    if document["receiver"] is None:
        return f"{line}no receiver"
    line += f"{clean(document['receiver'], 60)}: {document['state']}"
    if document["attempts"]:
        line += f" after {document['attempts']} attempt{'s' * (document['attempts'] > 1)}"
    return f"{line} ({clean(document['problem'])})" if document["problem"] else line


def _dead_line(document: dict[str, Any]) -> str:
    return (
        f"{document['id']}  {document['at']}  {clean(document['receiver'], 60)}"
        f"  {clean(document['title'], 80)}: {clean(document['problem'])}"
    )
