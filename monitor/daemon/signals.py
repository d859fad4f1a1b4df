"""The signals that tell the daemon to end or to load its configuration anew."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def handled(*, stop: Callable[[], None], reload: Callable[[], None]) -> Iterator[None]:
    """Handles the signals, where that is possible: only the main thread may.

    Handlers interrupt the main thread anywhere, even inside a lock it holds; what is called
    must bear that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    calls = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
    before = {number: signal.signal(number, _calling(call)) for number, call in calls.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _calling(call: Callable[[], None]) -> Callable[[int, FrameType | None], None]:
    return lambda _number, _frame: call()
