"""A router with weights between two servers, moved by a hook, as an operator might have it."""

from __future__ import annotations

import hmac
import http.client
import json
import threading

from monitor.alerting.signing import sign
from monitor.demo.http import JSON, Asked, Said, Server, in_json

SHARE_PATH = "/share"
_PATIENCE = 60.0


class Router:
    """Passes completions on; ``/share`` says and sets which part of them the baseline gets.

    Orders must be signed. Each is carried out once, by its id, and those of a process that lost
    the lease are refused, by its number.
    """

    def __init__(self, speculative: str, baseline: str, key: bytes) -> None:
        self._hosts = {False: _host(speculative), True: _host(baseline)}
        self._key = key
        self._lock = threading.Lock()
        self._share = 0.0
        self._owed = 0.0
        self._fence = 0
        self._done: set[str] = set()
        self.server = Server(self._answer)
        """Where it listens; it must be started and closed."""

    @property
    def share(self) -> float:
        """The share of the baseline."""
        return self._share

    def _answer(self, asked: Asked) -> Said:
        if asked.path != SHARE_PATH:
            return self._pass_on(asked)
        if not self._is_signed(asked):
            return in_json(401, {"error": "the signature is missing or wrong"})
        if asked.method == "POST":
            return self._obey(json.loads(asked.body))
        return in_json(200, {"share": self._share})

    def _is_signed(self, asked: Asked) -> bool:
        message_id = asked.headers.get("webhook-id", "")
        timestamp = asked.headers.get("webhook-timestamp", "")
        wanted = sign([self._key], message_id, int(timestamp or 0), asked.body)
        return hmac.compare_digest(wanted, asked.headers.get("webhook-signature", ""))

    def _obey(self, order: dict[str, object]) -> Said:
        fence, share = int(str(order["fence"])), float(str(order["share"]))
        with self._lock:
            if fence < self._fence:
                return in_json(409, {"error": f"the lease {self._fence} is in force"})
            self._fence = fence
            if order["id"] not in self._done:
                self._done.add(str(order["id"]))
                self._share = share
        return in_json(200, {"share": self._share})

    def _pass_on(self, asked: Asked) -> Said:
        connection = http.client.HTTPConnection(self._choose(), timeout=_PATIENCE)
        try:
            connection.request(asked.method, asked.path, asked.body, {"Content-Type": JSON})
            answer = connection.getresponse()
            return Said(answer.status, answer.read(), answer.headers["Content-Type"])
        except OSError:
            return Said(502, b"no answer\n")
        finally:
            connection.close()

    def _choose(self) -> str:
        """The next server, so that each gets its share of any few requests."""
        with self._lock:
            self._owed += self._share
            to_baseline = self._owed >= 1.0
            self._owed -= float(to_baseline)
        return self._hosts[to_baseline]


def _host(url: str) -> str:
    return url.removeprefix("http://")
