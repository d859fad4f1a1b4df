"""A real Prometheus over series that were written for it."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")
MISSING = "prometheus or promtool is missing: install Debian's prometheus"

Answer = dict[tuple[str, ...], float]


class Prometheus:
    """Answers questions about a moment."""

    def __init__(self, url: str) -> None:
        self.url = url

    def vector(self, expr: str, at: float) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series; raises ``AssertionError`` with what is wrong."""
        asked = urllib.parse.urlencode({"query": expr, "time": at})
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/query?{asked}", timeout=60) as answer:
                document = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expr}: {error.read().decode()}") from None
        data = document["data"]
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(one["metric"], float(one["value"][1])) for one in data["result"]]

    def by(self, expr: str, at: float, *labels: str) -> Answer:
        """The values by these labels."""
        return {
            tuple(metric.get(label, "") for label in labels): value
            for metric, value in self.vector(expr, at)
        }


def fill(expr: str, **variables: str) -> str:
    """The expression with the dashboard's variables filled in; all values unless given."""
    spans = {"__rate_interval": "1m", "__range": "30m", "window": "5m"}
    values = {**spans, **variables}
    return re.sub(r"\$\{?(\w+)\}?", lambda found: values.get(found[1], ".+"), expr)


@contextmanager
def serving(text: str, folder: Path) -> Iterator[Prometheus]:
    """Writes the OpenMetrics text into blocks and starts a server on them."""
    assert PROMETHEUS is not None
    assert PROMTOOL is not None
    page, data = folder / "series.om", folder / "data"
    page.write_text(text)
    made = subprocess.run(
        [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", str(page), str(data)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    config = folder / "prometheus.yml"
    config.write_text("global: {}\n")
    port = _free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={config}",
                f"--storage.tsdb.path={data}",
                "--storage.tsdb.retention.time=100y",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _await_ready(url, process, folder / "log")
        yield Prometheus(url)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(log.read_text())
