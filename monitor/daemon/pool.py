"""Threads for the scrapes: few while targets answer, as many as needed when some do not."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

import structlog

BATCH = 32
"""Rests that wait for each other at most."""
STALL_SECONDS = 0.1
"""How long work may wait, with too little of it done, before more threads join in."""
QUICK_SECONDS = 0.01
"""Work that takes less keeps the interpreter busy; work that takes more waits for a peer."""

_log = structlog.get_logger(__name__)

Rest = Callable[[], object]
Work = Callable[[], Rest | None]
"""What waits for a peer; it gives what is left to do with the answer, if anything is."""


class Pool:
    """Does work in order, on one thread for as long as that is quick enough.

    A round is some waiting for a page and half a millisecond of work on it. With a thread for
    each round of a slot, the threads would fight for the interpreter, and a scrape would cost
    twice the CPU. So a thread takes one piece of work after the other. When work waits and little
    of it is done, because pieces hang on slow or dead targets, threads are added each
    ``STALL_SECONDS``, first one, then two, then four, until nothing waits any more.

    What is left to do with the pages is done for many in a row: each wait cools the caches, and
    work right after one costs a third more. No page waits for others for longer than
    ``STALL_SECONDS`` if there is a thread to take it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._queued = threading.Condition(self._lock)
        self._queue: deque[Work] = deque()
        self._rests: list[Rest] = []
        self._rests_since = 0.0
        self._taken = 0
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._watcher = threading.Thread(target=self._watch, name="scrape-watch", daemon=True)
        self._watcher.start()

    def submit(self, work: Work) -> None:
        """Queues work, which must not raise, nor must its rest.

        Raises:
            RuntimeError: the system gave no thread; the work is done when one is free.
        """
        with self._lock:
            if self._closed:
                return
            self._queue.append(work)
            if len(self._queue) == 1:
                self._queued.notify()
                if self._idle or not self._threads:
                    self._add(1)

    def close(self, timeout: float) -> bool:
        """Takes no more work and ends what there is; False when that took too long."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._closed = True
            self._work.notify_all()
            self._queued.notify_all()
        # The watcher first: until it ends, it may bring in threads.
        self._watcher.join(max(0.0, deadline - time.monotonic()))
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _add(self, count: int) -> None:
        """Brings in threads, idle ones first."""
        self._work.notify(count)
        for _ in range(count - self._idle):
            # Threads that hang, on a name server for example, must not keep the process alive.
            thread = threading.Thread(target=self._serve, name="scrape", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self) -> None:
        rest: Rest | None = None
        while (work := self._take(rest)) is not None:
            rest = work()

    def _take(self, rest: Rest | None) -> Work | None:
        """The next piece of work; ``rest`` is what the last one left to do."""
        with self._lock:
            if rest is not None:
                if not self._rests:
                    self._rests_since = time.monotonic()
                self._rests.append(rest)
            while True:
                if self._is_time_for_rests():
                    rests, self._rests = self._rests, []
                    self._taken += len(rests)
                    return partial(_do_all, rests)
                if self._queue:
                    self._taken += 1
                    return self._queue.popleft()
                if self._closed:
                    return None
                self._idle += 1
                self._work.wait()
                self._idle -= 1

    def _is_time_for_rests(self) -> bool:
        if not self._rests:
            return False
        if not self._queue or len(self._rests) >= BATCH:
            return True
        return time.monotonic() - self._rests_since >= STALL_SECONDS

    def _watch(self) -> None:
        """Adds threads while work waits for too long."""
        with self._lock:
            more = 1
            while self._waiting() or not self._closed:
                if not self._waiting():
                    more = 1
                    self._queued.wait()
                    continue
                taken = self._taken
                if self._queued.wait(STALL_SECONDS):
                    continue  # All that waited was taken, and more has come.
                if self._waiting() and self._taken - taken < STALL_SECONDS / QUICK_SECONDS:
                    more = self._grow(more)

    def _waiting(self) -> int:
        """Pieces of work that wait for a thread; rests are done as one."""
        return len(self._queue) + bool(self._rests)

    def _grow(self, count: int) -> int:
        """Adds up to ``count`` threads; how many to add next time."""
        try:
            self._add(min(count, self._waiting()))
        except RuntimeError:
            # The system gives no more threads now; those there are go on.
            return 1
        return 2 * count


def _do_all(rests: list[Rest]) -> None:
    for rest in rests:
        try:
            rest()
        except Exception:
            # None should raise; if one does, the others are not to be lost with it.
            _log.exception("work failed on a mistake of the monitor")
