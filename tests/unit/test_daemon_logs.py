from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from monitor import logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before
    structlog.reset_defaults()


def logged(*, as_json: bool, level: str = "info") -> tuple[io.StringIO, structlog.BoundLogger]:
    stream = io.StringIO()
    logs.configure(as_json=as_json, level=level, stream=stream)
    logger: structlog.BoundLogger = structlog.get_logger("test")
    return stream, logger


def test_json_lines_carry_their_fields() -> None:
    stream, log = logged(as_json=True)
    log.info("verdict", target="a", verdict="harmful")
    line = json.loads(stream.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "verdict", "level": "info", "target": "a", "verdict": "harmful"}


def test_lines_below_the_level_are_not_there() -> None:
    stream, log = logged(as_json=False, level="warning")
    log.info("nothing")
    logging.getLogger("apscheduler.scheduler").warning("something")
    assert "nothing" not in stream.getvalue()
    assert "something" in stream.getvalue()


@pytest.mark.parametrize("as_json", [True, False])
def test_secrets_are_blotted_out_wherever_they_stand(as_json: bool) -> None:
    logs.REDACTOR.learn(["hunter2-canary", "ab"])
    stream, log = logged(as_json=as_json)
    log.info("hunter2-canary in the text", url="http://me:pw-canary@host/m?token=t-canary&x=1")
    log.info("keys", token="k-canary", nested={"password": "n-canary"}, many=["hunter2-canary"])
    log.info("an error", error=ValueError("hunter2-canary"))
    logging.getLogger("library").warning("GET /metrics?api_key=%s", "q-canary")
    try:
        raise ValueError("hunter2-canary")
    except ValueError:
        log.exception("a trace")
    text = stream.getvalue()
    assert "canary" not in text
    assert "Traceback" in text
    assert "x=1" in text
    assert "about" in logs.REDACTOR.text("about")
