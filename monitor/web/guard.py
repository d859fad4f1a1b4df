"""Who may call what: host names, the token, and requests that a browser was tricked into."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from urllib.parse import urlsplit

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from monitor.model import ConfigError
from monitor.sources.address import is_loopback

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PROBES = frozenset({"/livez", "/readyz"})
_OWN_SITES = frozenset({"same-origin", "none"})


def check_exposure(host: str, token: SecretStr | None) -> None:
    """Refuses to show the monitor to other machines without a token."""
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"listening on {host} shows the monitor to other machines, which needs a token: "
            "set token_file or token_env, or listen on 127.0.0.1"
        )


class Guard:
    """Stands before the application and turns away whoever may not pass.

    ``token`` is asked for at each request, so that a reload can change it.
    """

    def __init__(self, app: ASGIApp, *, host: str, token: Callable[[], SecretStr | None]) -> None:
        self._app = app
        self._host = host.strip("[]").lower()
        self._loopback = is_loopback(host)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets the request pass, or answers it with the reason why not."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            status, reason = refusal
            headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None  # noqa: PLR2004
            await JSONResponse({"error": reason}, status, headers)(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and reason when the request may not pass."""
        headers = Headers(scope=scope)
        if self._loopback and not self._is_own_name(headers.get("host", "")):
            # A name of somebody else that leads here is DNS rebinding: a page in a browser on
            # this machine would read the monitor as if it were its own server.
            return 421, "this host name is not served here"
        changes = scope["method"] not in _SAFE_METHODS
        if changes and self._is_cross_site(headers):
            return 403, "requests from other sites are refused"
        token = self._token()
        if token is None:
            return self._refusal_without_token(scope, headers) if changes else None
        needed = changes or not (self._loopback or scope["path"] in _PROBES)
        if needed and not _carries(headers, token):
            return 401, "a valid bearer token is needed"
        return None

    def _refusal_without_token(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """Without a token, only programs on this machine may change anything, no browsers."""
        client = scope.get("client")
        if client is None or not is_loopback(client[0]):
            return 403, "without a token, changes are accepted from this machine only"
        if "origin" in headers or "sec-fetch-site" in headers:
            return 403, "without a token, changes are not accepted from browsers"
        return None

    def _is_own_name(self, host: str) -> bool:
        name = _name(host)
        return name is not None and (name == self._host or is_loopback(name))

    @staticmethod
    def _is_cross_site(headers: Headers) -> bool:
        if headers.get("sec-fetch-site", "none").lower() not in _OWN_SITES:
            return True
        origin = headers.get("origin")
        return origin is not None and _authority(origin) != headers.get("host", "").lower()


def _carries(headers: Headers, token: SecretStr) -> bool:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    wanted = token.get_secret_value().encode()
    return hmac.compare_digest(given.strip().encode(), wanted) and scheme.lower() == "bearer"


def _name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None
