"""What is kept of rows while the database is away, for however long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.model import Notification, Reason, Severity, State
from monitor.daemon.backlog import Backlog
from monitor.store.rows import RoundRow
from monitor.store.standing import NO_NEWS, AlertNews, AlertRow

ONE = Notification(
    incident="i",
    sequence=1,
    at=0.0,
    reason=Reason.FIRST,
    state=State.FIRING,
    rule="harmful",
    severity=Severity.CRITICAL,
    service="chat",
    target="a",
    started_at=0.0,
    ended_at=None,
    title="",
    sentence="",
    cause=None,
    action="none",
)

NEWS = st.one_of(
    st.just(None),
    st.tuples(st.lists(st.sampled_from("RS")), st.lists(st.sampled_from("RS")), st.booleans()),
)
LOOKS = st.lists(st.tuples(st.sampled_from("abc"), NEWS, st.booleans()), max_size=60)


def row(now: float, target: str, news: tuple[list[str], list[str], bool] | None) -> RoundRow:
    alerts = NO_NEWS
    if news is not None:
        standing, gone, told = news
        alerts = AlertNews(
            tuple(AlertRow(rule, target, str(now)) for rule in dict.fromkeys(standing)),
            tuple((rule, target) for rule in dict.fromkeys(gone) if rule not in standing),
            (replace(ONE, sequence=int(now), target=target),) if told else (),
        )
    return RoundRow(target, now, (), "{}", alerts=alerts)


def standing(rows: Iterable[RoundRow]) -> dict[tuple[str, str], str]:
    """Where alerts stand once these rows are written."""
    found: dict[tuple[str, str], str] = {}
    for each in rows:
        found |= {(one.rule, one.target): one.state for one in each.alerts.rows}
        for key in each.alerts.gone:
            found.pop(key, None)
    return found


def told(rows: Iterable[RoundRow]) -> list[int]:
    return [one.sequence for each in rows for one in each.alerts.told]


@given(looks=LOOKS, limit=st.integers(0, 20), batch=st.integers(1, 10))
def test_alerts_stand_and_are_told_as_if_nothing_had_been_dropped(
    looks: list[tuple[str, tuple[list[str], list[str], bool] | None, bool]],
    limit: int,
    batch: int,
) -> None:
    backlog, whole = Backlog(limit), []
    for now, (target, news, failing) in enumerate(looks):
        whole.append(row(float(now), target, news))
        backlog.put(whole[-1])
        if failing:
            backlog.put_back(backlog.take(batch))
    waiting = len(backlog)
    messages = told(whole)
    # Between two messages of a target there is at most one row that says how its alerts stood.
    assert waiting <= max(limit, 2 * len(messages) + 3)
    written = [each for _ in range(waiting) for each in backlog.take(batch)]
    assert standing(written) == standing(whole)
    assert sorted(told(written)) == messages
    for target in "abc":
        times = [each.now for each in written if each.target == target]
        assert times == sorted(set(times))
    figures = [each.now for each in written if each.state is not None]
    assert len(whole) - len(figures) == backlog.dropped


def test_what_fires_for_days_does_not_fill_the_memory() -> None:
    backlog = Backlog(limit=100)
    for now in range(20_000):
        backlog.put(row(float(now), f"target-{now % 50}", (["R"], [], False)))
    assert len(backlog) == 100
    assert set(standing(backlog.take(100))) == {("R", f"target-{n}") for n in range(50)}
