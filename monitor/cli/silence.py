"""``monitor silence``: who does not want to hear what, why, and until when."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from monitor.alerting.routes import Matcher, parse_matcher
from monitor.alerting.silences import Silence
from monitor.cli import exits
from monitor.cli.apps import group
from monitor.cli.locate import database_url
from monitor.cli.options import ConfigOption, DatabaseOption, JsonOption, checked
from monitor.cli.output import clean, print_json, print_text
from monitor.cli.stored import stored
from monitor.cli.times import parse_time
from monitor.cli.whoami import whoami
from monitor.clock import SystemClock
from monitor.config.values import parse_duration
from monitor.model import ConfigError
from monitor.report import iso
from monitor.weekly import parse_weekly

_YEAR = 366 * 86400.0

app = group("Keep notifications back for some time; alerts are judged and stored all the same.")


@app.command()
def add(
    matchers: Annotated[
        list[str],
        typer.Argument(metavar="LABEL=VALUE", help="All must hold; * stands for any text."),
    ],
    *,
    until: Annotated[
        str,
        typer.Option(metavar="TIME", help="End: an ISO time, or a duration from now such as 2h."),
    ],
    why: Annotated[str, typer.Option(metavar="TEXT", help="The reason, for the others.")],
    start: Annotated[str, typer.Option(metavar="TIME", help="Begin: an ISO time.")] = "now",
    weekly: Annotated[
        str | None,
        typer.Option(metavar="WINDOW", help="Only then: 'mon-fri 22:00-06:00 Europe/Berlin'."),
    ] = None,
    hold_rollback: Annotated[
        bool, typer.Option("--hold-rollback", help="Move no traffic either meanwhile.")
    ] = False,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Add a silence; its end is required."""
    now = SystemClock().utc()
    starts_at = now if start == "now" else _time("--start", start, now)
    ends_at = _time("--until", until, now)
    if ends_at <= max(starts_at, now):
        raise ConfigError("--until must lie after the start, and after now")
    if ends_at - now > _YEAR:
        raise ConfigError("--until must lie within a year: a silence is to be thought of again")
    if not why.strip():
        raise ConfigError("--why must say something")
    silence = Silence(
        id=0,
        matchers=tuple(_matcher(text) for text in matchers),
        who=whoami(),
        why=why.strip(),
        created_at=now,
        starts_at=starts_at,
        ends_at=ends_at,
        weekly=None if weekly is None else checked("--weekly", parse_weekly, weekly),
        holds_rollback=hold_rollback,
    )
    with stored(database_url(database, config)) as repository:
        added = repository.alerts.silences.add(silence)
    if json:
        print_json({"schema": "monitor.silence/1", "silence": _document(added, now)})
    else:
        print_text(f"silence {added.id} added: {_line(added, now)}")
    return exits.OK


@app.command("list")
def list_(
    *,
    with_ended: Annotated[bool, typer.Option("--all", help="Show ended ones, too.")] = False,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """List the silences that are in force or will be."""
    now = SystemClock().utc()
    with stored(database_url(database, config)) as repository:
        silences = repository.alerts.silences
        found = silences.all() if with_ended else silences.current(now)
    if json:
        documents = [_document(silence, now) for silence in found]
        print_json({"schema": "monitor.silences/1", "silences": documents})
    else:
        lines = [f"{silence.id}  {_line(silence, now)}" for silence in found]
        print_text("\n".join(lines) if lines else "there is no silence")
    return exits.OK


@app.command()
def expire(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="One of those listed.")],
    *,
    config: ConfigOption = None,
    database: DatabaseOption = None,
) -> int:
    """End a silence now."""
    with stored(database_url(database, config)) as repository:
        repository.alerts.silences.expire(number, SystemClock().utc())
    print_text(f"silence {number} has ended")
    return exits.OK


def _time(option: str, text: str, now: float) -> float:
    try:
        return now + parse_duration(text)
    except ValueError:
        pass
    try:
        return parse_time(text)
    except ValueError as error:
        raise ConfigError(f"{option} {error}, or a duration such as 2h") from None


def _matcher(text: str) -> Matcher:
    return checked(repr(clean(text, 100)), parse_matcher, text)


def _document(silence: Silence, now: float) -> dict[str, Any]:
    expired = silence.expired_at
    return {
        **asdict(silence),
        "matchers": [str(matcher) for matcher in silence.matchers],
        "weekly": None if silence.weekly is None else str(silence.weekly),
        "created_at": iso(silence.created_at),
        "starts_at": iso(silence.starts_at),
        "ends_at": iso(silence.ends_at),
        "expired_at": None if expired is None else iso(expired),
        "state": silence.state(now),
    }


def _line(silence: Silence, now: float) -> str:
    matchers = " ".join(str(matcher) for matcher in silence.matchers)
    parts = [f"{silence.state(now)}, {clean(matchers)}, until {iso(silence.ends_at)[:16]}Z"]
    if silence.weekly is not None:
        parts.append(f"on {silence.weekly}")
    if silence.holds_rollback:
        parts.append("rollbacks held, too")
    return f"{', '.join(parts)}, by {clean(silence.who, 80)}: {clean(silence.why)}"
