"""``monitor rollback plan``: what a rollback would do, and what is in its way now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from monitor.cli import exits
from monitor.cli.locate import checked_database, find_config
from monitor.cli.options import CONFIG_FILE, ConfigOption, DatabaseOption, JsonOption
from monitor.cli.output import clean, print_json, print_text
from monitor.cli.stored import stored
from monitor.clock import SystemClock
from monitor.config.load import load
from monitor.config.problems import did_you_mean
from monitor.config.rollback_words import rollback_sentence
from monitor.model import ActuatorError, ConfigError
from monitor.rollback.actuators.nowhere import Nowhere
from monitor.rollback.asks import attainable
from monitor.rollback.evidence import Circumstances
from monitor.rollback.fleet import FLEET, Fleet
from monitor.rollback.judge import failure
from monitor.rollback.model import IDLE
from monitor.rollback.probe import ServiceProbe
from monitor.rollback.scene import Scene
from monitor.rollback.settings import Mode, Policy
from monitor.rollback.state import State
from monitor.rollback.waiting import obstacle
from monitor.settings import DaemonSettings, Role, RollbackSettings
from monitor.store.lease import DAEMON
from monitor.store.repository import Repository

LOOK_SECONDS = 10.0
"""Deadline of each look at servers and routers."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A service, how it is configured, and where it stands."""

    service: str
    settings: DaemonSettings
    given: RollbackSettings
    policy: Policy
    state: State
    now: float


def plan(
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="Name of the service.")],
    *,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask neither servers nor routers.")
    ] = False,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Say what a rollback would do and what is in its way; nothing is changed.

    Exit code 0 when nothing is in its way, 1 when something is.
    """
    settings = _settings(config, database)
    services = list(dict.fromkeys(target.service for target in settings.targets))
    if service not in services:
        hint = did_you_mean(service, services)
        raise ConfigError(f"{clean(service, 100)!r} is not a configured service; {hint}")
    given = settings.rollbacks.get(service, RollbackSettings())
    actuator = given.actuator or Nowhere()
    policy = attainable(given.policy, actuator.reachable)
    now = SystemClock().utc()
    with stored(settings.database) as repository:
        text = repository.rollbacks.load(service)
        state = State(service) if text is None else State.from_json(text)
        case = _Case(service, settings, given, policy, state, now)
        obstacles = [*_obstacles(case, repository)]
    looks = [] if offline else [*_looks(case)]
    obstacles += [said for said, ok in looks if not ok]
    document = {
        "schema": "monitor.rollback_plan/1",
        "service": service,
        "sentence": rollback_sentence(given),
        "looks": [said for said, _ in looks],
        "steps": [*_steps(case)],
        "obstacles": obstacles,
    }
    if json:
        print_json(document)
    else:
        print_text("\n".join(_lines(document)))
    return exits.BAD if obstacles else exits.OK


def _settings(config: Any, database: str | None) -> DaemonSettings:
    path = find_config(config)
    if path is None:
        raise ConfigError(f"there is no {CONFIG_FILE} here: name the configuration with -c FILE")
    settings = load(path).settings()
    return settings if database is None else replace(settings, database=checked_database(database))


def _obstacles(case: _Case, repository: Repository) -> Iterator[str]:
    """What is in the way by what is configured and stored."""
    policy, state = case.policy, case.state
    if policy.mode is Mode.OBSERVE:
        yield "the mode is observe: it would only be written down"
    if case.given.actuator is None:
        yield "no actuator is configured: nothing can be moved"
    if policy.mode is Mode.PROPOSE or any(q.covers(case.now) for q in policy.limits.quiet):
        yield f"it waits for 'monitor rollback approve {case.service}'"
    if state.phase not in IDLE:
        yield f"one is in progress already: {state.phase.value}"
    lease = repository.leases.read(DAEMON)
    if lease is None or lease.left <= 0.0:
        yield "no daemon leads on this database: 'monitor run' does what is planned"
    around = Circumstances(frozen=_frozen(repository), held=_held(case, repository))
    if said := obstacle(Scene(state, policy, around, case.now)):
        yield said
    if not _voters(case, repository):
        yield "no alert with a vote for a rollback fires for it now"


def _frozen(repository: Repository) -> str | None:
    text = repository.rollbacks.load(FLEET)
    fleet = Fleet() if text is None else Fleet.from_json(text)
    return fleet.why if fleet.frozen_at is not None else None


def _held(case: _Case, repository: Repository) -> str | None:
    for silence in repository.alerts.silences.current(case.now):
        if silence.holds_rollback and silence.is_active(case.now):
            matchers = " ".join(str(matcher) for matcher in silence.matchers)
            if silence.covers({"service": case.service, "rule": "rollback"}, case.now):
                return f"silence {silence.id} by {silence.who} ({matchers}): {silence.why}"
    return None


def _voters(case: _Case, repository: Repository) -> list[str]:
    """Rules with a vote that fire for the service."""
    voting = {rule.id for rule in case.settings.rules if rule.votes_for_rollback}
    heard = set(case.policy.voting.rules) or voting
    return [
        incident.rule
        for incident in repository.alerts.incidents(limit=1000)
        if incident.service == case.service and incident.rule in voting & heard
    ]


def _looks(case: _Case) -> Iterator[tuple[str, bool]]:
    """What the router and the plain servers say now, and whether that is well."""
    if case.given.actuator is not None:
        try:
            yield f"traffic now: {case.given.actuator.observe(LOOK_SECONDS).detail}", True
        except ActuatorError as error:
            yield f"the traffic cannot be seen: {error}", False
    plain = [
        target
        for target in case.settings.targets
        if target.service == case.service and target.role is Role.BASELINE
    ]
    if not plain:
        yield "there is no plain server: baseline.targets is empty", False
    probe = ServiceProbe(plain, (), model=case.policy.precheck.model)
    for found in probe.complete_baseline(LOOK_SECONDS):
        said = failure(found, case.policy.precheck.slowest)
        answered = f"answered with {found.tokens} tokens in {found.seconds:.2f} s"
        yield f"{found.target} {said or answered}", not said


def _steps(case: _Case) -> Iterator[str]:
    policy, given = case.policy, case.given
    actuator, check, shift = given.actuator or Nowhere(), policy.precheck, policy.shift
    model = f", as {check.model}" if check.model else ""
    yield (
        f"ask each plain server for a few tokens twice, {check.pause:g} s apart{model}, "
        "and see its counters move"
    )
    if given.starter is not None and policy.start.can_start:
        yield f"where none answers: {given.starter.would_start()}, and wait until it serves"
    for share in shift.steps:
        yield f"{actuator.would(share)}, and watch both sides for {shift.hold:g} s"
    yield f"verify by traffic, errors and time per token for {policy.verify.seconds:g} s"
    yield "park the speculative side: it keeps running until 'monitor rollback rearm'"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    yield f"{document['service']}: {document['sentence']}"
    yield from ("", "It would:")
    for number, step in enumerate(document["steps"], start=1):
        yield f"  {number}. {clean(step)}"
    if document["looks"]:
        yield from ("", "Seen now:", *(f"  {clean(look)}" for look in document["looks"]))
    yield ""
    if document["obstacles"]:
        yield "Not now, because:"
        yield from (f"  {clean(said)}" for said in document["obstacles"])
    else:
        yield "Nothing is in its way."
