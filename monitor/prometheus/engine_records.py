"""Recording rules that bring vLLM's and SGLang's own metrics to the same figures.

For people whose Prometheus scrapes the model servers themselves. The figures are sums of what
counters gained, by model and server, so that every quotient of them is one of sums; an idle
server has no quotient. Labels: ``server`` (vllm, sglang) beside ``job``, ``instance`` and
``model_name``, and ``rank`` (vLLM's ``engine``, SGLang's ``dp_rank``) where a name begins so.
"""

from __future__ import annotations

from collections.abc import Iterator

from monitor.health.interval import STORED_BLOCKS, default_design_effect, t_quantile
from monitor.health.verdict import LEAST_REQUESTS, LEAST_SAMPLES, WIDEST_HALF
from monitor.prometheus.rule_file import Group, Recording

MODEL = "job, instance, server, model_name"
RANK = f"{MODEL}, rank"
_SERVED = "job, instance, model_name"
_SAMPLES_PER_REQUEST = 600.0 / default_design_effect(draft_tokens=600.0, requests=1.0)
"""Independent samples that one request is worth, however many tokens it has."""
SEEN = "instance:specdec_models:seen1d"
"""The servers that showed figures within a day."""
_VLLM = {"server": "vllm"}
_SGLANG = {"server": "sglang"}
# SGLang shows the drafter's own scheduler beside the one that counts.
_OWN = 'engine_type!="draft"'
_STEPS = f'sglang:realtime_tokens_total{{mode="decode", {_OWN}}}'


def engine_records() -> list[Recording]:
    """What is recorded often, in the order in which it is needed."""
    return [*_vllm(), *_sglang(), *_figures()]


def slow_group() -> Group:
    """What looks back over a day: it changes slowly and takes long to work out."""
    seen = Recording(SEEN, "last_over_time(instance:specdec_models:count[1d])")
    return Group("engine-day", [_normal(), seen], interval=300.0)


def _vllm() -> Iterator[Recording]:
    counters = {
        "drafts": "vllm:spec_decode_num_drafts_total",
        "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
        "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
    }
    for figure, series in counters.items():
        yield Recording(f"rank:specdec_{figure}:increase5m", _ranks(series), _VLLM)
        expr = f'sum by ({MODEL}) (rank:specdec_{figure}:increase5m{{server="vllm"}})'
        yield Recording(f"model:specdec_{figure}:increase5m", expr)
    served = {
        "requests:increase5m": 'increase(vllm:request_success_total{engine!=""}[5m])',
        "output_tokens:increase5m": 'increase(vllm:generation_tokens_total{engine!=""}[5m])',
        "output_tokens:increase2m": 'increase(vllm:generation_tokens_total{engine!=""}[2m])',
        "running:sum": "vllm:num_requests_running",
    }
    for figure, series in served.items():
        yield Recording(f"model:specdec_{figure}", f"sum by ({_SERVED}) ({series})", _VLLM)
    # One observation a step and request, under the names of newer and older releases.
    names = ("inter_token_latency", "time_per_output_token")
    steps = (f'increase(vllm:{name}_seconds_count{{engine!=""}}[5m])' for name in names)
    expr = f"\nor on ({_SERVED})\n".join(f"sum by ({_SERVED}) ({series})" for series in steps)
    yield Recording("model:specdec_steps:increase5m", expr, _VLLM)


def _ranks(series: str) -> str:
    """What a counter of vLLM gained, by rank.

    The V0 engine, whose counters are sums of totals and cannot be read so, shows no ``engine``.
    """
    gained = f'increase({series}{{engine!=""}}[5m])'
    return f'sum by ({_SERVED}, rank) (label_replace({gained}, "rank", "$1", "engine", "(.*)"))'


def _sglang() -> Iterator[Recording]:
    yield from _sglang_gauges()
    yield from _sglang_drafts()
    served = {
        "requests:increase5m": f"sum by ({_SERVED}) (increase(sglang:num_requests_total[5m]))",
        "output_tokens:increase5m": _sglang_tokens("increase", "5m", _SERVED),
        # Only with the counter that moves with each step can a standstill be seen.
        "output_tokens:increase2m": _sglang_whole(f"increase({_STEPS}[2m])", _SERVED),
        "running:sum": _sglang_whole(f"sglang:num_running_reqs{{{_OWN}}}", _SERVED),
    }
    for figure, expr in served.items():
        yield Recording(f"model:specdec_{figure}", expr, _SGLANG)


def _sglang_gauges() -> Iterator[Recording]:
    """Verifications of each rank, from the gauge of their mean length.

    The gauge keeps its value for ever; it counts only as far as tokens flow. 0 is "not measured",
    and with no steps at all (adaptive speculation) a length of 1 is no fault.
    """
    by = f"{_SERVED}, dp_rank"
    length = f"max by ({by}) (sglang:spec_accept_length{{{_OWN}}} >= 1)"
    off = f"max by ({by}) (sglang:spec_num_steps{{{_OWN}}}) == 0"
    tokens = _sglang_tokens("rate", "2m", by)
    drafts = f"({tokens})\n/ on ({by})\n({length} unless on ({by}) {off})"
    ranked = (
        f'sum by ({_SERVED}, rank) (label_replace(\n{drafts},\n"rank", "$1", "dp_rank", "(.*)"))'
    )
    yield Recording("rank:specdec_drafts:rate2m", ranked, _SGLANG)
    accepted = f"{drafts}\n* on ({by})\n({length} - 1)"
    ranked = ranked.replace(drafts, accepted)
    yield Recording("rank:specdec_accepted_tokens:rate2m", ranked, _SGLANG)
    for figure in ("drafts", "accepted_tokens"):
        mean = f"300 * avg_over_time(rank:specdec_{figure}:rate2m[5m])"
        yield Recording(f"rank:specdec_{figure}:increase5m", mean)


