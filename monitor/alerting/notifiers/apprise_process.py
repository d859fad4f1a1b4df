"""The process that sends one message with Apprise; see ``apprise.py``."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
from typing import Any

from monitor.sources.address import is_forbidden
from monitor.sources.errors import lasts

_STATUS = re.compile(r"\berror[=: ]+(\d{3})\b", re.IGNORECASE)
_HOST_AND_PORT = 2


class RefusedError(Exception):
    """An address that is never connected to."""


_refused = threading.Event()


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Looks at every connection of this process, whoever makes it and after what redirect."""
    if event not in ("socket.connect", "socket.sendto"):
        return
    peer = arguments[1]
    if not isinstance(peer, tuple) or len(peer) < _HOST_AND_PORT:
        return
    host = str(peer[0])
    try:
        forbidden = is_forbidden(host)
    except ValueError:
        # A name that the system would look up by itself: what it is cannot be checked.
        forbidden = True
    if forbidden:
        _refused.set()
        raise RefusedError(host)


def _no_redirect(_self: object, _response: object) -> None:
    return None


def send(given: dict[str, Any]) -> dict[str, Any]:
    """Sends, and says how it went without repeating anything of the URL."""
    import apprise  # noqa: PLC0415 - takes long, and must not be loaded by anybody else
    import requests  # noqa: PLC0415

    requests.Session.get_redirect_target = _no_redirect  # type: ignore[method-assign, assignment]
    service = apprise.Apprise()
    if not service.add(given["url"]):
        return _answer("the URL is not one that Apprise knows", permanent=True)
    with apprise.LogCapture(level=logging.DEBUG) as captured:  # type: ignore[no-untyped-call]
        result = service.notify(
            given["body"],
            title=given["title"],
            notify_type=given["type"],
            body_format=apprise.NotifyFormat.TEXT,
        )
        log = captured.getvalue()
    if result:
        return {"ok": True, "said": "accepted by the service", "permanent": False}
    if _refused.is_set():
        return _answer("a link-local or metadata address is never connected to", permanent=True)
    found = _STATUS.findall(log)
    if not found:
        return _answer("Apprise could not reach the service", permanent=False)
    status = int(found[-1])
    return _answer(f"the service refused it: HTTP {status}", permanent=lasts(status))


def _answer(said: str, *, permanent: bool) -> dict[str, Any]:
    return {"ok": False, "said": said, "permanent": permanent}


def main() -> None:
    """Reads what to send from the standard input and writes one line."""
    given = json.load(sys.stdin)
    # The one deadline for everything; the parent would kill us a little later.
    timer = threading.Timer(given["timeout"], _give_up, [given["timeout"]])
    timer.daemon = True
    timer.start()
    sys.addaudithook(_watch)
    try:
        answer = send(given)
    except RefusedError:
        answer = _answer("a link-local or metadata address is never connected to", permanent=True)
    except Exception as error:
        # The border of this process: whatever went wrong is told to the parent.
        answer = _answer(f"Apprise failed: {type(error).__name__}", permanent=False)
    _write(answer)


def _give_up(seconds: float) -> None:
    _write(_answer(f"no answer within {seconds:g} s", permanent=False))
    os._exit(1)


def _write(answer: dict[str, Any]) -> None:
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
