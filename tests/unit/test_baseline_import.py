"""Results of load tools: what is read from each, and what is refused with which line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.baselines.importing import Curve, Format, read_files
from monitor.model import ConfigError, Engine

VLLM: dict[str, Any] = {
    "date": "20261129-120000",
    "endpoint_type": "vllm",
    "backend": "vllm",
    "label": None,
    "model_id": "moonshotai/Kimi-K2.5",
    "tokenizer_id": "moonshotai/Kimi-K2.5",
    "num_prompts": 160,
    "request_rate": "inf",
    "burstiness": 1.0,
    "max_concurrency": 16,
    "duration": 52.5,
    "completed": 160,
    "failed": 0,
    "total_input_tokens": 163840,
    "total_output_tokens": 40960,
    "request_throughput": 3.05,
    "output_throughput": 780.2,
    "mean_ttft_ms": 210.0,
    "mean_tpot_ms": 19.2,
    "median_tpot_ms": 19.1,
    "std_tpot_ms": 0.96,
    "p99_tpot_ms": 22.0,
    "mean_itl_ms": 19.2,
}
SGLANG: dict[str, Any] = {
    "tag": None,
    "backend": "sglang",
    "dataset_name": "random",
    "request_rate": float("inf"),
    "max_concurrency": 8,
    "duration": 61.0,
    "completed": 80,
    "total_input_tokens": 40000,
    "total_output_tokens": 20000,
    "total_output_tokens_retokenized": 19990,
    "mean_e2e_latency_ms": 5000.0,
    "mean_ttft_ms": 90.0,
    "mean_tpot_ms": 14.0,
    "std_tpot_ms": 0.7,
    "mean_itl_ms": 13.9,
    "concurrency": 7.4,
    "accept_length": None,
    "server_info": {"version": "0.5.23", "tp_size": 8, "served_model_name": "kimi"},
}


def distribution(mean: float, **more: float) -> dict[str, Any]:
    return {"successful": {"mean": mean, "count": 100, **more}, "errored": None}


def guidellm(*loads: tuple[float, float]) -> dict[str, Any]:
    return {
        "args": {"target": "http://h", "model": "kimi"},
        "benchmarks": [
            {
                "config": {"strategy": {"type_": "concurrent", "streams": round(running)}},
                "start_time": 1_800_000_000.0 + 100 * index,
                "end_time": 1_800_000_060.0 + 100 * index,
                "duration": 60.0,
                "metrics": {
                    "request_totals": {"successful": 100, "errored": 0},
                    "request_concurrency": distribution(running),
                    "inter_token_latency_ms": distribution(tpot, std_dev=1.0),
                    "time_per_output_token_ms": distribution(tpot + 3.0),
                    "prompt_token_count": distribution(512.0),
                },
            }
            for index, (running, tpot) in enumerate(loads)
        ],
    }


AIPERF: dict[str, Any] = {
    "schema_version": "1.3",
    "aiperf_version": "0.10.0",
    "input_config": {
        "loadgen": {"concurrency": 4},
        "endpoint": {"model_names": ["kimi"]},
    },
    "request_throughput": {"unit": "requests/sec", "avg": 2.0},
    "request_latency": {"unit": "ms", "avg": 1900.0},
    "request_count": {"unit": "requests", "avg": 120.0},
    "inter_token_latency": {"unit": "ms", "avg": 12.5, "std": 0.5, "count": 120},
    "input_sequence_length": {"unit": "tokens", "avg": 256.0},
    "benchmark_duration": {"unit": "sec", "avg": 60.0},
    "was_cancelled": False,
}
AIPERF_CSV = """\
Metric,avg,min,max,p99,p90,p75,p50,std
Inter Token Latency (ms),12.50,12.00,13.00,12.9,12.8,12.6,12.5,0.50
Request Latency (ms),"1,900.00","1,800.00",2000.0,1990,1980,1950,1900,20
Input Sequence Length (tokens),256.00,256,256,256,256,256,256,0

