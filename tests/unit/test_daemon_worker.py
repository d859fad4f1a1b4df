from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from monitor.clock import FakeClock
from monitor.daemon.timeline import Timeline
from monitor.daemon.worker import Worker
from monitor.health.orders import Order, OrderKind
from monitor.health.peers import Peers
from monitor.model import Action, Assessment, Increment, ScrapeError, StoreError, Verdict
from monitor.pipeline import Page
from monitor.settings import TargetSettings
from monitor.sources.errors import FetchError, FetchKind
from monitor.store.rows import RoundRow
from monitor.turn.neighbours import SETTLE_SECONDS, Neighbours

TARGET = TargetSettings("a", "chat", "host:8000", interval=15.0)


def page(tokens: float) -> Page:
    lines = (
        "# TYPE vllm:num_requests_running gauge",
        'vllm:num_requests_running{engine="0",model_name="m"} 1.0',
        "# TYPE vllm:generation_tokens counter",
        f'vllm:generation_tokens_total{{engine="0",model_name="m"}} {tokens}',
    )
    return Page("\n".join((*lines, "")).encode())


class FakeFetcher:
    """Does what a test says at each fetch."""

    def __init__(self) -> None:
        self.answer: Callable[[], Page] = lambda: page(0.0)
        self.aborted = self.closed = self.asked_again = 0

    def fetch(self) -> Page:
        return self.answer()

    def ask_again(self) -> None:
        self.asked_again += 1

    def abort(self) -> None:
        self.aborted += 1

    def close(self) -> None:
        self.closed += 1


class Bench:
    """A worker with all that it needs, and what it gave away."""

    def __init__(self) -> None:
        self.clock = FakeClock(1_800_000_000.0)
        self.timeline = Timeline(self.clock)
        self.rows: list[RoundRow] = []
        self.tokens = 0.0
        self.fetcher = FakeFetcher()
        self.fetcher.answer = self.grow
        self.worker = self.make()

    def make(
        self,
        settings: TargetSettings = TARGET,
        predecessor: Worker | None = None,
        recall: Callable[[str], list[Increment]] = lambda _name: [],
    ) -> Worker:
        return Worker(
            settings,
            clock=self.clock,
            timeline=self.timeline,
            sink=self.rows.append,
            fetcher=self.fetcher,
            predecessor=predecessor,
            recall=recall,
        )

    def grow(self) -> Page:
        self.tokens += 100.0
        return page(self.tokens)

    def round(self, worker: Worker | None = None) -> RoundRow:
        worker = worker or self.worker
        self.clock.advance(15.0)
        assert worker.claim()
        worker.fetch()()
        return self.rows[-1]

    def tokens_of(self, rows: list[RoundRow]) -> float:
        return sum(i.counts.output_tokens for row in rows for i in row.increments)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def refuse() -> Page:
    raise FetchError(FetchKind.CONNECT, "connection refused by host:8000")


def stumble() -> Page:
    raise ZeroDivisionError("a mistake")


def test_each_round_gives_one_row(bench: Bench) -> None:
    rows = [bench.round() for _ in range(3)]
    assert [row.now for row in rows] == [1_800_000_015.0, 1_800_000_030.0, 1_800_000_045.0]
    assert bench.tokens_of(rows) == 200.0
    view = bench.worker.view()
    assert (view.rounds, view.late, view.page_age, dict(view.errors)) == (3, 0, 0.0, {})
    assert set(view.windows()) == set(TARGET.judge.windows)


def test_the_document_is_written_on_change_and_else_once_a_minute(bench: Bench) -> None:
    rows = [bench.round() for _ in range(30)]
    documents = [number for number, row in enumerate(rows) if row.document is not None]
    changes = [number for number, row in enumerate(rows) if row.change is not None]
    assert set(changes) <= set(documents)
    assert len(documents) < 15
    gaps = [after - before for before, after in pairwise(documents)]
    assert max(gaps) == 4
    latest = next(row.document for row in reversed(rows) if row.document is not None)
    assert json.loads(latest)["target"] == "a"


def test_a_failed_fetch_is_counted_by_kind_and_judged(bench: Bench) -> None:
    bench.round()
    bench.fetcher.answer = refuse
    for _ in range(4):
        row = bench.round()
    assert row.problem == "connection refused by host:8000"
    assert bench.worker.latest is not None
    assert bench.worker.latest.verdict is Verdict.DOWN
    assert bench.worker.since == 1_800_000_015.0 + 45.0
    assert dict(bench.worker.view().errors) == {"connect": 4}
    assert bench.worker.view().page_age == 60.0


