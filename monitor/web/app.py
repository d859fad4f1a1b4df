"""The HTTP interface of the daemon: metrics, probes, status and the reload."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import SecretStr

from monitor import __version__
from monitor.clock import Clock
from monitor.model import MonitorError, StoreError
from monitor.web import page
from monitor.web.guard import Guard
from monitor.web.metrics import MetricsPage
from monitor.web.view import Monitored

_log = structlog.get_logger(__name__)


def create_app(
    monitored: Monitored, *, host: str, token: Callable[[], SecretStr | None], clock: Clock
) -> FastAPI:
    """The application; ``host`` is where it listens, ``token`` gives the one that is valid."""
    app = FastAPI(
        title="specdec-monitor",
        version=__version__,
        openapi_url="/api/v1/openapi.json",
        # These pages would load scripts from other servers.
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Guard, host=host, token=token)

    @app.exception_handler(StoreError)
    async def without_database(_request: Request, error: StoreError) -> JSONResponse:
        """A daemon that stands by knows nothing but what is stored."""
        return JSONResponse({"error": str(error)}, HTTPStatus.SERVICE_UNAVAILABLE)

    _add_probes(app, monitored)
    _add_readers(app, monitored, clock)
    _add_reload(app, monitored)
    return app


def _add_probes(app: FastAPI, monitored: Monitored) -> None:
    @app.get("/livez")
    async def livez() -> JSONResponse:
        """Whether rounds are started as they should be; restart the process when not."""
        health = monitored.health()
        status = HTTPStatus.OK if health.alive else HTTPStatus.SERVICE_UNAVAILABLE
        return JSONResponse({"alive": health.alive, "loop_age": round(health.loop_age, 3)}, status)

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        """Whether each target was looked at and the database takes part."""
        waiting = monitored.health().waiting_for
        status = HTTPStatus.OK if waiting is None else HTTPStatus.SERVICE_UNAVAILABLE
        return JSONResponse({"ready": waiting is None, "waiting_for": waiting}, status)


def _add_readers(app: FastAPI, monitored: Monitored, clock: Clock) -> None:
    own = MetricsPage(monitored)

    # These do some work for each target, so that they run in a thread and not in the loop
    # that answers the probes.
    @app.get("/metrics")
    def metrics(request: Request) -> Response:
        """The monitor's own metrics."""
        content, media_type = own.render(request.headers.get("accept", ""))
        return Response(content, media_type=media_type)

    @app.get("/", include_in_schema=False)
    def status_page() -> HTMLResponse:
        """What ``/api/v1/status`` says, for people."""
        content = page.render(monitored.status(), monitored.health(), clock.utc())
        return HTMLResponse(content, headers=page.HEADERS)

    @app.get("/status.css", include_in_schema=False)
    async def style() -> Response:
        """How the page looks."""
        return Response(page.STYLE, media_type="text/css")

    @app.get("/api/v1/status")
    def status() -> dict[str, Any]:
        """The document of ``monitor status --json``, as of now."""
        return monitored.status()


def _add_reload(app: FastAPI, monitored: Monitored) -> None:
    @app.post("/-/reload")
    def reload(request: Request) -> JSONResponse:
        """Loads the configuration again; on failure the old one stays."""
        peer = request.client.host if request.client else None
        try:
            monitored.reload()
        except MonitorError as error:
            _log.warning("reload over HTTP failed", peer=peer)
            answer = {"reloaded": False, "error": str(error)}
            return JSONResponse(answer, HTTPStatus.UNPROCESSABLE_ENTITY)
        _log.info("reload over HTTP", peer=peer)
        return JSONResponse({"reloaded": True, "error": None})
