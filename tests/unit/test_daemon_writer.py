from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from monitor.alerting.model import Notification, Reason, Severity, State
from monitor.clock import FakeClock
from monitor.daemon.writer import MAX_BATCH, Writer
from monitor.model import StoreError
from monitor.store.rows import RoundRow
from monitor.store.standing import AlertNews

PATIENCE = 30.0


class FakeStore:
    """Takes rows unless it is told to be broken."""

    def __init__(self) -> None:
        self.rows: list[float] = []
        self.batches: list[int] = []
        self.refuse: Callable[[Sequence[RoundRow]], Exception | None] = lambda _batch: None

    def write_round(self, batch: Sequence[RoundRow]) -> int:
        problem = self.refuse(batch)
        if problem is not None:
            raise problem
        self.batches.append(len(batch))
        self.rows += [row.now for row in batch]
        return 0


def row(now: float, target: str = "a") -> RoundRow:
    return RoundRow(target, now, (), "{}")


def writer_on(store: FakeStore, clock: FakeClock | None = None, max_rows: int = 100) -> Writer:
    writer = Writer(store, clock or FakeClock(), max_rows=max_rows)
    writer.accept(frozenset({"a"}))
    return writer


def away(_batch: Sequence[RoundRow]) -> Exception:
    return StoreError("database x: no route to host")


def test_all_that_waits_goes_in_one_transaction() -> None:
    store = FakeStore()
    writer = writer_on(store)
    for now in range(5):
        writer.put(row(now))
    assert writer.flush()
    assert (store.rows, store.batches, writer.written) == ([0, 1, 2, 3, 4], [5], 5)


def test_a_transaction_is_bounded() -> None:
    store = FakeStore()
    writer = writer_on(store, max_rows=3 * MAX_BATCH)
    for now in range(2 * MAX_BATCH + 1):
        writer.put(row(now))
    assert writer.flush()
    assert store.batches == [MAX_BATCH, MAX_BATCH, 1]


def test_rows_wait_while_the_database_is_away_and_keep_their_order() -> None:
    clock, store = FakeClock(), FakeStore()
    writer = writer_on(store, clock)
    store.refuse = away
    for now in range(4):
        writer.put(row(now))
        assert not writer.flush()
    clock.advance(60)
    assert (writer.errors, writer.queued, writer.age()) == (4, 4, 60.0)
    store.refuse = lambda _batch: None
    writer.put(row(4))
    assert writer.flush()
    assert (store.rows, writer.dropped, writer.age()) == ([0, 1, 2, 3, 4], 0, 0.0)


