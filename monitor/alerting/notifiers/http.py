"""POST with requests, within one deadline, to checked addresses, without redirects."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import requests

from monitor.alerting.payload import plain
from monitor.alerting.receivers import AlertmanagerSettings, WebhookSettings
from monitor.logs import REDACTOR
from monitor.model import DeliveryError
from monitor.settings import Credentials
from monitor.sources.errors import FetchError, lasts
from monitor.sources.session import GuardedSession, beginning

_SHOWN = 120


class HttpClient:
    """Posts to one receiver, over a session of its own. Not for two threads at a time."""

    def __init__(self, timeout: float, kind: WebhookSettings | AlertmanagerSettings) -> None:
        self._timeout = timeout
        self._session = GuardedSession(Credentials(bearer=kind.bearer, ca_file=kind.ca_file))

    def post(self, url: str, body: bytes, headers: Mapping[str, str], now: float) -> str:
        """Posts, and says with which status, one of success, it was answered.

        Raises:
            DeliveryError: for all else, in one line without the URL.
        """
        try:
            with self._session.ask("POST", url, self._timeout, body, headers) as response:
                return f"HTTP {_judge(response, now)}"
        except FetchError as error:
            raise DeliveryError(str(error), permanent=not error.retryable) from None

    def close(self) -> None:
        """Closes the session."""
        self._session.close()


def _judge(response: requests.Response, now: float) -> int:
    status = response.status_code
    if status < HTTPStatus.BAD_REQUEST:
        # The receiver has it; whatever else it says, or how slowly, changes nothing.
        return status
    said = plain(REDACTOR.text(beginning(response)), _SHOWN)
    raise DeliveryError(
        f"HTTP {status}{f': {said}' if said else ''}",
        permanent=lasts(status),
        retry_after=_retry_after(response.headers.get("Retry-After"), now),
    )


def _retry_after(header: str | None, now: float) -> float | None:
    """Seconds from a number or from a date."""
    if header is None:
        return None
    header = header.strip()
    if header.isascii() and header.isdigit():
        return float(header[:9])
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None
