"""The one thread that writes to the database, about once a second."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

import structlog

from monitor.clock import Clock
from monitor.daemon.backlog import Backlog
from monitor.model import StoreError
from monitor.store.rows import RoundRow

FLUSH_SECONDS = 1.0
ERRAND_SECONDS = 60.0
"""Least time between two looks at what the database holds for the daemon."""
MAX_ROWS = 20_000
"""Rows kept in memory while the database is away; about 50 MB."""
MAX_BATCH = 2_000

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Store(Protocol):
    """The part of the repository that is written to."""

    def write_round(self, batch: Sequence[RoundRow]) -> int:
        """Writes all rows or none."""
        ...


class Writer:
    """Collects rows from all threads and writes them in one transaction.

    While the database is away, rows wait here: see ``Backlog`` for what is kept of them.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        max_rows: int = MAX_ROWS,
        errand: Callable[[], bool] = lambda: False,
    ) -> None:
        self.written = 0
        self.errors = 0
        self._store = store
        self._clock = clock
        self._errand = errand
        self._errand_at: float | None = None
        self._unwritable = 0
        self._rows = Backlog(max_rows)
        self._lock = threading.Lock()
        self._calls: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._problem: str | None = None
        self._known: frozenset[str] = frozenset()
        self._last_write = clock.monotonic()
        self._thread = threading.Thread(target=self._loop, name="writer", daemon=True)

    @property
    def queued(self) -> int:
        """Rows that are not written yet."""
        return len(self._rows)

    @property
    def dropped(self) -> int:
        """Rows that were lost: there were too many, or they could not be written."""
        return self._rows.dropped + self._unwritable

    def age(self) -> float:
        """Seconds since the database last took something, or since the start."""
        return self._clock.monotonic() - self._last_write

    def accept(self, targets: frozenset[str]) -> None:
        """Names the targets the database knows; rows of others are dropped, not written."""
        self._known = targets

    def start(self) -> None:
        """Begins to write."""
        self._thread.start()

    def put(self, row: RoundRow) -> None:
        """Takes a row; never blocks."""
        with self._lock:
            self._rows.put(row)

    def call(self, function: Callable[[], T], *, timeout: float) -> T:
        """Runs ``function`` in the writing thread, after what waits now has been written.

        Raises:
            StoreError: the database is away, or takes too long.
        """
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                if self.queued and not self.flush():
                    raise StoreError(self._problem or "the database is away")
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        self._calls.append(run)
        self._wake.set()
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise StoreError(f"the database did not answer within {timeout:g} s") from None

    def stop(self, timeout: float) -> bool:
        """Writes what is left and ends; False when there was not enough time."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout)
        return not self._thread.is_alive() and not self._rows

    def flush(self) -> bool:
        """Writes all that waits now; False when the database did not take it."""
        for _ in range(self.queued // MAX_BATCH + 1):
            batch = self._take()
            if not batch:
                return True
            try:
                self._store.write_round(batch)
            except StoreError as error:
                self._put_back(batch)
                self._failed(str(error))
                return False
            except Exception as error:
                # One of the two borders of the daemon: a row that trips over a mistake of
                # ours must not end the only thread that writes.
                self._write_singly(batch, repr(error))
            else:
                self._succeeded(len(batch))
        return True

    def _loop(self) -> None:
        while not self._stopping:
            self._wake.wait(FLUSH_SECONDS)
            self._wake.clear()
            self.work()
        self.work()

    def work(self) -> None:
        """One turn: what others asked for, then what waits to be written, then the errand."""
        while self._calls:
            self._calls.popleft()()
        if self.flush():
            self._run_errand()

    def _run_errand(self) -> None:
        """Does what is due once a minute, while the database answers.

        What takes longer is done in pieces, between which rows are written: an errand that
        returns True has more to do.
        """
        now = self._clock.monotonic()
        if self._errand_at is not None and now - self._errand_at < ERRAND_SECONDS:
            return
        self._errand_at = now
        try:
            if self._errand():
                self._errand_at = None
        except StoreError as error:
            self._failed(str(error))
        except Exception:
            # The same border as for a row that trips over a mistake of ours.
            _log.exception("an errand of the writer failed")

    def _take(self) -> list[RoundRow]:
        with self._lock:
            batch = self._rows.take(MAX_BATCH)
        return [row for row in batch if row.target in self._known]

    def _put_back(self, batch: list[RoundRow]) -> None:
        with self._lock:
            self._rows.put_back(batch)

    def _write_singly(self, batch: list[RoundRow], problem: str) -> None:
        """Finds the row that cannot be written and drops it: it must not block the others."""
        self._failed(problem)
        for index, row in enumerate(batch):
            try:
                self._store.write_round([row])
            except StoreError:
                self._put_back(batch[index:])
                return
            except Exception:
                self._unwritable += 1
                _log.exception("a row cannot be written and is dropped", target=row.target)
            else:
                self.written += 1

    def _failed(self, problem: str) -> None:
        self.errors += 1
        if problem != self._problem:
            _log.error("the database does not take rows", error=problem, waiting=self.queued)
        self._problem = problem

    def _succeeded(self, rows: int) -> None:
        self.written += rows
        self._last_write = self._clock.monotonic()
        if self._problem is not None:
            _log.info("the database takes rows again", waiting=self.queued)
        self._problem = None
