"""The raw engine view: vLLM's and SGLang's own metrics, without the monitor.

What other dashboards get wrong is put right here: rates are taken before sums and sums before
quotients, models are never mixed, ranks that repeat a figure are not added, gauges count only
where tokens flow, and what is idle shows nothing instead of its last value.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from monitor.grafana import look
from monitor.grafana.board import ENGINES, Panel, board, choice, fixed_choice, metrics_source, row
from monitor.grafana.panels import aside, dashed, lines, tiles
from monitor.grafana.queries import Now, Range, Rows
from monitor.grafana.tables import Column, rows

V = 'job=~"$job", instance=~"$instance", model_name=~"$model", engine=~"$engine"'
G = 'job=~"$job", instance=~"$instance", model_name=~"$model"'
"""SGLang numbers its ranks by ``dp_rank``; most servers have none."""
RATE = "[$__rate_interval]"
NOW = "[$window]"
MODEL = "{{model_name}}"

ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
BY_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
DRAFTS = "vllm:spec_decode_num_drafts_total"

_LOAD = '{__name__=~"vllm:num_requests_running|sglang[:_]num_running_reqs"}'
_NO_DRAFTS = "No drafts: idle, speculation is off, or the names of the metrics have changed"
_NO_SGLANG = "No data: no SGLang server here that speculates and gives tokens"


def build() -> dashboard.Dashboard:
    """The dashboard."""
    made = board(
        ENGINES,
        "Speculative decoding: raw engine metrics",
        """Straight from the metrics pages of vLLM and SGLang, without the monitor: acceptance,
        what it costs and under which load. It cannot say whether speculation pays, because that
        needs a baseline. vLLM before 0.8.3 is left out: its counters are not what they
        seem.""",
    )
    for variable in (
        metrics_source(),
        choice("job", "Job", f"label_values({_LOAD}, job)"),
        choice("model", "Model", f"label_values({_LOAD}, model_name)"),
        choice("instance", "Instance", f"label_values({_LOAD}, instance)"),
        choice("engine", "Engine", "label_values(vllm:num_requests_running, engine)"),
        fixed_choice("window", "Window of the tiles", ("5m", "15m", "1h", "6h")),
    ):
        made.with_variable(variable)
    for panel in (*_now(), *_acceptance(), *_speed(), *_load()):
        made.with_panel(panel)
    return made.with_row(row(90, "SGLang", _sglang())).with_row(
        row(91, "Names and restarts", _names())
    )


def total(name: str, by: str, span: str = RATE) -> str:
    """A sum of rates: a restart of one server costs one interval of that server."""
    return f"sum by ({by}) (rate({name}{{{V}}}{span}))"


def _tpot(by: str, span: str = RATE, *, of: str = "and") -> str:
    """Decode time / tokens; the latency is taken per engine step, whatever its name says."""
    return f"{_steps('sum', by, span, of=of)} / ({_decoded(by, span, of=of)} > 0)"


def _steps(which: str, by: str, span: str = RATE, *, of: str = "and") -> str:
    """Decode time or steps. The metric has another name before vLLM 0.10.2; some have both."""
    new, old = (
        f"rate(vllm:{name}_seconds_{which}{{{V}}}{span})"
        for name in ("inter_token_latency", "time_per_output_token")
    )
    return f"sum by ({by}) (({new} or {old}) {_speculating(of, span)})"


def _decoded(by: str, span: str = RATE, *, of: str = "and") -> str:
    """Tokens out of decode steps: the first of a request comes out of its prompt."""
    tokens, first = (
        f"sum by ({by}) (rate(vllm:{name}{{{V}}}{span}) {_speculating(of, span)})"
        for name in ("generation_tokens_total", "time_to_first_token_seconds_count")
    )
    return f"({tokens} - {first})"


def _speculating(of: str, span: str) -> str:
    """Only servers that speculate, or (``unless``) those that do not and serve the same model."""
    offset = span.partition("]")[2]
    return f"{of} on (job, instance) {DRAFTS}{{{V}}}{offset}"


def _now() -> tuple[Panel, ...]:
    drafts = f"({total(DRAFTS, 'model_name', NOW)} > 0)"
    drafted = f"({total(DRAFTED, 'model_name', NOW)} > 0)"
    return (
        tiles(
            1,
            "Acceptance length now",
            f"""Tokens per draft, bonus token included, by model: 1 + accepted tokens / drafts
            ({ACCEPTED}, {DRAFTS}) over the chosen window. 1.0 means that the drafter is
            dead.""",
            [Now(f"1 + {total(ACCEPTED, 'model_name', NOW)} / {drafts}", MODEL)],
            empty=_NO_DRAFTS,
            size=(6, 4),
            decimals=2,
            steps=look.steps("red", (look.DEAD, "blue")),
            named=True,
        ),
        tiles(
            2,
            "Acceptance rate now",
            f"""Accepted tokens / draft tokens, by model ({ACCEPTED}, {DRAFTED}) over the chosen
            window.""",
            [Now(f"{total(ACCEPTED, 'model_name', NOW)} / {drafted}", MODEL)],
            unit="percentunit",
            empty=_NO_DRAFTS,
            size=(6, 4),
            decimals=1,
            steps=look.steps("orange", (look.LEAST_RATE, "blue")),
            named=True,
        ),
        tiles(
            3,
            "Real tokens per step now",
            """Decode tokens / decode steps of servers that speculate, by model: what speculation
            gives in truth. Lower than the acceptance length where some steps carry no draft. 1.0
            is plain decoding.""",
            [
                Now(
                    f"{_decoded('model_name', NOW)} / ({_steps('count', 'model_name', NOW)} > 0)",
                    MODEL,
                )
            ],
            empty="No tokens in this window",
            size=(6, 4),
            decimals=2,
            steps=look.steps("red", (look.DEAD, "blue")),
            named=True,
        ),
        tiles(
            4,
            "Drafts in the window",
            f"""How much the figures beside rest on ({DRAFTS}): with fewer than a few hundred
            drafts they say little. A share of steps with a draft far below 100 % means that
            speculation is mostly bypassed.""",
            [Now(f"sum by (model_name) (increase({DRAFTS}{{{V}}}{NOW})) > 0", MODEL)],
            unit="short",
            empty=_NO_DRAFTS,
            size=(6, 4),
            named=True,
        ),
    )


def _acceptance() -> tuple[Panel, ...]:
    drafts = f"({total(DRAFTS, 'model_name')} > 0)"
    positions = f"{total(BY_POSITION, 'model_name, position')}"
    each = "model_name, instance, engine"
    return (
        lines(
            5,
            "Acceptance length by model",
            f"1 + accepted tokens / drafts ({ACCEPTED}, {DRAFTS}). Red: a dead drafter.",
            [Range(f"1 + {total(ACCEPTED, 'model_name')} / {drafts}", MODEL)],
            unit="none",
            decimals=2,
            empty=_NO_DRAFTS,
            low=1.0,
            steps=look.DEAD_LINE,
        ),
        lines(
            6,
            "Acceptance length by server and engine",
            """The same for each data-parallel engine: one that differs from the others is
            sick.""",
            [
                Range(
                    f"1 + {total(ACCEPTED, each)} / ({total(DRAFTS, each)} > 0)",
                    "{{instance}} {{engine}} {{model_name}}",
                )
            ],
            unit="none",
            decimals=2,
            empty=_NO_DRAFTS,
            low=1.0,
            steps=look.DEAD_LINE,
        ),
        lines(
            7,
            "Acceptance by draft position",
            f"""Share of all drafts of a model in which the token at this position was accepted
            ({BY_POSITION}). The last position that still earns its keep is the draft size to
            use.""",
            [
                Range(
                    f"{positions} / on (model_name) group_left () {drafts}",
                    "{{model_name}} {{position}}",
                )
            ],
            unit="percentunit",
            empty="No drafts, or a server that does not count by position",
            size=(8, 8),
            high=1.0,
        ),
        lines(
            8,
            "Effective draft size",
            f"""Draft tokens / drafts, by model ({DRAFTED}, {DRAFTS}). It falls when the engine
            shortens its drafts.""",
            [Range(f"{total(DRAFTED, 'model_name')} / {drafts}", MODEL)],
            unit="none",
            decimals=1,
            empty=_NO_DRAFTS,
            size=(8, 8),
        ),
        lines(
            9,
            "Steps with a draft",
            f"""Drafts / decode steps, by model ({DRAFTS}; inter_token_latency_seconds_count or,
            before vLLM 0.10.2, time_per_output_token_seconds_count). Near zero under traffic:
            speculation is bypassed, and a good acceptance length means nothing.""",
            [
                Range(
                    f"{total(DRAFTS, 'model_name')} / ({_steps('count', 'model_name')} > 0)",
                    MODEL,
                )
            ],
            unit="percentunit",
            empty=_NO_DRAFTS,
            size=(8, 8),
            high=1.0,
        ),
    )


def _speed() -> tuple[Panel, ...]:
    bucket = "vllm:request_time_per_output_token_seconds_bucket"
    by = "model_name, le"
    percentiles = [
        Range(
            f"histogram_quantile({share}, sum by ({by}) (rate({bucket}{{{V}}}{RATE}))) >= 0",
            f"{MODEL} p{100 * share:.0f}",
        )
        for share in (0.5, 0.95, 0.99)
    ]
    return (
        dashed(
            lines(
                10,
                "Time per output token (dashed: a week before)",
                """Decode time / tokens, by model: the mean that users see after the first token;
                'plain' is that of servers of the model that do not speculate. Dashed: a week
                before. Inter-token latency is not it: that is taken per step and rises with
                speculation.""",
                [
                    Range(_tpot("model_name"), MODEL),
                    Range(_tpot("model_name", of="unless"), f"{MODEL} plain"),
                    Range(f"{_tpot('model_name', f'{RATE} offset 1w')}", f"{MODEL} a week before"),
                ],
                unit="s",
                empty="No tokens in this time",
            ),
            "a week before",
        ),
        lines(
            11,
            "Time per output token of requests",
            f"""Of requests that finished, by model ({bucket}; vLLM 0.11 and later). Requests of a
            single token count as zero.""",
            percentiles,
            unit="s",
            empty="No request finished, or a server that does not tell",
        ),
    )


def _load() -> tuple[Panel, ...]:
    return (
        dashed(
            lines(
                12,
                "Running requests (dashed: waiting)",
                """Summed over servers, by model (vllm:num_requests_running,
                vllm:num_requests_waiting). Compare times of equal load only.""",
                [
                    Range(f"sum by (model_name) (vllm:num_requests_running{{{V}}})", MODEL),
                    Range(
                        f"sum by (model_name) (vllm:num_requests_waiting{{{V}}})",
                        f"{MODEL} waiting",
                    ),
                ],
                unit="none",
                empty="No vLLM server here",
                size=(8, 8),
            ),
            "waiting",
        ),
        lines(
            13,
            "Output tokens per second",
            "Summed over servers, by model (vllm:generation_tokens_total).",
            [Range(total("vllm:generation_tokens_total", "model_name"), MODEL)],
            unit="suffix:tok/s",
            empty="No vLLM server here",
            size=(8, 8),
        ),
        aside(
            lines(
                14,
                "KV cache use (dashed: preemptions)",
                """The fullest server of a model (vllm:kv_cache_usage_perc, before 0.9.2
                gpu_cache_usage_perc). Dashed: preemptions per minute
                (vllm:num_preemptions_total). A full cache slows servers down for reasons that
                speculation has no part in.""",
                [
                    Range(
                        "max by (model_name) (vllm:kv_cache_usage_perc{" + V + "}"
                        " or vllm:gpu_cache_usage_perc{" + V + "})",
                        MODEL,
                    ),
                    Range(
                        f"60 * {total('vllm:num_preemptions_total', 'model_name')}",
                        f"{MODEL} preemptions",
                    ),
                ],
                unit="percentunit",
                empty="No vLLM server here",
                size=(8, 8),
            ),
            "preemptions",
            "suffix:/min",
        ),
    )


def _sglang() -> tuple[Panel, ...]:
    rank = "model_name, instance, dp_rank"
    # Of ranks that repeat each other any will do; a gauge counts while tokens come, and 0 is
    # not measured yet.
    length = (
        f'max by ({rank}) ({{__name__=~"sglang[:_]spec_accept_length", engine_type!="draft",'
        f" {G}}}) >= 1 and on (model_name, instance) sum by (model_name, instance)"
        f' (increase({{__name__=~"sglang[:_]generation_tokens_total", {G}}}{NOW})) > 0'
    )
    verify = f"sum by (model_name) (rate(sglang:spec_verify_calls_total{{{G}}}{NOW}))"
    tokens = f"sum by (model_name) (rate(sglang:generation_tokens_total{{{G}}}{NOW}))"
    requests = f"sum by (model_name) (rate(sglang:num_requests_total{{{G}}}{NOW}))"
    waiting = f'max by ({rank}) ({{__name__=~"sglang[:_]num_queue_reqs", {G}}})'
    running = f'max by ({rank}) ({{__name__=~"sglang[:_]num_running_reqs", {G}}})'
    return (
        lines(
            20,
            "Acceptance length by rank (gauge)",
            """The last 40 decode steps of each data-parallel rank (sglang:spec_accept_length).
            Shown only while the server gives tokens: the gauge keeps its last value for ever.
            Never an average over idle ranks.""",
            [Range(length, "{{model_name}} {{instance}} {{dp_rank}}")],
            unit="none",
            decimals=2,
            empty=_NO_SGLANG,
            low=1.0,
            steps=look.DEAD_LINE,
        ),
        lines(
            21,
            "Tokens per verification (counters)",
            """(Tokens − requests) / verification calls, by model (sglang:spec_verify_calls_total,
            SGLang 0.5.13 and later). These counters move when a request finishes: choose a window
            longer than a request's life.""",
            [Range(f"({tokens} - {requests}) / ({verify} > 0)", MODEL)],
            unit="none",
            decimals=2,
            empty="No request finished, or an SGLang before 0.5.13",
            low=1.0,
            steps=look.DEAD_LINE,
        ),
        dashed(
            lines(
                22,
                "Running requests (dashed: waiting)",
                """Summed over servers and data-parallel ranks, by model; ranks that repeat each
                other count once (sglang:num_running_reqs, sglang:num_queue_reqs).""",
                [
                    Range(f"sum by (model_name) ({running})", MODEL),
                    Range(f"sum by (model_name) ({waiting})", f"{MODEL} waiting"),
                ],
                unit="none",
                empty="No SGLang server here",
            ),
            "waiting",
        ),
        lines(
            23,
            "Time per output token",
            """Inter-token latency, which SGLang takes per token
            (sglang:inter_token_latency_seconds and, before 0.4.6, time_per_output_token_seconds).
            Only requests that stream.""",
            [
                Range(
                    f"sum by (model_name) (rate({_latency('sum')}{RATE}))"
                    f" / (sum by (model_name) (rate({_latency('count')}{RATE})) > 0)",
                    MODEL,
                )
            ],
            unit="s",
            empty="No data: nothing streams, or no SGLang server here",
        ),
    )


