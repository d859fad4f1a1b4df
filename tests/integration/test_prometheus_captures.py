"""The rules for people without the daemon, over pages of real servers: every name and label."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from promtool import RULES, name_of, needs_promtool, run_tests

pytestmark = needs_promtool

BEFORE = 24
"""Steps of 15 s before the first page."""
DATA = Path(__file__).parents[1] / "data"
Page = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def read(path: Path) -> Page:
    text = gzip.decompress(path.read_bytes()).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(("vllm:", "sglang:")) and "bucket" not in sample.name
    }


def pages(folder: str, pattern: str, count: int) -> list[Page]:
    return [read(path) for path in sorted((DATA / folder).glob(pattern))[:count]]


def gained(found: Sequence[Page], name: str) -> float:
    """What a counter has gained in all, over all its labels."""
    first, last = found[0], found[-1]
    return sum(value - first.get(key, 0.0) for key, value in last.items() if key[0] == name)


def vllm_length(found: Sequence[Page]) -> float:
    accepted = gained(found, "vllm:spec_decode_num_accepted_tokens_total")
    return 1 + accepted / gained(found, "vllm:spec_decode_num_drafts_total")


def sglang_length(found: Sequence[Page]) -> float:
    tokens = gained(found, "sglang:generation_tokens_total")
    requests = gained(found, "sglang:num_requests_total")
    return (tokens - requests) / gained(found, "sglang:spec_verify_calls_total")


VLLM = {
    "draft model": pages("vllm", "03-draftgood-series-*", 10),
    "bad draft model": pages("vllm", "04-draftbad-series-*", 10),
    "n-gram": pages("vllm", "02-ngram-series-*", 10),
    "two ranks": pages("vllm", "09-dp2-*", 2),
}
SGLANG = {
    "0.5.23": pages("sglang/v0.5.23-tp2", "*.prom.gz", 9),
    "0.5.23, two ranks": pages("sglang/v0.5.23-dp2", "*.prom.gz", 6),
}
GAUGES = {
    "0.4.6": pages("sglang/v0.4.6.post5-tp1", "*.prom.gz", 4),
    "0.5.5": pages("sglang/v0.5.5-tp1", "*.prom.gz", 4),
    "0.5.8, copies": pages("sglang/v0.5.8-tp2-allsched", "*.prom.gz", 4),
    "0.5.12, two ranks": pages("sglang/v0.5.12-dp2", "*.prom.gz", 4),
}
NOTHING = {
    "plain vLLM": pages("vllm", "01-baseline-series-*", 7),
    "vLLM V0": pages("vllm", "20-v092-V0-draft-0*", 6),
    "plain SGLang": pages("sglang/v0.5.23-nospec-baseline", "*.prom.gz", 7),
    "plain SGLang 0.5.5": pages("sglang/v0.5.5-nospec-baseline", "*.prom.gz", 6),
}


def series(instance: str, found: Sequence[Page]) -> list[Mapping[str, str]]:
    """The pages as scrapes 15 s apart, after six minutes without any work.

    The counters began long ago: Prometheus stretches those that are near zero differently.
    """
    made: list[Mapping[str, str]] = []
    for name, labels in found[-1]:
        base = 1e7 if name.endswith(("_total", "_count", "_sum")) else 0.0
        values = [found[0].get((name, labels), 0.0), *(p.get((name, labels)) for p in found)]
        texts = ["_" if value is None else f"{value + base:.17g}" for value in values]
        texts[0] += f"x{BEFORE - 1}"
        whole = {"job": "x", "instance": instance, **dict(labels)}
        made.append({"series": name_of(name, whole), "values": " ".join(texts)})
    return made


def test_figures_of_real_pages_are_what_their_counters_say(tmp_path: Path) -> None:
    kinds = {**VLLM, **SGLANG, **GAUGES, **NOTHING}
    questions = []
    for found, length in ((VLLM, vllm_length), (SGLANG, sglang_length)):
        questions += [asks(name, shown, length(shown)) for name, shown in found.items()]
    questions += [asks(name, shown, None) for name, shown in NOTHING.items()]
    test = {
        "interval": "15s",
        "input_series": [entry for name, found in kinds.items() for entry in series(name, found)],
        "promql_expr_test": questions,
    }
    # A rule that fails on a label it did not expect fails the test.
    run_tests(tmp_path, [test], RULES / "engine.rules.yml")


def asks(name: str, shown: Sequence[Page], length: float | None) -> Mapping[str, object]:
    expr = f'round(max(model:specdec_acceptance_length:ratio5m{{instance="{name}"}}), 0.0001)'
    samples = [] if length is None else [{"labels": "{}", "value": round(length, 4)}]
    # Rules are evaluated each 30 s: the first time after the last page.
    seconds = -(-(BEFORE + len(shown) - 1) * 15 // 30) * 30
    return {"expr": expr, "eval_time": f"{seconds}s", "exp_samples": samples}
