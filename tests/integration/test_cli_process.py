"""The program as a process: start-up, exit codes, pipes and signals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MONITOR = [sys.executable, "-m", "monitor"]
TIMEOUT = 60
PAGE = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{model_name="m",engine="0"} 9000
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{model_name="m",engine="0"} 27000
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{model_name="m",engine="0"} 18000
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="m",engine="0"} 27000
"""
HEAVY = ("sqlalchemy", "fastapi", "alembic", "apscheduler", "uvicorn", "requests")


def monitor(
    *arguments: str, stdin: str = "", environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MONITOR, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        env={**os.environ, **(environ or {})},
        check=False,
    )


def test_the_answer_and_the_exit_code() -> None:
    good = monitor("check", "--page", "-", stdin=PAGE)
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.startswith("UNPROVEN  standard input  vllm, m\n")
    bad = monitor("check", "--page", "-", "--json", stdin="<html>")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert len(bad.stderr.splitlines()) == 1
    assert monitor("--version").stdout.startswith("monitor ")


@pytest.mark.parametrize(
    "environ",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C.UTF-8", "NO_COLOR": "1"},
    ],
)
def test_any_terminal_can_show_the_answer(environ: dict[str, str]) -> None:
    page = PAGE.replace('"m"', '"modèle 中"')
    result = monitor("check", "--page", "-", stdin=page, environ=environ)
    assert (result.returncode, result.stderr) == (0, "")
    assert "UNPROVEN" in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("arguments", [["--version"], ["check", "--page", "-", "--json"]])
def test_quick_commands_load_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys; from monitor.cli.runner import run; code = run(sys.argv[1:]);"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), code, file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        input=PAGE,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    assert result.stderr == "[] 0\n"


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    error = tmp_path / "stderr"
    with error.open("w") as stream:
        process = subprocess.Popen(
            [*MONITOR, "config", "schema"], stdout=subprocess.PIPE, stderr=stream
        )
        assert process.stdout is not None
        # The reader is gone before the first byte, as with "| true".
        process.stdout.close()
        assert process.wait(TIMEOUT) == 141
    assert error.read_text() == ""
