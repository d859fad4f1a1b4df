"""A URL of the user that moves traffic: orders by POST, signed; the share by GET.

Orders are JSON: ``{"schema", "id", "fence", "action", "share"}``. The id is constant over
retries, and the fence grows with each holder of the lease, so that the other side can apply
each order once and refuse (409) those of a holder that has lost the lease without noticing.
Signatures are those of Standard Webhooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from monitor.alerting.signing import sign
from monitor.clock import Clock, SystemClock
from monitor.rollback.actuators.base import Act, Traffic
from monitor.rollback.actuators.failing import Deadline, PeerError, failing
from monitor.rollback.actuators.json_api import JsonApi, encode
from monitor.rollback.actuators.shares import any_of, is_close, percent, read_share

SCHEMA = "monitor.rollback.order/1"
_PEER = "the hook"


@dataclass(frozen=True, slots=True)
class HookAccess:
    """Where a hook is, and how we prove who we are."""

    url: SecretStr
    keys: tuple[bytes, ...] = ()
    bearer: SecretStr | None = None
    ca_file: str | None = None


class _Hook:
    """The signed exchange with a hook."""

    def __init__(self, access: HookAccess, clock: Clock) -> None:
        self._keys = access.keys
        self._clock = clock
        self._api = JsonApi(
            access.url.get_secret_value(), bearer=access.bearer, ca_file=access.ca_file
        )

    def _headers(self, message_id: str, body: bytes) -> dict[str, str]:
        timestamp = int(self._clock.utc())
        headers = {"webhook-id": message_id, "webhook-timestamp": str(timestamp)}
        if self._keys:
            headers["webhook-signature"] = sign(self._keys, message_id, timestamp, body)
        return headers

    def _order(self, action: str, act: Act, timeout: float, **more: Any) -> None:
        document = {"schema": SCHEMA, "id": act.id, "fence": act.fence, "action": action, **more}
        body = encode(document)
        self._api.send("POST", "", timeout, body, self._headers(act.id, body))

    def _ask(self, timeout: float) -> Any:
        # Signed as well, over an empty body: what a hook tells may be nobody else's business.
        message_id = f"observe-{int(self._clock.utc())}"
        return self._api.get("", timeout, self._headers(message_id, b""))


class HookActuator(_Hook):
    """Moves traffic by orders to a hook."""

    def __init__(
        self, access: HookAccess, *, normal_share: float = 0.0, clock: Clock | None = None
    ) -> None:
        super().__init__(access, clock or SystemClock())
        self._normal = normal_share

    def observe(self, timeout: float) -> Traffic:
        """What the hook says of the share."""
        with failing("observe", _PEER):
            share = self._share(timeout)
        shown = "cannot tell the share" if share is None else f"says {percent(share)}"
        return Traffic(share, f"{_PEER} {shown}")

    def shift(self, share: float, act: Act) -> None:
        """Orders the share, and believes it once the hook says so by itself."""
        self._set("shift", share, act)

    def restore(self, act: Act) -> None:
        """Orders the normal share back."""
        self._set("restore", self._normal, act)

    def would(self, share: float) -> str:
        """What would be posted."""
        return f"would post an order to the hook: {percent(share)} to the baseline"

    def reachable(self, shares: Sequence[float]) -> tuple[float, ...]:
        """Any, as far as we can know."""
        return any_of(shares)

    def _set(self, action: str, share: float, act: Act) -> None:
        deadline = Deadline(act.timeout, self._clock)
        with failing(action, _PEER):
            self._order(action, act, deadline.left(), share=share)
            deadline.until(lambda: self._missing(share, deadline.left()))

    def _missing(self, wanted: float, timeout: float) -> str | None:
        share = self._share(timeout)
        if share is None or is_close(share, wanted):
            # A hook that cannot tell is left to the one who verifies by traffic.
            return None
        return f"took the order, but the share is {percent(share)} instead of {percent(wanted)}"

    def _share(self, timeout: float) -> float | None:
        answer = self._ask(timeout)
        if not isinstance(answer, dict) or "share" not in answer:
            raise PeerError('the answer is no JSON object with "share"')
        return read_share(answer["share"])


class HookStarter(_Hook):
    """Starts and restarts servers by orders to a hook."""

    def __init__(self, access: HookAccess, *, clock: Clock | None = None) -> None:
        super().__init__(access, clock or SystemClock())

    def start(self, act: Act) -> None:
        """Orders the baseline side to be started."""
        with failing("start", _PEER):
            self._order("start", act, act.timeout)

    def restart(self, act: Act) -> None:
        """Orders the speculative side to be restarted."""
        with failing("restart", _PEER):
            self._order("restart", act, act.timeout)

    def would_start(self) -> str:
        """What would be posted."""
        return "would post an order to the hook: start the baseline"

    def would_restart(self) -> str:
        """What would be posted."""
        return "would post an order to the hook: restart the speculative servers"
