"""The shipped Prometheus rules, checked and tested by Prometheus's own tool."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

RULES = Path(__file__).parents[2] / "alerts" / "prometheus"
PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing: install Debian's prometheus")
@pytest.mark.parametrize(
    "command",
    [("check", "rules", "monitor.rules.yml"), ("test", "rules", "monitor.rules.test.yml")],
    ids=["check", "test"],
)
def test_rules_hold(command: tuple[str, ...]) -> None:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, *command], cwd=RULES, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
