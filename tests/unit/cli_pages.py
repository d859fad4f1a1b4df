"""Small metrics pages, and a run of the command line inside the test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from monitor.cli.runner import run


@dataclass(frozen=True)
class Result:
    """What a run of the program left behind."""

    code: int
    out: str
    err: str


def invoke(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Result:
    """Runs ``monitor ARGUMENTS`` in this process, its outermost border included."""
    code = run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return Result(code, captured.out, captured.err)


def vllm_page(steps: int, *, accepted: float = 2.0, model: str = "demo") -> str:
    """A page of a vLLM server after ``steps`` drafts of three tokens."""
    labels = f'{{model_name="{model}",engine="0"}}'
    figures = {
        "vllm:spec_decode_num_drafts_total": steps,
        "vllm:spec_decode_num_draft_tokens_total": 3 * steps,
        "vllm:spec_decode_num_accepted_tokens_total": accepted * steps,
        "vllm:generation_tokens_total": (1 + accepted) * steps,
        "vllm:prompt_tokens_total": 100 * steps,
        "vllm:num_requests_running": 2,
        "vllm:num_requests_waiting": 0,
    }
    lines = []
    for name, value in figures.items():
        lines += [f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"]
        lines += [f"{name}{labels} {value}"]
        if name.endswith("_total"):
            lines += [f"{name.removesuffix('_total')}_created{labels} 1.7e9"]
    return "\n".join(lines) + "\n"


def write_series(folder: Path, count: int = 11, **options: float | str) -> list[str]:
    """``--page`` arguments for a series of pages, a minute apart."""
    arguments = []
    for number in range(count):
        path = folder / f"{number:02}.prom"
        path.write_text(vllm_page(100_000 + 6_000 * number, **options))  # type: ignore[arg-type]
        arguments += ["--page", f"{path}@{1_800_000_000 + 60 * number}"]
    return arguments
