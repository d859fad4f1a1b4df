"""Baseline curves: what is read, and one line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor.baseline_file import load_baseline
from monitor.health.baseline import BaselinePoint
from monitor.model import ConfigError, Engine, Identity

GOOD = {
    "name": "plain",
    "points": [
        {"running": 4, "tpot": 0.02},
        {"running": 1, "tpot": 0.01212, "seconds": 600},
    ],
    "fingerprint": {
        "engine": "vllm",
        "engine_version": None,
        "model": "kimi",
        "tensor_parallel": 8,
    },
}


def write(folder: Path, text: str) -> Path:
    path = folder / "curve.json"
    path.write_text(text)
    return path


def mistakes(folder: Path, text: str) -> list[str]:
    path = write(folder, text)
    with pytest.raises(ConfigError) as caught:
        load_baseline(path)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"baseline {path}: ") for line in lines)
    return [line.removeprefix(f"baseline {path}: ") for line in lines]


def test_points_are_sorted_and_the_fingerprint_is_kept(tmp_path: Path) -> None:
    baseline = load_baseline(write(tmp_path, json.dumps(GOOD)))
    assert baseline.name == "plain"
    assert baseline.points == (BaselinePoint(1.0, 0.01212, 600.0), BaselinePoint(4.0, 0.02))
    assert baseline.identity == Identity(Engine.VLLM, model="kimi", tensor_parallel=8)


def test_name_and_fingerprint_may_be_left_out(tmp_path: Path) -> None:
    baseline = load_baseline(write(tmp_path, '{"points": [{"running": 1, "tpot": 0.01}]}'))
    assert baseline.name == "curve"
    assert baseline.identity == Identity()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["is not JSON: Expecting value (line 1)"]),
        ("[]", ['must be an object: {"name": "…", "points": […]}']),
        ("[" * 100_000, ["is nested too deeply"]),
        ('{"points": NaN}', ["holds NaN or Infinity, which are no numbers in JSON"]),
        ("{}", ['points: must be a list of at least one {"running": 1, "tpot": 0.012}']),
        (
            '{"points": [3, {}, {"running": true, "tpot": -1}]}',
            [
                'points[0]: must be an object {"running": 1, "tpot": 0.012}',
                "points[1].running: is missing",
                "points[1].tpot: is missing",
                "points[2].running: must be a positive number",
                "points[2].tpot: must be a positive number",
            ],
        ),
        (
            '{"points": [{"running": 1, "tpot": 12.1}]}',
            [
                "points[0].tpot: 12.1 seconds per token cannot be (10 µs to 10 s can);"
                " was it given in milliseconds?",
            ],
        ),
        (
            '{"points": [{"running": 1, "tpot": 1e-300}]}',
            [
                "points[0].tpot: 1e-300 seconds per token cannot be (10 µs to 10 s can);"
                " was it given in milliseconds?",
            ],
        ),
        (
            '{"points": [{"running": 1, "tpot": 0.1}, {"running": 1.0, "tpot": 0.2}]}',
            ["points: two have running 1; keep one"],
        ),
        (
            '{"points": [{"running": 1, "tpt": 0.1, "tpot": 1e999}]}',
            [
                "points[0].tpt: is not known here; did you mean 'tpot'?",
                "points[0].tpot: must be a positive number",
            ],
        ),
        (
            '{"name": 3, "points": [{"running": 1, "tpot": 0.1, "seconds": "x"}],'
            ' "fingerprint": {"engine": "vlm", "model": 3, "tensor_parallel": 0, "tp": 1}}',
            [
                "name: must be printable text",
                "points[0].seconds: must be a positive number",
                "fingerprint.tp: is not known here; known are engine, engine_version, model, "
                "tensor_parallel",
                "fingerprint.tensor_parallel: must be a whole number from 1 on",
                "fingerprint.engine: did you mean 'vllm'?",
                "fingerprint.model: must be text or null",
            ],
        ),
        (
            '{"points": [{"running": 1, "tpot": 0.1}], "fingerprint": "vllm"}',
            ["fingerprint: must be an object"],
        ),
    ],
)
def test_each_mistake_is_one_line(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert mistakes(tmp_path, text) == lines


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_baseline(tmp_path / "none.json")
