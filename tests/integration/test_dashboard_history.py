"""The history dashboard's SQL on a real PostgreSQL, by a user who may read nothing but views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from sqlalchemy import Engine, insert, text
from sqlalchemy.exc import ProgrammingError
from store_rows import NOON, change, increment, opened, row, target

from benchmarks.panel_sql import fill, panel_queries
from monitor.model import Verdict
from monitor.store import schema
from monitor.store.connect import reading, writing
from monitor.store.repository import Repository
from monitor.store.rollup import roll_up
from monitor.store.tables import incidents, rollback_decisions
from monitor.web.judged import SEVERITY_CODES

END = NOON - NOON % 3600.0
START = END - 3600.0
QUERIES = {**dict(panel_queries()), **dict(panel_queries("service.json"))}
CHOSEN = {"service": ["chat", "code"], "target": ["a", "b", "o'c"]}


@pytest.fixture(scope="module")
def stored(new_postgresql: Callable[[], AbstractContextManager[str]]) -> Iterator[Engine]:
    """Two services: one that gains at low and loses at high load, and one without a baseline."""
    with new_postgresql() as url:
        schema.upgrade(url)
        with opened(url) as engine:
            _fill(Repository(engine))
            # The last minutes are not rolled up yet, and must be there all the same.
            while roll_up(engine, END - 600.0):
                pass
            yield engine


def _fill(repository: Repository) -> None:
    repository.register([target("a"), target("b"), target("o'c", "code")], START)
    rows = []
    for number in range(240):
        end = START + 15.0 * (number + 1)
        busy = number >= 120
        shared: dict[str, Any] = {"seconds": 15.0, "drafts": 100.0, "draft_tokens": 300.0}
        a = increment(
            end,
            **shared,
            accepted_tokens=200.0,
            output_tokens=301.0,
            decode_seconds=6.0,
            decode_tokens=300.0,
            baseline_seconds=4.5 if busy else 9.0,
            compared_seconds=6.0,
            running_seconds=15.0 * (6.0 if busy else 3.0),
            resets=1.0 if number == 60 else 0.0,
        )
        b = increment(end, "0", **shared, accepted_tokens=50.0, running_seconds=30.0)
        c = increment(
            end, "0", seconds=15.0, drafts=10.0, accepted_tokens=9.0, unsized_drafts=10.0
        )
        more: dict[str, Any] = {}
        if number in {0, 119}:
            word = Verdict.HARMFUL if number else Verdict.HEALTHY
            more = {"change": change(word, f"It is {word}."), "document": "{}"}
        rows += [row(end, a, **more), row(end, b, name="b"), row(end, c, name="o'c")]
    repository.write_round(rows)


def ask(engine: Engine, title: str, **more: Any) -> list[tuple[Any, ...]]:
    """The rows of a panel, as the role of the datasource sees them."""
    sql = fill(QUERIES[title], START, END, more.pop("interval", 1800.0), {**CHOSEN, **more})
    with reading(engine) as connection:
        connection.execute(text("SET LOCAL ROLE monitor_reader"))
        return [tuple(found) for found in connection.exec_driver_sql(sql.replace("%", "%%"))]


@pytest.mark.parametrize("title", QUERIES)
def test_every_query_runs_for_the_reader(stored: Engine, title: str) -> None:
    for interval in (60.0, 900.0):
        ask(stored, title, interval=interval)


def test_the_reader_sees_no_table(stored: Engine) -> None:
    for table in ("targets", "samples", "target_states", "outbox"):
        with reading(stored) as connection:
            connection.execute(text("SET LOCAL ROLE monitor_reader"))
            with pytest.raises(ProgrammingError, match="denied"):
                connection.exec_driver_sql(f"SELECT * FROM {table}")


@pytest.mark.parametrize("interval", [60.0, 1800.0])
def test_what_is_rolled_up_and_what_is_not_yet_come_to_the_same(
    stored: Engine, interval: float
) -> None:
    titles = ("Speedup by service A", "Acceptance length by service A", "Running requests A")
    before = [ask(stored, title, interval=interval) for title in titles]
    while roll_up(stored, END + 3600.0):
        pass
    assert [ask(stored, title, interval=interval) for title in titles] == before


def test_figures_are_quotients_of_sums(stored: Engine) -> None:
    half = START + 1800.0
    assert ask(stored, "Speedup by service A", service=["chat"]) == [
        (START, "chat", 1.5),
        (half, "chat", 0.75),
    ]
    assert ask(stored, "Speedup in this time A") == [(pytest.approx(1.125),)]
    assert ask(stored, "Decode time saved A") == [(pytest.approx(240 * 0.75),)]
    lengths = ask(stored, "Acceptance length by service A")
    assert lengths[0] == (START, "chat", pytest.approx(1.0 + 250.0 / 200.0))
    tpot, without = (
        ask(stored, f"Time per output token (dashed: without speculation) {ref}", service=["chat"])
        for ref in "AB"
    )
    assert [value for *_, value in tpot] == pytest.approx([0.02, 0.02])
    assert [value for *_, value in without] == pytest.approx([0.03, 0.015])
    running = ask(stored, "Running requests A", service=["chat"])
    assert [value for *_, value in running] == pytest.approx([5.0, 8.0])
    restarts = ask(stored, "Restarts of servers A", service=["chat"])
    assert [value for *_, value in restarts] == [1.0, 0.0]


def test_the_speedup_is_told_apart_by_load_and_target(stored: Engine) -> None:
    assert ask(stored, "Speedup by load A") == [("2 to 4", 1.5), ("4 to 8", 0.75)]
    worst = ask(stored, "Worst targets A")
    # What is not known stands last, and is not zero: that server does not tell its draft size.
    assert [(found[1], found[2], found[4]) for found in worst] == [
        ("a", pytest.approx(1.125), pytest.approx(2.0 / 3.0)),
        ("b", None, pytest.approx(1.0 / 6.0)),
        ("o'c", None, None),
    ]


def test_a_verdict_holds_until_the_next_one(stored: Engine) -> None:
    changes = ask(stored, "Verdict by target A")
    assert [(metric, severity) for _, metric, severity in changes] == [
        ("a", SEVERITY_CODES[Verdict.HEALTHY]),
        ("a", SEVERITY_CODES[Verdict.HARMFUL]),
    ]
    shares = {word: float(share) for word, share in ask(stored, "Time by verdict A")}
    assert shares == pytest.approx({"healthy": 119 / 239, "harmful": 120 / 239})
    decisions = ask(stored, "Decisions, newest first A")
    assert [found[-1] for found in decisions] == ["It is harmful.", "It is healthy."]
    words = ask(stored, "The last decisions, in words A", service=["chat"], target=["a"])
    assert [found[1:] for found in words] == [
        ("a", "harmful", "It is harmful."),
        ("a", "healthy", "It is healthy."),
    ]


def test_every_verdict_has_the_number_that_the_metrics_give_it(stored: Engine) -> None:
    with writing(stored) as connection:
        for number, verdict in enumerate(Verdict):
            connection.exec_driver_sql(
                "INSERT INTO verdicts VALUES"
                f" (2, {END + 1.0 + number}, '{verdict}', NULL, 'none', '', '')"
            )
    with reading(stored) as connection:
        found = connection.exec_driver_sql("SELECT DISTINCT verdict, severity FROM v_verdicts")
        assert {Verdict(word): code for word, code in found} == SEVERITY_CODES


def test_alerts_and_rollbacks_are_told(stored: Engine) -> None:
    alert = {
        "id": "i", "rule": "harmful", "service": "chat", "target": "a", "severity": "critical",
        "state": "firing", "started_at": END - 60.0, "ended_at": None, "at": END,
        "sequence": 1, "title": "a: it costs", "sentence": "It costs.",
    }  # fmt: skip
    decision = {
        "service": "chat", "at": END - 30.0, "kind": "proposed", "mode": "propose",
        "phase": "armed", "share": 1.0, "pages": True, "sentence": "Roll back.", "evidence": "{}",
    }  # fmt: skip
    with writing(stored) as connection:
        connection.execute(insert(incidents), [alert, {**alert, "id": "j", "service": "other"}])
        connection.execute(insert(rollback_decisions), [decision])
    assert [found[-1] for found in ask(stored, "Alerts A")] == ["a: it costs"]
    assert [found[-1] for found in ask(stored, "Rollbacks A")] == ["Roll back."]
    (shown,) = ask(stored, "annotations: Alerts")
    assert shown[2:] == ("a: it costs", "critical,harmful")
    (shown,) = ask(stored, "annotations: Rollbacks")
    assert shown[1:] == ("Roll back.", "proposed,propose")
