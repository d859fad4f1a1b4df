from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from monitor.daemon.pool import BATCH, QUICK_SECONDS, Pool, Rest

PATIENCE = 30.0


def wait_for(event: threading.Event) -> None:
    event.wait(PATIENCE)


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    assert pool.close(PATIENCE)


def test_quick_work_is_done_in_order_by_few_threads(pool: Pool) -> None:
    done: list[tuple[int, int]] = []
    finished = threading.Semaphore(0)

    def work(number: int) -> None:
        done.append((number, threading.get_ident()))
        finished.release()

    for number in range(200):
        pool.submit(partial(work, number))
    for _ in range(200):
        assert finished.acquire(timeout=PATIENCE)
    assert sorted(number for number, _ in done) == list(range(200))
    assert len({thread for _, thread in done}) < 20


def test_work_that_keeps_the_interpreter_busy_brings_in_no_more_threads(pool: Pool) -> None:
    threads: set[int] = set()
    finished = threading.Semaphore(0)

    def work() -> None:
        # By CPU time, so that a busy machine does not make it look like waiting.
        until = time.thread_time() + QUICK_SECONDS / 10.0
        while time.thread_time() < until:
            pass
        threads.add(threading.get_ident())
        finished.release()

    for _ in range(500):
        pool.submit(work)
    for _ in range(500):
        assert finished.acquire(timeout=PATIENCE)
    assert len(threads) < 5


def test_work_that_hangs_does_not_hold_up_the_rest(pool: Pool) -> None:
    over, finished = threading.Event(), threading.Semaphore(0)
    for _ in range(30):
        pool.submit(partial(wait_for, over))
    for _ in range(10):
        pool.submit(finished.release)
    for _ in range(10):
        assert finished.acquire(timeout=PATIENCE)
    over.set()


def test_what_is_left_of_work_is_done_in_a_row_and_in_order(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a slow machine a second thread would join in.
    monkeypatch.setattr("monitor.daemon.pool.STALL_SECONDS", PATIENCE)
    began, done, log = threading.Event(), threading.Semaphore(0), list[str]()

    def work(number: int) -> Rest:
        def rest() -> None:
            log.append(f"rest {number}")
            done.release()

        log.append(f"work {number}")
        return rest

    pool.submit(partial(wait_for, began))
    for number in range(BATCH + 2):
        pool.submit(partial(work, number))
    began.set()
    for _ in range(BATCH + 2):
        assert done.acquire(timeout=PATIENCE)
    first, last = range(BATCH), range(BATCH, BATCH + 2)
    assert log == [
        f"{kind} {n}" for part in (first, last) for kind in ("work", "rest") for n in part
    ]


def test_what_is_left_of_work_does_not_wait_for_work_that_hangs(pool: Pool) -> None:
    began, over, finished = threading.Event(), threading.Event(), threading.Event()
    pool.submit(partial(wait_for, began))
    pool.submit(lambda: finished.set)
    pool.submit(partial(wait_for, over))
    began.set()
    assert finished.wait(PATIENCE)
    over.set()


def test_what_is_left_of_work_waits_for_no_further_thread(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, start, threads = threading.Event(), threading.Thread.start, iter(range(4))

    def limited(thread: threading.Thread) -> None:
        if next(threads, None) is None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    pool.submit(lambda: done.set)
    for _ in range(20):
        pool.submit(partial(wait_for, done))
    assert done.wait(PATIENCE / 2)


def test_a_mistake_in_what_is_left_of_work_costs_nobody_else_anything(pool: Pool) -> None:
    began, finished = threading.Event(), threading.Event()

    def stumble() -> None:
        raise ZeroDivisionError("a mistake")

    pool.submit(partial(wait_for, began))
    pool.submit(lambda: stumble)
    pool.submit(lambda: finished.set)
    began.set()
    assert finished.wait(PATIENCE)


def test_closing_does_what_is_left_of_work() -> None:
    pool, done = Pool(), list[int]()

    def work(number: int) -> Rest:
        return partial(done.append, number)

    for number in range(3):
        pool.submit(partial(work, number))
    assert pool.close(PATIENCE)
    assert done == [0, 1, 2]


def test_closing_waits_for_what_runs_and_for_what_waits() -> None:
    pool = Pool()
    started, over, done = threading.Event(), threading.Event(), []

    def slow() -> None:
        started.set()
        over.wait(PATIENCE)

    pool.submit(slow)
    pool.submit(lambda: done.append(1))
    assert started.wait(PATIENCE)
    assert not pool.close(0.0)
    pool.submit(lambda: done.append(2))
    over.set()
    assert pool.close(PATIENCE)
    assert done == [1]


def test_a_system_without_threads_is_survived(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    started, over, finished = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        started.set()
        over.wait(PATIENCE)

    pool.submit(slow)
    assert started.wait(PATIENCE)

    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    pool.submit(finished.set)
    over.set()
    assert finished.wait(PATIENCE)


def test_work_for_which_there_was_no_thread_is_done_when_there_is_one(pool: Pool) -> None:
    finished = threading.Event()

    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            pool.submit(finished.set)
    assert finished.wait(PATIENCE)
