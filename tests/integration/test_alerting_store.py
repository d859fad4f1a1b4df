"""Alerts in the database: written once, claimed by one, silenced, told to the end."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from alert_rows import NOON, notification, record, resolved
from sqlalchemy import Engine, event
from store_rows import dump, opened

from monitor.alerting.model import Reason, Severity
from monitor.alerting.routes import Route, Routing, parse_matcher
from monitor.alerting.silences import Silence
from monitor.model import StoreError
from monitor.store import schema
from monitor.store.alerts import AlertStore, IncidentFilter, write_news
from monitor.store.connect import writing
from monitor.store.outbox import Claimed, OutboxState, bury_strangers
from monitor.store.standing import AlertNews, AlertRow, save_standing
from monitor.weekly import parse_weekly

BOTH = Routing(("pager", "chat"))
LEASE = 60.0


@pytest.fixture
def store(engine: Engine) -> AlertStore:
    return AlertStore(engine)


def claim(store: AlertStore, receiver: str = "pager", now: float = NOON) -> Claimed | None:
    return store.outbox.claim(receiver, "me", now, LEASE)


def states(store: AlertStore, incident: str = "inc1") -> list[tuple[int, str | None, str | None]]:
    return [(d.sequence, d.receiver, d.state) for d in store.incident(incident).deliveries]


def silence(*matchers: str, **changes: object) -> Silence:
    values: dict[str, object] = {
        "id": 0,
        "matchers": tuple(parse_matcher(text) for text in matchers),
        "who": "ann",
        "why": "maintenance",
        "created_at": NOON,
        "starts_at": NOON - 10,
        "ends_at": NOON + 1000,
    }
    return Silence(**{**values, **changes})  # type: ignore[arg-type]


def test_written_twice_is_written_once(engine: Engine, store: AlertStore) -> None:
    rows = [AlertRow("harmful", "a", '{"state": "firing"}')]
    batch = [notification(), notification("inc2")]
    assert record(store, rows, batch, BOTH, NOON) == 2
    before = dump(engine)
    assert record(store, rows, batch, BOTH, NOON) == 0
    assert dump(engine) == before
    assert store.states() == {("harmful", "a"): '{"state": "firing"}'}
    assert len(before["outbox"]) == 4


def test_the_last_word_of_a_batch_stands_and_all_go_with_one_statement(
    engine: Engine, store: AlertStore
) -> None:
    def fires(target: str, state: str) -> AlertNews:
        return AlertNews((AlertRow("harmful", target, state),))

    def ends(target: str) -> AlertNews:
        return AlertNews(gone=(("harmful", target),))

    ticks = [fires("a", "1"), ends("a"), fires("a", "2"), fires("b", "1"), ends("b")]
    many = [fires(f"gpu{n}", "1") for n in range(20)]
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    with writing(engine) as connection:
        save_standing(connection, [(tick, NOON + n) for n, tick in enumerate(ticks + many)])
    event.remove(engine, "before_cursor_execute", note)
    assert store.states() == {
        ("harmful", name): "1" for name in (f"gpu{n}" for n in range(20))
    } | {("harmful", "a"): "2"}
    assert [text.split()[0] for text in seen if "alert_states" in text] == ["INSERT", "DELETE"]


def test_what_is_not_committed_leaves_nothing(engine: Engine, store: AlertStore) -> None:
    before = dump(engine)
    with suppress(ZeroDivisionError), writing(engine) as connection:
        write_news(connection, AlertNews(told=[notification()]), BOTH, NOON)
        raise ZeroDivisionError
    assert dump(engine) == before


def test_a_notification_comes_back_as_it_was(store: AlertStore) -> None:
    given = notification(runbook="https://runbooks/x", votes_for_rollback=True)
    record(store, [], [given], BOTH, NOON)
    claimed = claim(store)
    assert claimed is not None
    assert claimed.notification == given
    assert claimed.attempts == 1


def test_a_claimed_row_is_nobody_elses_until_its_lease_runs_out(store: AlertStore) -> None:
    record(store, [], [notification()], BOTH, NOON)
    first = claim(store)
    assert first is not None
    assert claim(store, now=NOON + LEASE - 1) is None
    second = store.outbox.claim("pager", "other", NOON + LEASE, LEASE)
    assert second is not None
    assert (second.id, second.attempts) == (first.id, 2)
    # The first one is too late to put it off, or to give it up, but what is sent is sent.
    assert not store.outbox.postpone(first, NOON + 99, "slow")
    assert not store.outbox.bury(first, NOON + 99, "slow")
    store.outbox.sent(first, NOON + 99)
    assert claim(store, now=NOON + 999) is None


def test_a_clock_that_was_set_back_does_not_hold_rows_up(store: AlertStore) -> None:
    record(store, [], [notification()], BOTH, NOON)
    claimed = claim(store)
    assert claimed is not None
    assert store.outbox.postpone(claimed, NOON + 60, "away")
    assert claim(store, now=NOON) is None
    assert claim(store, now=NOON - 86400.0) is not None
    # Neither does the lease of whoever took it before the clock was set back once more.
    assert claim(store, now=NOON - 3 * 86400.0) is not None


def test_messages_of_an_incident_keep_their_order(store: AlertStore) -> None:
    record(store, [], [notification(), resolved(), notification("inc2")], BOTH, NOON)
    first = claim(store)
    assert first is not None
    assert first.notification.sequence == 1
    assert store.outbox.postpone(first, NOON + 30, "HTTP 500")
    other = claim(store)
    assert other is not None
    assert other.notification.incident == "inc2"
    assert claim(store) is None
    again = claim(store, now=NOON + 30)
    assert again is not None
    store.outbox.sent(again, NOON + 31)
    end = claim(store, now=NOON + 31)
    assert end is not None
    assert end.notification.sequence == 2


def test_a_dead_letter_can_be_put_back(store: AlertStore) -> None:
    record(store, [], [notification()], BOTH, NOON)
    claimed = claim(store)
    assert claimed is not None
    assert store.outbox.bury(claimed, NOON + 5, "HTTP 404")
    (letter,) = store.outbox.dead_letters()
    assert (letter.receiver, letter.problem, letter.attempts) == ("pager", "HTTP 404", 1)
    assert claim(store, now=NOON + 9999) is None
    assert store.outbox.requeue(NOON + 100, key=letter.id) == 1
    again = claim(store, now=NOON + 100)
    assert again is not None
    assert (again.id, again.attempts, again.created_at) == (claimed.id, 1, NOON + 100)
    with pytest.raises(StoreError, match="no dead letter"):
        store.outbox.requeue(NOON, key=letter.id)


def test_rows_of_removed_receivers_are_given_up(store: AlertStore, engine: Engine) -> None:
    record(store, [], [notification()], BOTH, NOON)
    with writing(engine) as connection:
        assert bury_strangers(connection, ["chat"], NOON + 1) == 1
    (letter,) = store.outbox.dead_letters()
    assert (letter.receiver, letter.problem) == ("pager", "the receiver is no longer configured")


def test_a_silence_keeps_back_and_says_so(store: AlertStore) -> None:
    made = store.silences.add(silence("service=chat", "zone=z*"))
    record(store, [], [notification(), notification("inc2", service="code")], BOTH, NOON)
    assert states(store) == [(1, "chat", "silenced"), (1, "pager", "silenced")]
    assert states(store, "inc2") == [(1, "chat", "waiting"), (1, "pager", "waiting")]
    (one, _) = store.incident("inc1").deliveries
    assert (one.silence_id, one.problem) == (made.id, f"silence {made.id} by ann: maintenance")
    # The end of what was never told is not told either.
    record(store, [], [resolved()], BOTH, NOON + 2000)
    assert {state for number, _, state in states(store) if number == 2} == {"skipped"}


def test_the_end_of_what_was_told_is_told_in_a_silence_too(store: AlertStore) -> None:
    record(store, [], [notification()], BOTH, NOON)
    store.silences.add(silence())
    record(
        store,
        [],
        [notification(sequence=2, reason=Reason.REPEAT), resolved(sequence=3)],
        BOTH,
        NOON,
    )
    assert states(store)[2:] == [
        (2, "chat", "silenced"),
        (2, "pager", "silenced"),
        (3, "chat", "waiting"),
        (3, "pager", "waiting"),
    ]


def test_whoever_was_told_hears_the_rest(store: AlertStore) -> None:
    routing = Routing(
        ("pager", "chat"),
        (Route(("pager",), (parse_matcher("severity=critical"),)), Route(("chat",))),
    )
    record(store, [], [notification()], routing, NOON)
    calm = notification(sequence=2, reason=Reason.SEVERITY, severity=Severity.WARNING)
    record(store, [], [calm, resolved(sequence=3, severity=Severity.WARNING)], routing, NOON)
    assert states(store) == [
        (1, "pager", "waiting"),
        (2, "chat", "waiting"),
        (2, "pager", "waiting"),
        (3, "chat", "waiting"),
        (3, "pager", "waiting"),
    ]


@pytest.mark.parametrize(
    ("night", "told"),
    [
        (datetime(2026, 10, 25, tzinfo=UTC), {"00:30": False, "01:30": False, "02:30": True}),
        (datetime(2026, 3, 29, tzinfo=UTC), {"00:30": True, "01:05": False, "01:35": True}),
    ],
    ids=["an hour comes twice", "an hour is left out"],
)
def test_a_weekly_window_is_right_in_the_nights_in_which_clocks_are_set(
    store: AlertStore, night: datetime, told: dict[str, bool]
) -> None:
    """From 02:00 to 03:30 in Berlin: until 02:30 UTC in autumn, until 01:30 UTC in spring."""
    window = parse_weekly("sun 02:00-03:30 Europe/Berlin")
    begin = night.timestamp()
    store.silences.add(
        silence(weekly=window, created_at=begin, starts_at=begin, ends_at=begin + 86_400)
    )
    for shown, is_told in told.items():
        hour, minute = map(int, shown.split(":"))
        record(store, [], [notification(shown)], BOTH, begin + 3600 * hour + 60 * minute)
        state = "waiting" if is_told else "silenced"
        assert states(store, shown) == [(1, "chat", state), (1, "pager", state)], shown


def test_silences_end_by_themselves_or_by_hand(store: AlertStore) -> None:
    made = store.silences.add(silence("service=chat", holds_rollback=True))
    weekly = store.silences.add(
        silence(weekly=parse_weekly("mon-fri 22:00-06:00 Europe/Berlin"), ends_at=NOON + 1e6)
    )
    assert store.silences.current(NOON) == [made, weekly]
    store.silences.expire(made.id, NOON + 5)
    assert [found.id for found in store.silences.current(NOON + 6)] == [weekly.id]
    assert store.silences.current(NOON + 2e6) == []
    assert [found.expired_at for found in store.silences.all()] == [NOON + 5, None]
    with pytest.raises(StoreError, match="no silence"):
        store.silences.expire(made.id, NOON + 6)


def test_incidents_are_listed_and_shown(store: AlertStore) -> None:
    record(store, [], [notification(), resolved()], BOTH, NOON)
    record(store, [], [notification("inc2", at=NOON + 1)], Routing(), NOON)
    assert [found.id for found in store.incidents()] == ["inc2"]
    assert [found.id for found in store.incidents(IncidentFilter.ALL)] == ["inc2", "inc1"]
    story = store.incident("inc1")
    assert (story.incident.state, story.incident.ended_at) == ("resolved", NOON + 60)
    assert states(store, "inc2") == [(1, None, None)]
    with pytest.raises(StoreError, match="several incidents begin"):
        store.incident("inc")
    with pytest.raises(StoreError, match="no incident begins"):
        store.incident("%")


def test_the_newest_of_what_is_open_is_what_still_fires(store: AlertStore) -> None:
    batch = [
        notification(),
        notification(sequence=2, reason=Reason.REPEAT),
        notification(sequence=3, reason=Reason.NO_DATA),
        notification("inc2"),
    ]
    record(store, [], batch, Routing(("pager",)), NOON)
    while (claimed := claim(store)) is not None:
        store.outbox.sent(claimed, NOON)
    firing = store.outbox.firing("pager")
    assert sorted((n.incident, n.sequence) for n in firing) == [("inc1", 2), ("inc2", 1)]
    record(store, [], [resolved(sequence=4)], Routing(("pager",)), NOON)
    assert [n.incident for n in store.outbox.firing("pager")] == ["inc2"]


def test_two_senders_never_claim_the_same(postgresql_url: str) -> None:
    schema.upgrade(postgresql_url)
    count = 1000
    with opened(postgresql_url) as one, opened(postgresql_url) as other:
        batch = [notification(f"inc{number}") for number in range(count)]
        record(AlertStore(one), [], batch, Routing(("pager",)), NOON)
        together = threading.Barrier(2)

        def send(engine: Engine, owner: str) -> list[int]:
            outbox = AlertStore(engine).outbox
            together.wait()
            taken = []
            while True:
                claimed = outbox.claim("pager", owner, NOON, LEASE)
                if claimed is not None:
                    taken.append(claimed.id)
                    outbox.sent(claimed, NOON)
                elif ("pager", OutboxState.WAITING) not in outbox.counts():
                    return taken

        with ThreadPoolExecutor(2) as pool:
            taken = [*pool.map(send, (one, other), ("one", "other"))]
    assert len(taken[0]) + len(taken[1]) == count
    assert len({*taken[0], *taken[1]}) == count