def _latency(which: str) -> str:
    names = "|".join(
        f"sglang[:_]{name}_seconds_{which}"
        for name in ("inter_token_latency", "time_per_output_token")
    )
    return f'{{__name__=~"{names}", {G}}}'


def _names() -> tuple[Panel, ...]:
    known = f"sum by (job, instance) (rate(vllm:generation_tokens_total{{{G}}}{NOW})) > 0"
    return (
        rows(
            24,
            "Speculative metrics that are there",
            """How many series of each name that speaks of speculation there are now. If the
            panels above are empty and a name here is new, an engine has renamed its metrics; if
            nothing is here, speculation is off.""",
            [
                Rows(
                    'count by (__name__, job) ({__name__=~".*[:_]spec_.*",'
                    ' __name__!~".*_created|monitor_.*|.*_bucket", job=~"$job"})'
                )
            ],
            [
                Column("__name__", "name"),
                Column("job", "job"),
                Column("Value", "series", unit="short", width=90),
            ],
            empty="No metric that speaks of speculation",
            size=(12, 9),
            sort=("name", False),
        ),
        rows(
            25,
            "vLLM servers with traffic and without drafts",
            f"""Servers that gave tokens in the chosen window and have no drafts: speculation is
            off or bypassed, or the names have changed ({DRAFTS}).""",
            [
                Rows(
                    f"{known} unless on (job, instance)"
                    f" (sum by (job, instance) (rate({DRAFTS}{{{G}}}{NOW})) > 0)"
                )
            ],
            [
                Column("job", "job"),
                Column("instance", "instance"),
                Column("Value", "tokens per second", unit="suffix:tok/s", decimals=0),
            ],
            empty="None: every server with traffic drafts",
            size=(12, 9),
        ),
        lines(
            26,
            "Restarts of counters",
            f"""Times a server began to count anew, per hour ({DRAFTS}). Rates are right across a
            restart; a lifetime ratio is not.""",
            [
                Range(
                    f"sum by (model_name, instance) (resets({DRAFTS}{{{V}}}[1h]))",
                    "{{instance}} {{model_name}}",
                )
            ],
            unit="none",
            decimals=0,
            empty="No vLLM server here that speculates",
            size=(24, 7),
        ),
    )