def test_a_failure_without_a_kind_is_counted_too(bench: Bench) -> None:
    def fail() -> Page:
        raise ScrapeError("no")

    bench.fetcher.answer = fail
    bench.round()
    assert dict(bench.worker.view().errors) == {"other": 1}


def test_a_mistake_in_one_round_does_not_end_the_rounds(bench: Bench) -> None:
    bench.round()
    bench.fetcher.answer = stumble
    before = len(bench.rows)
    for _ in range(3):
        bench.round()
    assert (bench.worker.tick_errors, len(bench.rows)) == (3, before)
    bench.fetcher.answer = bench.grow
    bench.round()
    assert len(bench.rows) == before + 1


def test_a_round_that_comes_while_one_runs_is_late(bench: Bench) -> None:
    assert bench.worker.claim()
    assert not bench.worker.claim()
    bench.worker.fetch()()
    assert bench.worker.claim()
    assert bench.worker.late == 1


def test_a_wall_clock_set_back_neither_repeats_nor_loses_time(bench: Bench) -> None:
    bench.round()
    bench.round()
    bench.clock.set_utc(bench.clock.utc() - 3600)
    rows = [bench.round() for _ in range(3)]
    assert all(row.problem is None for row in rows)
    assert bench.tokens_of(rows) == 300.0
    spans = [(i.start, i.end) for row in bench.rows for i in row.increments]
    assert all(end == start for (_, end), (start, _) in pairwise(spans))


def test_a_clock_that_was_days_ahead_begins_anew(bench: Bench) -> None:
    bench.round()
    bench.clock.set_utc(bench.clock.utc() - 200_000)
    row = bench.round()
    assert (row.problem, row.increments) == (None, ())
    assert bench.round().increments


def test_an_heir_takes_over_when_the_last_scrape_is_over(bench: Bench) -> None:
    for _ in range(3):
        bench.round()
    heir = bench.make(TargetSettings("a", "chat", "host:8000", timeout=5.0), bench.worker)
    assert heir.latest is bench.worker.latest
    assert bench.worker.claim()
    assert not heir.claim()
    assert heir.late == 1
    bench.clock.advance(15.0)
    bench.worker.fetch()()
    bench.worker.retire()
    row = bench.round(heir)
    assert bench.tokens_of([row]) == 100.0
    assert bench.tokens_of(bench.rows) == bench.tokens - 100.0
    assert heir.since == bench.worker.since


def test_an_heir_goes_on_without_a_past_that_cannot_be_read(bench: Bench) -> None:
    def recall(_name: str) -> list[Increment]:
        raise StoreError("the database is away")

    bench.round()
    heir = bench.make(predecessor=bench.worker, recall=recall)
    assert bench.round(heir).problem is None


def test_a_server_that_started_anew_is_asked_who_it_is(bench: Bench) -> None:
    bench.round()
    bench.round()
    assert bench.fetcher.asked_again == 0
    bench.tokens = -100.0
    bench.round()
    assert bench.fetcher.asked_again == 1
    bench.round()
    assert bench.fetcher.asked_again == 1


def test_a_first_look_of_a_new_process_that_fails_keeps_the_verdict_and_what_is_stored(
    bench: Bench,
) -> None:
    for _ in range(5):
        row = bench.round()
    before = bench.worker.latest
    assert before is not None
    heir = bench.make()
    assert row.state is not None
    heir.restore(row.state, [i for r in bench.rows for i in r.increments], before.verdict, 1.0)
    bench.fetcher.answer = refuse
    row = bench.round(heir)
    assert (row.document, row.change, row.problem) == (
        None,
        None,
        "connection refused by host:8000",
    )
    assert heir.latest is not None
    assert (heir.latest.verdict, heir.since) == (before.verdict, 1.0)
    for _ in range(2):
        row = bench.round(heir)
    assert heir.latest.verdict is Verdict.DOWN
    assert row.change is not None


