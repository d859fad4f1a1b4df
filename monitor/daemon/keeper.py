"""Keeps the lease of the daemon, in a thread that nothing else holds up."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from monitor.clock import Clock
from monitor.model import StoreError
from monitor.store.holder import Holder, this_process
from monitor.store.lease import DAEMON, Leases

RENEWALS = 6
"""How often a lease is renewed within its time: what is left of it must be enough for an act."""

_log = structlog.get_logger(__name__)


class Keeper:
    """The lease as this process sees it. Safe from any thread.

    How long it is still held is reckoned from before the database was asked, on the steady
    clock: whatever the clocks of others say, it never seems to last longer than it does.

    Args:
        leases: where the lease is stored.
        clock: the clock of the machine, however fast the daemon's runs.
        seconds: how long the lease holds after each renewal.
        lost: called from the keeper's thread when another process has taken it.
    """

    def __init__(
        self, leases: Leases, clock: Clock, seconds: float, lost: Callable[[], None]
    ) -> None:
        self.holder: Holder | None = None
        """Who has the lease instead of us, as of the last try."""
        self._leases = leases
        self._clock = clock
        self._seconds = seconds
        self._lost = lost
        self._me = this_process()
        self._fence: int | None = None
        self._until = 0.0
        self._problem: str | None = None
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self) -> int | None:
        """Tries to get the lease: its number, or None while another process has it.

        Raises:
            StoreError: the database is away.
        """
        asked = self._clock.monotonic()
        lease = self._leases.take(DAEMON, self._me, self._seconds)
        if lease.holder != self._me:
            self.holder = lease.holder
            return None
        self.holder = None
        self._until, self._fence = asked + self._seconds, lease.fence
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._thread.start()
        return lease.fence

    def fence(self) -> int | None:
        """The number of the lease, or None while it is not surely ours."""
        return self._fence if self.remaining() > 0.0 else None

    def remaining(self) -> float:
        """Seconds for which it surely is still ours; 0 if it is not."""
        if self._fence is None:
            return 0.0
        return max(0.0, self._until - self._clock.monotonic())

    def release(self, *, give_back: bool = True) -> None:
        """Keeps the lease no longer; gives it back, if it is ours and the database answers."""
        fence, self._fence = self._fence, None
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if fence is None or not give_back:
            return
        try:
            self._leases.release(DAEMON, fence)
        except StoreError as error:
            _log.warning("the lease is not given back; it will run out", error=str(error))

    def _keep(self) -> None:
        while not self._ending.wait(self._seconds / RENEWALS):
            fence = self._fence
            if fence is None or not self._renew(fence):
                return

    def _renew(self, fence: int) -> bool:
        """Prolongs the lease; False when it is lost."""
        asked = self._clock.monotonic()
        try:
            renewed = self._leases.renew(DAEMON, fence, self._seconds)
        except StoreError as error:
            # Nobody else gets it from this database either. It runs out, and nothing is done
            # that needs it, until the database is back.
            if self._problem is None:
                _log.error("the lease is not renewed", error=str(error))
            self._problem = str(error)
            return True
        self._problem = None
        if renewed:
            self._until = asked + self._seconds
            return True
        self._fence = None
        self._lost()
        return False