def test_an_outage_is_logged_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    store = FakeStore()
    lines: list[str] = []
    writer = writer_on(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("monitor.daemon.writer._log", _Recorder(lines))
        store.refuse = away
        for now in range(5):
            writer.put(row(now))
            writer.flush()
        store.refuse = lambda _batch: None
        writer.flush()
    assert lines == ["error", "info"]


class _Recorder:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda *_args, **_kwargs: self._lines.append(level)


def test_the_oldest_rows_are_dropped_when_there_are_too_many() -> None:
    store = FakeStore()
    writer = writer_on(store, max_rows=3)
    store.refuse = away
    for now in range(10):
        writer.put(row(now))
        writer.flush()
    store.refuse = lambda _batch: None
    writer.flush()
    assert (store.rows, writer.dropped) == ([7, 8, 9], 7)


def test_a_row_with_news_is_never_the_one_that_is_dropped() -> None:
    store = FakeStore()
    writer = writer_on(store, max_rows=3)
    store.refuse = away
    told = Notification(
        "i", 1, 0.0, Reason.FIRST, State.FIRING, "harmful", Severity.CRITICAL, "chat", "a", 0.0,
        None, "", "", None, "none",
    )  # fmt: skip
    news = AlertNews(told=(told,))
    for now in range(10):
        plain = row(now)
        writer.put(plain._replace(alerts=news) if now in (1, 4) else plain)
        writer.flush()
    writer.put(row(10)._replace(obeyed=(7,)))
    assert (writer.queued, writer.dropped) == (3, 8)
    for now in (11, 12):
        writer.put(row(now))
        writer.flush()
    store.refuse = lambda _batch: None
    writer.flush()
    assert store.rows == [1, 4, 10]


def test_a_row_that_cannot_be_written_does_not_block_the_others() -> None:
    store = FakeStore()
    writer = writer_on(store)
    store.refuse = lambda batch: TypeError("bad") if any(r.now == 2 for r in batch) else None
    for now in range(5):
        writer.put(row(now))
    writer.flush()
    assert (store.rows, writer.written, writer.dropped) == ([0, 1, 3, 4], 4, 1)


def test_rows_of_targets_that_were_removed_are_left_out() -> None:
    store = FakeStore()
    writer = writer_on(store)
    writer.put(row(0, "gone"))
    writer.put(row(1))
    writer.flush()
    assert (store.rows, writer.queued) == ([1], 0)


@pytest.fixture
def running() -> Iterator[tuple[FakeStore, Writer]]:
    store = FakeStore()
    writer = writer_on(store)
    writer.start()
    yield store, writer
    writer.stop(PATIENCE)


def test_a_call_runs_in_the_writing_thread_after_what_waits(
    running: tuple[FakeStore, Writer],
) -> None:
    store, writer = running
    writer.put(row(0))
    seen = writer.call(lambda: (threading.current_thread().name, list(store.rows)), timeout=60)
    assert seen == ("writer", [0])


def test_a_call_fails_while_the_database_is_away(running: tuple[FakeStore, Writer]) -> None:
    store, writer = running
    store.refuse = away
    writer.put(row(0))
    with pytest.raises(StoreError, match="no route to host"):
        writer.call(lambda: None, timeout=PATIENCE)


def test_a_call_that_nobody_waits_for_any_more_is_not_made() -> None:
    writer = writer_on(FakeStore())
    made: list[int] = []
    with pytest.raises(StoreError, match="did not answer within 0 s"):
        writer.call(lambda: made.append(1), timeout=0.0)
    writer.start()
    assert writer.stop(PATIENCE)
    assert not made


def test_the_stop_writes_what_is_left() -> None:
    store = FakeStore()
    writer = writer_on(store)
    writer.start()
    for now in range(10):
        writer.put(row(now))
    assert writer.stop(PATIENCE)
    assert len(store.rows) == 10


def test_the_stop_tells_when_rows_are_left_behind() -> None:
    store = FakeStore()
    writer = writer_on(store)
    store.refuse = away
    writer.start()
    writer.put(row(0))
    assert not writer.stop(PATIENCE)


def test_an_errand_is_run_once_a_minute_while_the_database_answers() -> None:
    clock, store = FakeClock(), FakeStore()
    ran: list[float] = []

    def errand() -> bool:
        ran.append(clock.monotonic())
        return len(ran) in (4, 5)

    writer = Writer(store, clock, errand=errand)
    writer.accept(frozenset({"a"}))

    def turn(seconds: float) -> None:
        clock.advance(seconds)
        writer.work()

    writer.work()
    turn(59.0)
    turn(1.0)
    store.refuse = away
    writer.put(row(0))
    turn(60.0)
    store.refuse = lambda _batch: None
    turn(1.0)
    assert ran == [0.0, 60.0, 121.0]
    # What has more to do is asked again with the next turn.
    for seconds in (60.0, 1.0, 1.0, 1.0):
        turn(seconds)
    assert ran[3:] == [181.0, 182.0, 183.0]


@pytest.mark.parametrize("error", [StoreError("database x: gone"), TypeError("a mistake")])
def test_an_errand_that_fails_does_not_end_the_writer(error: Exception) -> None:
    def fail() -> bool:
        raise error

    store = FakeStore()
    writer = Writer(store, FakeClock(), errand=fail)
    writer.accept(frozenset({"a"}))
    writer.start()
    writer.put(row(0))
    assert writer.stop(PATIENCE)
    assert store.rows == [0]
