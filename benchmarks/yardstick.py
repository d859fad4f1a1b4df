"""Prometheus on the same pages as the monitor: what a scrape with three rules costs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

_KEPT = (
    "vllm:(spec_decode_.*|num_requests_.*|(generation|prompt)_tokens_total|request_success_total"
    "|prefix_cache_.*_total|iteration_tokens_total_count"
    "|(time_to_first_token|inter_token_latency)_seconds_(sum|count))"
)
_RULES = """
groups:
  - name: speculation
    rules:
      - record: acceptance
        expr: >-
          rate(vllm:spec_decode_num_accepted_tokens_total[5m])
          / rate(vllm:spec_decode_num_draft_tokens_total[5m])
      - record: acceptance_length
        expr: >-
          1 + rate(vllm:spec_decode_num_accepted_tokens_total[5m])
          / rate(vllm:spec_decode_num_drafts_total[5m])
      - alert: AcceptanceLow
        expr: acceptance < 0.4
        for: 5m
"""


def prometheus(
    url: str, targets: int, interval: float, warm: float, seconds: float
) -> float | None:
    """Seconds of CPU time per scrape; None where there is no Prometheus.

    Of the same address so many times over, each under a label of its own.
    """
    if shutil.which("prometheus") is None:
        return None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rules.yml").write_text(_RULES)
        config = folder / "prometheus.yml"
        config.write_text(_config(url.removeprefix("http://"), targets, interval))
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                "--web.listen-address=127.0.0.1:0",
                "--log.level=error",
            ]
        )
        try:
            time.sleep(warm)
            before = cpu(process.pid)
            time.sleep(seconds)
            return (cpu(process.pid) - before) / (targets * seconds / interval)
        finally:
            process.terminate()
            process.wait()


def _config(address: str, targets: int, interval: float) -> str:
    each = "".join(
        f"      - {{targets: ['{address}'], labels: {{replica: 'r{index}'}}}}\n"
        for index in range(targets)
    )
    return (
        f"global: {{scrape_interval: {interval:g}s, evaluation_interval: {interval:g}s}}\n"
        "rule_files: [rules.yml]\n"
        "scrape_configs:\n"
        "  - job_name: bench\n"
        "    metric_relabel_configs:\n"
        f"      - {{source_labels: [__name__], regex: '{_KEPT}', action: keep}}\n"
        f"    static_configs:\n{each}"
    )


def cpu(pid: int) -> float:
    """Seconds of CPU time, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