Metric,Value
Request Throughput (requests/sec),2.00
Request Count,120.00
Benchmark Duration (sec),60.00
"""


def write(folder: Path, content: object, name: str = "run.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def read(folder: Path, content: object, wanted: Format = Format.AUTO) -> Curve:
    return read_files([write(folder, content)], wanted)


def refusal(folder: Path, content: object, wanted: Format = Format.AUTO) -> str:
    path = write(folder, content)
    with pytest.raises(ConfigError) as caught:
        read_files([path], wanted)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{path}: ")
    return line.removeprefix(f"{path}: ")


def loads(curve: Curve) -> list[tuple[float, float]]:
    return [(point.running, round(point.tpot, 9)) for point in curve.points]


def test_vllm_bench(tmp_path: Path) -> None:
    curve = read(tmp_path, VLLM)
    (point,) = curve.points
    assert curve.tool == "vllm-bench"
    assert point.running == 16.0
    assert point.tpot == pytest.approx(0.0192)
    assert (point.seconds, point.requests, point.context) == (52.5, 160.0, 1024.0)
    assert point.spread == pytest.approx(0.05)
    assert curve.identity.engine is Engine.VLLM
    assert curve.identity.model == "moonshotai/Kimi-K2.5"
    (source,) = curve.sources
    assert source.name == "run.json"
    assert len(source.sha256) == 64


@pytest.mark.parametrize(
    ("changes", "running"),
    [
        # Without a cap the load is the time of all requests over the duration.
        ({"max_concurrency": None, "mean_e2el_ms": 5250.0}, 16.0),
        ({"max_concurrency": None, "latencies": [1.0] * 105}, 2.0),
        # (210 ms + 255 · 19.2 ms) · 160 / 52.5 s
        ({"max_concurrency": None}, 15.5611),
        # At a finite rate the cap is not the load.
        ({"request_rate": 0.5, "max_concurrency": 256, "mean_e2el_ms": 5250.0}, 16.0),
        ({"request_rate": 0.5, "max_concurrency": 8, "mean_e2el_ms": 5250.0}, 8.0),
        # A cap that hardly was reached is not the load either.
        ({"completed": 20, "mean_e2el_ms": 5250.0}, 2.0),
    ],
)
def test_the_load_of_a_vllm_run(tmp_path: Path, changes: dict[str, Any], running: float) -> None:
    (point,) = read(tmp_path, VLLM | changes).points
    assert point.running == pytest.approx(running, rel=1e-4)


def test_several_runs_make_one_curve(tmp_path: Path) -> None:
    def at(n: int, tpot: float) -> dict[str, Any]:
        return VLLM | {"max_concurrency": n, "mean_tpot_ms": tpot}

    runs = [at(1, 12.0), at(4, 13.0), at(16, 19.0)]
    expected = [(1.0, 0.012), (4.0, 0.013), (16.0, 0.019)]
    assert loads(read(tmp_path, runs)) == expected
    lines = "\n".join(json.dumps(run) for run in runs)
    assert loads(read(tmp_path, lines)) == expected
    paths = [write(tmp_path, run, f"{n}.json") for n, run in enumerate(runs)]
    assert loads(read_files(paths)) == expected
    assert [source.name for source in read_files(paths).sources] == ["0.json", "1.json", "2.json"]


def test_runs_at_one_load_are_averaged_and_no_point_falls(tmp_path: Path) -> None:
    runs = [
        VLLM | {"max_concurrency": 1, "mean_tpot_ms": 12.0, "completed": 30},
        VLLM | {"max_concurrency": 1, "mean_tpot_ms": 16.0, "completed": 90},
        VLLM | {"max_concurrency": 2, "mean_tpot_ms": 13.0, "duration": 105.0},
    ]
    (one, two) = read(tmp_path, runs).points
    # 15 ms at one request and 13 at two can only be noise; both saw the same time.
    assert (one.running, two.running) == (1.0, 2.0)
    assert one.tpot == two.tpot == pytest.approx(0.014)


@pytest.mark.parametrize("dump", [json.dumps, lambda runs: "\n".join(map(json.dumps, runs))])
def test_sglang_bench(tmp_path: Path, dump: Any) -> None:
    second = SGLANG | {"max_concurrency": None, "mean_tpot_ms": None}
    curve = read(tmp_path, dump([SGLANG, second]))
    assert curve.tool == "sglang-bench"
    assert loads(curve) == [(7.4, 0.0139), (8.0, 0.014)]
    assert curve.identity == (Engine.SGLANG, "0.5.23", "kimi", None, None, 8)
    assert curve.notes == ("some runs have no mean_tpot_ms; their mean_itl_ms was taken",)


def test_guidellm(tmp_path: Path) -> None:
    curve = read(tmp_path, guidellm((1.0, 12.0), (7.9, 15.0)))
    assert loads(curve) == [(1.0, 0.012), (7.9, 0.015)]
    assert curve.points[0].context == 512.0
    assert curve.points[0].requests == 100.0
    assert curve.identity.model == "kimi"
    assert (curve.start, curve.end) == (1_800_000_000.0, 1_800_000_160.0)
    assert curve.notes == ()


def test_guidellm_without_latency_between_tokens(tmp_path: Path) -> None:
    report = guidellm((4.0, 12.0))
    metrics = report["benchmarks"][0]["metrics"]
    del metrics["inter_token_latency_ms"], metrics["request_concurrency"]
    curve = read(tmp_path, report)
    assert loads(curve) == [(4.0, 0.015)]
    assert "may include the first token" in curve.notes[0]


@pytest.mark.parametrize("content", [AIPERF, {"records": AIPERF, **AIPERF}, AIPERF_CSV])
def test_aiperf(tmp_path: Path, content: object) -> None:
    curve = read(tmp_path, content)
    (point,) = curve.points
    assert point.tpot == pytest.approx(0.0125)
    assert point.running == pytest.approx(3.8 if content is AIPERF_CSV else 4.0)
    assert (point.seconds, point.requests, point.context) == (60.0, 120.0, 256.0)
    assert point.spread == pytest.approx(0.04)


def test_aiperf_in_other_units(tmp_path: Path) -> None:
    latency = {"unit": "us", "avg": 12_500.0}
    assert loads(read(tmp_path, AIPERF | {"inter_token_latency": latency})) == [(4.0, 0.0125)]


@pytest.mark.parametrize(
    "table",
    [
        "running,tpot\n1,0.012\n8,0.02\n",
        "running,tpot_ms\n1,12\n8,20\n",
        " Running , TPOT_ms \r\n\r\n8,20\r\n1,12\r\n",
        "running,tpot,seconds,requests,context\n1,0.012,600,,\n8,0.02,,5,100\n",
        "\ufeffrunning,tpot\n0.5,0.012\n8,0.02\n",
    ],
)
def test_plain_csv(tmp_path: Path, table: str) -> None:
    assert loads(read(tmp_path, table)) == [(1.0, 0.012), (8.0, 0.02)]


def test_a_baseline_file_of_our_own(tmp_path: Path) -> None:
    document = {
        "name": "plain",
        "points": [{"running": 1, "tpot": 0.012, "seconds": 600}],
        "fingerprint": {"engine": "vllm", "model": "kimi"},
    }
    curve = read(tmp_path, document)
    assert loads(curve) == [(1.0, 0.012)]
    assert curve.identity.model == "kimi"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "is empty"),
        ("<html>502</html>", "is neither JSON nor a table of running,tpot"),
        ('{"a": 1}', "is the result of no known tool; name it with --format"),
        ("[]", "is an empty list"),
        ('{"mean_tpot_ms": 12', "line 1: is not JSON; was the file cut short?"),
        (json.dumps(VLLM) + '\n{"mean', "line 2: is not JSON"),
        ("[" * 100_000, "nested"),
        ([VLLM, guidellm((1, 12))], "is the result of no known tool"),
        (VLLM | {"mean_tpot_ms": 19_200_000.0}, "run 1: a time per output token of 19200 s"),
        (VLLM | {"mean_tpot_ms": 0.0192e-3}, "run 1: a time per output token of"),
        (VLLM | {"mean_tpot_ms": 0}, "run 1: a time per output token of 0 s cannot be"),
        (VLLM | {"mean_tpot_ms": "19"}, "run 1: mean_tpot_ms is no number"),
        (VLLM | {"mean_tpot_ms": True}, "run 1: mean_tpot_ms is no number"),
        (VLLM | {"mean_tpot_ms": float("nan")}, "run 1: mean_tpot_ms is not a finite number"),
        (VLLM | {"mean_tpot_ms": None}, "run 1: mean_tpot_ms is missing"),
        (VLLM | {"spec_decode_num_drafts": 10}, "run 1: it was measured with speculation"),
        (SGLANG | {"accept_length": 2.5}, "run 1: it was measured with speculation"),
        (
            {"median_itl_ms": 1.0, "mean_e2e_latency_ms": 1.0},
            "run 1: neither mean_tpot_ms nor mean_itl_ms is there",
        ),
        (
            {"mean_tpot_ms": 12.0, "request_rate": 5},
            "run 1: its load is not known: run the tool with a fixed concurrency",
        ),
        ([VLLM, VLLM | {"model_id": "other"}], "its runs are of several models"),
        ({"benchmarks": []}, "benchmarks is empty"),
        ({"benchmarks": [3]}, "benchmarks[0]: is no JSON object"),
        (
            {"benchmarks": [{"metrics": {}}]},
            "benchmarks[0]: metrics.inter_token_latency_ms.successful.mean is missing",
        ),
        (
            AIPERF | {"inter_token_latency": {"avg": 12.5}},
            "the unit of inter_token_latency is missing",
        ),
        (
            AIPERF | {"inter_token_latency": {"avg": 12.5, "unit": "min"}},
            "the unit of inter_token_latency is min, not ns, us, ms or s",
        ),
        (AIPERF | {"was_cancelled": True}, "the run was cancelled"),
        ("Metric,avg\nRequest Latency (ms),3\n", "inter_token_latency is missing"),
        ("Metric,avg\nInter Token Latency (ms),x\n", "line 2: 'x' is no number"),
        ("running,tpot,colour\n1,2,3\n", "line 1: column 'colour' is not one of"),
        ("running,running,tpot\n", "line 1: a column is there twice"),
        ("running\n1\n", "line 1: write running,tpot"),
        ("running,tpot,tpot_ms\n", "line 1: write running,tpot"),
        ("running,tpot\n", "has a header but no lines"),
        ("running,tpot\n1\n", "line 2: 1 cells under 2 columns"),
        ("running,tpot\n1,x\n", "line 2: tpot: 'x' is no number"),
        ("running,tpot\n1,nan\n", "line 2: tpot: must be a number from 0 on"),
        ("running,tpot\n1,0.01\n2,12\n", "line 3: a time per output token of 12 s cannot be"),
        ("running,tpot\n0,0.01\n", "line 2: its mean number of running requests"),
        ({"points": [{"running": 1, "tpot": 12}]}, "tpot: 12 seconds per token cannot be"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, content: object, line: str) -> None:
    assert line in refusal(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "wanted", "line"),
    [
        ("running,tpot\n1,0.01\n", Format.VLLM, "is not JSON, which --format vllm-bench is"),
        (VLLM, Format.CSV, "is JSON, which --format csv is not"),
        (VLLM, Format.GUIDELLM, "benchmarks is empty"),
        (guidellm((1, 12)), Format.VLLM, "run 1: mean_tpot_ms is missing"),
    ],
)
def test_the_wrong_format_is_one_line(
    tmp_path: Path, content: object, wanted: Format, line: str
) -> None:
    assert line in refusal(tmp_path, content, wanted)


def test_every_bad_file_is_named(tmp_path: Path) -> None:
    paths = [write(tmp_path, "", "a.json"), write(tmp_path, VLLM, "b.json"), tmp_path / "c.json"]
    with pytest.raises(ConfigError) as caught:
        read_files(paths)
    assert str(caught.value).splitlines() == [
        f"{tmp_path}/a.json: is empty",
        f"{tmp_path}/c.json: cannot be read: No such file or directory",
    ]


def test_files_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    paths = [
        write(tmp_path, VLLM, "a.json"),
        write(tmp_path, VLLM | {"model_id": "other"}, "b.json"),
    ]
    with pytest.raises(ConfigError, match="the files differ in model"):
        read_files(paths)
