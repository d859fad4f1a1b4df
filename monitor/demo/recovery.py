"""Whether clients are better off after the rollback than before it."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.demo.clients import REMEMBERED, Felt
from monitor.rollback.messages import RULE

SERVICE = "code"
_BEGUN, _DONE = "a rollback begins", "rolled back"


class Recovery:
    """Remembers what clients felt when the rollback began, and compares once it is done."""

    def __init__(self) -> None:
        self._before: Felt | None = None
        self._done: Felt | None = None
        self.is_told = False
        """Whether the clients are better off, and it has been said."""

    def take(self, message: Mapping[str, object], felt: Felt) -> None:
        """Takes in a message of the monitor, and what clients felt when it came."""
        if (message["service"], message["rule"]) != (SERVICE, RULE):
            return
        title = str(message["title"])
        if _BEGUN in title:
            self._before = felt
        elif _DONE in title:
            self._done = felt

    def news(self, felt: Felt) -> str | None:
        """What has become of it, once enough answers have come from the plain server."""
        before, done = self._before, self._done
        if self.is_told or before is None or done is None:
            return None
        if felt.answers - done.answers < REMEMBERED:
            return None
        was, now = before.seconds_per_token, felt.seconds_per_token
        if was is None or now is None or now >= was:
            return None
        self.is_told = True
        return (
            f"code: clients wait {now * 1000:.1f} ms for a token, {was * 1000:.1f} ms before the "
            f"rollback; of {felt.answers + felt.failures} requests {felt.failures} failed"
        )