def test_a_page_that_comes_as_its_worker_retires_is_not_seen(bench: Bench) -> None:
    rows = len(bench.rows)

    def late() -> Page:
        bench.worker.retire()
        return page(100.0)

    bench.fetcher.answer = late
    assert bench.worker.claim()
    bench.worker.fetch()()
    assert len(bench.rows) == rows
    assert bench.worker.latest is None
    assert bench.fetcher.closed == 1


def test_a_retired_worker_does_nothing_more(bench: Bench) -> None:
    bench.worker.retire()
    assert (bench.fetcher.aborted, bench.fetcher.closed) == (1, 1)
    assert not bench.worker.claim()
    assert bench.worker.late == 0


def test_a_scrape_that_is_cut_off_by_the_end_is_no_outage(bench: Bench) -> None:
    bench.round()
    before = len(bench.rows)

    def cut_off() -> Page:
        bench.worker.retire()
        raise FetchError(FetchKind.CUT_SHORT, "closed")

    bench.fetcher.answer = cut_off
    bench.clock.advance(15)
    assert bench.worker.claim()
    bench.worker.fetch()()
    assert len(bench.rows) == before
    assert bench.fetcher.closed == 1


def test_a_claimed_round_that_starts_after_the_end_fetches_nothing(bench: Bench) -> None:
    assert bench.worker.claim()
    bench.worker.retire()
    bench.fetcher.answer = stumble
    bench.worker.fetch()()
    assert (bench.worker.tick_errors, bench.fetcher.closed) == (0, 1)


def pinned(row: RoundRow) -> list[float | None]:
    assert row.state is not None
    return [learnt["pinned"] for learnt in json.loads(row.state)["references"].values()]


def test_an_order_is_carried_out_once_and_the_row_that_shows_it_says_so(bench: Bench) -> None:
    bench.worker.order(7, Order(OrderKind.PIN, 0.7))
    first = bench.round()
    assert (first.obeyed, pinned(first)) == ([], []), "no page told yet which server this is"
    second, third = bench.round(), bench.round()
    assert (second.obeyed, pinned(second)) == ([7], [0.7])
    assert (third.obeyed, pinned(third)) == ([], [0.7])


def test_orders_are_carried_out_in_turn_and_while_the_server_is_down(bench: Bench) -> None:
    bench.round()
    bench.worker.order(7, Order(OrderKind.PIN, 0.7))
    bench.worker.order(7, Order(OrderKind.PIN, 0.7))
    bench.worker.order(8, Order(OrderKind.UNPIN))
    bench.fetcher.answer = refuse
    row = bench.round()
    assert (row.obeyed, pinned(row)) == ([7, 8], [None])


def test_an_heir_keeps_what_was_ordered(bench: Bench) -> None:
    bench.round()
    bench.worker.order(7, Order(OrderKind.PIN, 0.7))
    bench.round()
    assert pinned(bench.round(bench.make(predecessor=bench.worker))) == [0.7]


def test_a_worker_tells_its_neighbours_and_hears_of_them() -> None:
    bench, neighbours = Bench(), Neighbours()
    others = [replace(TARGET, name=name) for name in ("b", "c")]
    fallen = Assessment("", 0.0, Verdict.DEGRADED, None, Action.NONE, "")
    for target in (TARGET, *others):
        neighbours.tell(target, fallen, bench.clock.utc() - SETTLE_SECONDS)
    worker = Worker(
        TARGET,
        clock=bench.clock,
        timeline=bench.timeline,
        sink=bench.rows.append,
        fetcher=bench.fetcher,
        neighbours=neighbours,
    )
    assert worker.claim()
    worker.fetch()()
    assert worker._turn.pipeline._state.peers == Peers(fallen=2)
    # A first look knows nothing, so the worker has no say now.
    assert neighbours.around(others[0], bench.clock.utc()) == Peers(fallen=1)


def test_what_a_target_did_is_summed_over_restarts_and_heirs(bench: Bench) -> None:
    rows = [bench.round() for _ in range(3)]
    bench.tokens = -70.0
    rows.append(bench.round())
    heir = bench.make(replace(TARGET, interval=30.0), predecessor=bench.worker)
    assert heir.view().totals == bench.worker.view().totals
    rows.append(bench.round())
    bench.worker.retire()
    rows.append(bench.round(heir))
    totals = heir.view().totals
    assert totals.output_tokens == bench.tokens_of(rows) > 0.0
    assert totals.resets == 1.0
