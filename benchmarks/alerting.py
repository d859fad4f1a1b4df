"""Time from the page that shows a collapse to the message that tells of it.

    python -m benchmarks.alerting [--interval 15] [--healthy 600] [--patience 1500]

One server on loopback speculates well and then, at one moment, hardly at all. It is scraped by
the daemon with its default rules, and by a real Prometheus (Debian) with a real Alertmanager,
both at the same interval and in real time, and each has a webhook of its own here. Prometheus
judges by two kinds of rules: the published one, ``acceptance of 5 minutes < 0.4 for 5 minutes``,
and those of ``alerts/prometheus/engine.rules.yml``. Alertmanager groups for 30 s, its default.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "scenario"))

from traffic import Server  # noqa: E402
from vllm_page import vllm_page  # noqa: E402

PUBLISHED = """
groups:
  - name: published
    rules:
      - alert: PublishedLowAcceptance
        expr: >
          sum by (instance) (rate(vllm:spec_decode_num_accepted_tokens_total[5m]))
          / sum by (instance) (rate(vllm:spec_decode_num_draft_tokens_total[5m])) < 0.4
        for: 5m
        labels: {severity: critical}
"""
PROMETHEUS = """
global: {{scrape_interval: {interval}s, evaluation_interval: {interval}s}}
rule_files: [published.yml, engine.rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{alertmanager}"]}}]}}]}}
scrape_configs: [{{job_name: vllm, static_configs: [{{targets: ["127.0.0.1:{server}"]}}]}}]
"""
ALERTMANAGER = """
route: {{receiver: here, group_by: [alertname], group_wait: 30s}}
receivers: [{{name: here, webhook_configs: [{{url: "http://127.0.0.1:{server}/prometheus"}}]}}]
"""
MONITOR = """
database: sqlite:///{folder}/monitor.db
listen: 127.0.0.1:0
scrape: {{interval: {interval}s, timeout: {timeout}s}}
receivers: [{{name: here, webhook: {{url_file: url, signing_keys: [{{key_file: key}}]}}}}]
services: [{{name: bench, speculative: {{targets: ["http://127.0.0.1:{server}"]}}}}]
"""


class World:
    """The simulated server, and the messages that came."""

    def __init__(self) -> None:
        self.collapsed_at: float | None = None
        self.heard: dict[str, float] = {}
        self._server = Server(now=time.time(), birth=time.time() - 86_400.0)
        self._lock = threading.Lock()

    def page(self) -> bytes:
        """What the server shows now."""
        with self._lock:
            self._server.look(time.time() - self._server.now)
            return vllm_page(self._server)

    def collapse(self) -> None:
        """From now on hardly a draft token is accepted."""
        self.page()
        with self._lock:
            self._server.q = 0.05
            self.collapsed_at = time.time()

    def hear(self, sender: str, body: Any) -> None:
        """Notes when each alert was told for the first time."""
        if "alerts" in body:
            names = [a["labels"]["alertname"] for a in body["alerts"] if a["status"] == "firing"]
        else:
            names = [body["rule"]] if body["state"] == "firing" else []
        for name in names:
            self.heard.setdefault(f"{sender}: {name}", time.time())


def _handler(world: World) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Answers scrapes."""
            self._answer(world.page() if self.path == "/metrics" else b"")

        def do_POST(self) -> None:
            """Takes messages."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            world.hear(self.path.strip("/"), body)
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    return Handler


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _prepare(folder: Path, server: int, interval: float) -> list[list[str]]:
    """Writes all files and gives the commands to run."""
    alertmanager, prometheus = _free_port(), _free_port()
    ports = {"server": server, "alertmanager": alertmanager, "interval": f"{interval:g}"}
    files = {
        "published.yml": PUBLISHED,
        "prometheus.yml": PROMETHEUS.format(**ports),
        "alertmanager.yml": ALERTMANAGER.format(**ports),
        "monitor.yaml": MONITOR.format(**ports, folder=folder, timeout=f"{interval / 2:g}"),
        "url": f"http://127.0.0.1:{server}/monitor",
        "key": "whsec_" + "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    shutil.copy(ROOT / "alerts" / "prometheus" / "engine.rules.yml", folder)
    return [
        [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/tsdb",
            f"--web.listen-address=127.0.0.1:{prometheus}",
        ],
        [
            "prometheus-alertmanager",
            f"--config.file={folder}/alertmanager.yml",
            f"--storage.path={folder}/am",
            f"--web.listen-address=127.0.0.1:{alertmanager}",
            "--cluster.listen-address=",
        ],
        [sys.executable, "-m", "monitor", "run", "-c", f"{folder}/monitor.yaml"],
    ]


def _wait(seconds: float, done: Callable[[], bool] = lambda: False) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not done():
        time.sleep(0.5)


def main() -> None:
    """Runs once, and prints when each alert was told, in seconds after the collapse."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interval", type=float, default=15.0)
    parser.add_argument("--healthy", type=float, default=600.0)
    parser.add_argument("--patience", type=float, default=1500.0)
    args = parser.parse_args()
    world = World()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(world))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = _prepare(folder, server.server_address[1], args.interval)
        with (folder / "log").open("wb") as log:
            running = [
                subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=_environment())
                for command in commands
            ]
            try:
                _wait(args.healthy)
                early = dict(world.heard)
                world.collapse()
                published = "prometheus: PublishedLowAcceptance"
                _wait(args.patience, lambda: published in world.heard)
            finally:
                for process in running:
                    process.terminate()
                for process in running:
                    process.wait()
    server.shutdown()
    collapse = world.collapsed_at or 0.0
    print(f"scraped each {args.interval:g} s; {len(early)} alerts before the collapse: {[*early]}")
    for alert, at in sorted(world.heard.items(), key=lambda item: item[1]):
        print(f"{at - collapse:8.1f} s  {alert}")


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


if __name__ == "__main__":
    main()
