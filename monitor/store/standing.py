"""Where alerts stand: one row for each rule and target about which there is anything to remember.

A firing alert moves with each look at its target, so these rows are written with each round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, delete

from monitor.alerting.model import Notification
from monitor.store.connect import insert_into
from monitor.store.tables import alert_states
from monitor.store.text import clean_document


@dataclass(frozen=True, slots=True)
class AlertRow:
    """Where the alert of one rule about one target stands, as text of the state machine."""

    rule: str
    target: str
    state: str


class AlertNews(NamedTuple):
    """What one tick changed about the alerts of its target."""

    rows: Sequence[AlertRow] = ()
    gone: Sequence[tuple[str, str]] = ()
    """Alerts to forget, by rule and target."""
    told: Sequence[Notification] = ()

    def then(self, later: AlertNews) -> AlertNews:
        """What both changed, one after the other."""
        rows = {(row.rule, row.target): row for row in self.rows}
        gone = dict.fromkeys(self.gone)
        for row in later.rows:
            rows[row.rule, row.target] = row
            gone.pop((row.rule, row.target), None)
        for key in later.gone:
            rows.pop(key, None)
            gone[key] = None
        return AlertNews((*rows.values(),), (*gone,), (*self.told, *later.told))


NO_NEWS = AlertNews()


def save_standing(connection: Connection, news: Iterable[tuple[AlertNews, float]]) -> None:
    """Stores where alerts stand after ticks, given in their order with the time of each.

    All go with one statement: to make one for each tick costs far more than the database does.
    """
    last: dict[tuple[str, str], tuple[str, float] | None] = {}
    for one, now in news:
        last |= {(row.rule, row.target): (row.state, now) for row in one.rows}
        last |= dict.fromkeys(one.gone)
    values = [
        {"rule": rule, "target": target, "at": state[1], "state": clean_document(state[0])}
        for (rule, target), state in last.items()
        if state is not None
    ]
    if values:
        statement = insert_into(connection.engine, alert_states)
        new = statement.excluded
        statement = statement.on_conflict_do_update(
            index_elements=["rule", "target"], set_={"at": new.at, "state": new.state}
        )
        connection.execute(statement, values)
    column = alert_states.c
    for rule, target in (key for key, state in last.items() if state is None):
        connection.execute(
            delete(alert_states).where(column.rule == rule, column.target == target)
        )
