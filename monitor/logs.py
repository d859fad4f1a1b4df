"""Sets the logs up: lines for people or JSON for machines, and one redactor before both."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Iterable, Mapping
from typing import TextIO

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

_BLOT = "***"
_MIN_SECRET = 4
_SECRET_KEY = re.compile(r"token|passw|secret|authorization|cookie|api_?key", re.IGNORECASE)
# "scheme://user:password@" and "?token=…", wherever they stand in a text.
_USERINFO = re.compile(r"(?<=://)[^/\s@'\"]+@")
_QUERY = re.compile(
    r"([?&][\w.-]*(?:token|passw|secret|key|sig|auth)[\w.-]*=)[^&\s'\"]+", re.IGNORECASE
)


class Redactor:
    """Blots secrets out of whatever is logged: those it was told, and what looks like one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._secrets: tuple[str, ...] = ()

    def learn(self, secrets: Iterable[str]) -> None:
        """Adds secrets that must never be shown; old ones stay, they may still be valid."""
        with self._lock:
            # A secret of two characters would blot out half of every line.
            known = {secret for secret in secrets if len(secret) >= _MIN_SECRET}
            ordered = sorted(known.union(self._secrets), key=len, reverse=True)
            self._secrets = tuple(ordered)

    def text(self, text: str) -> str:
        """The text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, _BLOT)
        return _QUERY.sub(rf"\g<1>{_BLOT}", _USERINFO.sub(f"{_BLOT}@", text))

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        """The processor for structlog."""
        return {key: self._value(key, value) for key, value in event.items()}

    def _value(self, key: str, value: object) -> object:
        if _SECRET_KEY.search(key):
            return _BLOT
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {name: self._value(str(name), item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(key, item) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.text(str(value))


REDACTOR = Redactor()
"""The one redactor of the process: whoever learns a secret tells it."""


def configure(*, as_json: bool = False, level: str = "info", stream: TextIO | None = None) -> None:
    """Sends all logs, also those of libraries, redacted to ``stream`` (default: stderr)."""
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                REDACTOR,
                _renderer(handler.stream, as_json=as_json),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(number)
    # One line for each start of a job says nothing that our own lines do not say better.
    for name in ("apscheduler", "uvicorn", "alembic", "sqlalchemy"):
        logging.getLogger(name).setLevel(max(number, logging.WARNING))


def _renderer(stream: TextIO, *, as_json: bool) -> Processor:
    if as_json:
        return structlog.processors.JSONRenderer(ensure_ascii=False)
    return structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