def _sglang_drafts() -> Iterator[Recording]:
    """Verifications of a server: from counters where it has them, else the sum of the gauges.

    With no steps at all (adaptive speculation) verifications carry no draft. Prometheus stretches
    a counter that began within the window by how far it is from zero, each one differently, and
    here one is taken off another: so a counter is only used once it is older than the window.
    """
    steps = f"max by ({_SERVED}) (sglang:spec_num_steps{{{_OWN}}}) > bool 0"
    series = "sglang:spec_verify_calls_total"
    calls = (
        f"(sum by ({_SERVED}) (increase({series}[5m]))"
        f" and on ({_SERVED}) sum by ({_SERVED}) ({series} offset 5m))"
    )
    drafts = f"{calls} * on ({_SERVED}) ({steps})"
    tokens = f"sum by ({_SERVED}) (increase(sglang:generation_tokens_total[5m]))"
    requests = f"sum by ({_SERVED}) (increase(sglang:num_requests_total[5m]))"
    size = f"(max by ({_SERVED}) (sglang:spec_num_draft_tokens{{{_OWN}}} > 1) - 1)"
    accepted = f"clamp_min({tokens} - {requests} - {calls}, 0) * on ({_SERVED}) ({steps})"
    counted = {"drafts": drafts, "accepted_tokens": accepted}
    for figure, expr in counted.items():
        gauges = f'sum by ({_SERVED}) (rank:specdec_{figure}:increase5m{{server="sglang"}})'
        either = f"{expr}\nor on ({_SERVED})\n{gauges}"
        yield Recording(f"model:specdec_{figure}:increase5m", either, _SGLANG)
    sized = f"{drafts} * on ({_SERVED}) {size}"
    yield Recording("model:specdec_draft_tokens:increase5m", sized, _SGLANG)


def _sglang_tokens(function: str, during: str, by: str) -> str:
    """Tokens that flow with every step; older releases only count them as requests finish."""
    moving = _sglang_whole(f"{function}({_STEPS}[{during}])", by)
    finished = f"sum by ({by}) ({function}(sglang:generation_tokens_total[{during}]))"
    return f"{moving}\nor on ({_SERVED})\n{finished}"


def _sglang_whole(series: str, by: str) -> str:
    """A figure of all ranks: the schedulers of one data-parallel rank show copies."""
    return f"sum by ({by}) (max by ({_SERVED}, dp_rank) ({series}))"


def _figures() -> Iterator[Recording]:
    """The quotients and their limits, for all servers alike."""
    for level in ("rank", "model"):
        drafts = f"({level}:specdec_drafts:increase5m > 0)"
        length = f"1 + {level}:specdec_accepted_tokens:increase5m / {drafts}"
        yield Recording(f"{level}:specdec_acceptance_length:ratio5m", length)
    rate = "model:specdec_accepted_tokens:increase5m / (model:specdec_draft_tokens:increase5m > 0)"
    yield Recording("model:specdec_acceptance_rate:ratio5m", rate)
    yield Recording("model:specdec_samples:sum5m", _samples())
    for side, sign in (("low", "-"), ("high", "+")):
        yield Recording(f"model:specdec_acceptance_rate_{side}:ratio5m", _wilson(sign))
    yield Recording("instance:specdec_models:count", f"count by (job, instance) ({_PRESENT})")


_PRESENT = "model:specdec_running:sum"


def _samples() -> str:
    """Independent samples in the window, where there are enough of them."""
    requests = f"model:specdec_requests:increase5m >= {LEAST_REQUESTS}"
    samples = f"{_SAMPLES_PER_REQUEST:g} * ({requests})"
    # No more samples than draft tokens, however many requests there were.
    bounded = f"model:specdec_draft_tokens:increase5m < on ({MODEL}) ({samples})"
    return f"(\n{bounded}\nor on ({MODEL})\n{samples}\n)\n>= {LEAST_SAMPLES:g}"


def _wilson(sign: str) -> str:
    """A limit of Wilson's interval for the acceptance rate, where it is narrow enough."""
    z = t_quantile(STORED_BLOCKS)
    rate, n = "clamp_max(model:specdec_acceptance_rate:ratio5m, 1)", "model:specdec_samples:sum5m"
    root = f"sqrt({rate} * (1 - {rate}) / {n} + {z * z / 4:.4f} / {n} ^ 2)"
    half = f"({z:.4f} * {root} / (1 + {z * z:.4f} / {n}) <= {WIDEST_HALF})"
    centre = f"({rate} + {z * z / 2:.4f} / {n}) / (1 + {z * z:.4f} / {n})"
    return f"{centre}\n{sign}\n{half}"


def _normal() -> Recording:
    """What has been usual for a day, where that is known for an hour at least."""
    rates = "model:specdec_acceptance_rate:ratio5m[1d:1m] offset 30m"
    known = f"count_over_time({rates}) >= 60"
    usual = f"quantile_over_time(0.5, {rates})"
    expr = f"{usual}\nand on ({MODEL})\n{known}"
    return Recording("model:specdec_acceptance_rate:median1d", expr)
