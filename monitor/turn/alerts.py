"""The alerts about one target: each tick steps them, and the row of the tick carries the news."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import structlog

from monitor.alerting.machine import AlertState, applying, close, step, votes
from monitor.alerting.model import Notification, State
from monitor.alerting.rules import Facts, Rule
from monitor.model import Alarm, StoreError
from monitor.pipeline import Tick
from monitor.report import to_document
from monitor.settings import TargetSettings
from monitor.store.standing import NO_NEWS, AlertNews, AlertRow
from monitor.web.view import FiringAlert

_log = structlog.get_logger(__name__)


class Alerts:
    """Where the alerts about one target stand. Not safe from several threads.

    What is news is stored with the tick it comes from, in one transaction; after a crash the
    alerts go on from where that transaction left them.
    """

    def __init__(
        self,
        target: TargetSettings,
        rules: Callable[[], Sequence[Rule]],
        moving: Callable[[], bool] = bool,
    ) -> None:
        self.votes: tuple[str, ...] = ()
        """The rules that vote for a rollback by the last tick."""
        self._target = target
        self._rules = rules
        self._moving = moving
        self._states: Mapping[str, AlertState] = {}
        self._all: Sequence[Rule] = ()
        self._own: Mapping[str, Rule] = {}

    def restore(self, texts: Mapping[str, str]) -> None:
        """Goes on from what is stored, by rule; what cannot be read begins anew."""
        self._states = read_states(self._target.name, texts)

    def texts(self) -> dict[str, str]:
        """Where they stand, by rule, as ``restore`` takes it."""
        return {rule: state.to_json() for rule, state in self._states.items()}

    def inherit(self, predecessor: Alerts) -> None:
        """Goes on where the alerts of the same target stood under other settings."""
        self._states = predecessor._states

    def firing(self) -> list[FiringAlert]:
        """Those that fire now."""
        return [
            FiringAlert(
                state.rule,
                state.severity,
                state.incident or "",
                state.at if state.started_at is None else state.started_at,
                state.title,
            )
            for state in self._states.values()
            if state.state is State.FIRING
        ]

    @property
    def speak_against_learning(self) -> bool:
        """Whether one fires that says more than that there is no baseline."""
        return any(
            state.state is State.FIRING
            and not (name in self._own and self._own[name].asks_for_baseline)
            for name, state in self._states.items()
        )

    def is_flapping(self) -> bool:
        """Whether an alert of a rule with a vote comes and goes."""
        return any(
            state.flapping and rule in self._own and self._own[rule].votes_for_rollback
            for rule, state in self._states.items()
        )

    def take(
        self, tick: Tick, alarms: tuple[Alarm, ...], now: float, *, keep: bool = True
    ) -> AlertNews:
        """Takes in a tick; what to tell of it and, if ``keep``, to store of where they stand."""
        target, before = self._target, self._states
        facts = Facts(
            tick.assessment,
            target.service,
            role=target.role,
            labels=target.labels,
            fresh=tick.fresh,
            alarms=alarms,
            threshold=target.judge.threshold,
            threshold_is_set=target.threshold_is_set,
            document=lambda: to_document(tick.assessment),
            moving=self._moving(),
        )
        if (rules := self._rules()) is not self._all:
            self._all, self._own = rules, applying(rules, facts)
        self._states, told = step(self._own, before, facts, now, target.interval)
        self.votes = votes(self._own.values(), self._states, facts)
        if not keep:
            return AlertNews(told=told) if told else NO_NEWS
        return _news(target.name, before, self._states, told)


def read_states(target: str, texts: Mapping[str, str]) -> dict[str, AlertState]:
    """The stored alerts of a target by rule; what cannot be read is left out, and said."""
    states = {}
    for rule, text in texts.items():
        try:
            states[rule] = AlertState.from_json(text)
        except StoreError as error:
            _log.error("an alert begins anew", target=target, rule=rule, error=str(error))
    return states


def closing(target: str, service: str, texts: Mapping[str, str], now: float) -> AlertNews:
    """Ends the alerts of a target that is no longer watched."""
    before = read_states(target, texts)
    _, told = close(before, service, target, now, "the target is no longer watched")
    return AlertNews((), tuple((rule, target) for rule in texts), told)


def _news(
    target: str,
    before: Mapping[str, AlertState],
    after: Mapping[str, AlertState],
    told: Sequence[Notification],
) -> AlertNews:
    rows = tuple(
        AlertRow(rule, target, state.to_json())
        for rule, state in after.items()
        if _has_moved(before.get(rule), state)
    )
    gone = tuple((rule, target) for rule in before.keys() - after.keys())
    return AlertNews(rows, gone, told) if rows or gone or told else NO_NEWS


def _has_moved(before: AlertState | None, after: AlertState) -> bool:
    """Whether there is more to store than that an alert was looked at which nothing is up with.

    What has ended is remembered for hours, for the flapping of what may come.
    """
    if before is None or after.state in (State.PENDING, State.FIRING):
        return before != after
    return before._replace(at=after.at) != after
