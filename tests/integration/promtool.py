"""Prometheus's own tool, told what to test."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

RULES = Path(__file__).parents[2] / "alerts" / "prometheus"
PROMTOOL = shutil.which("promtool")

needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is missing: install Debian's prometheus"
)


def promtool(*arguments: str, cwd: Path = RULES) -> str:
    """What promtool says, which must be content."""
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_tests(folder: Path, tests: Sequence[Mapping[str, Any]], rules: Path | None = None) -> None:
    """Runs tests of rules; JSON is YAML."""
    document = {
        "rule_files": [str(rules)] if rules is not None else [],
        "evaluation_interval": "15s",
        "tests": tests,
    }
    file = folder / "tests.yml"
    file.write_text(json.dumps(document))
    promtool("test", "rules", str(file))


def name_of(series: str, labels: Mapping[str, str]) -> str:
    """A series as promtool writes it."""
    pairs = ",".join(f"{name}={json.dumps(text)}" for name, text in labels.items())
    return f"{series}{{{pairs}}}"
