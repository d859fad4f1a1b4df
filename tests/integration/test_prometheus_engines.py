"""The rules for people without the daemon, on Prometheus itself, over pages of many kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from promtool import RULES, name_of, needs_promtool, run_tests

from monitor.alerting.ruleset import load_rules
from monitor.prometheus.engine_alerts import engine_groups
from monitor.prometheus.rule_file import render

pytestmark = needs_promtool

ENGINE_RULES = RULES / "engine.rules.yml"
LONG = 120
"""Steps of 15 s."""


Shown = Mapping[str, float | str]
"""Series by name, perhaps with a mode behind a stroke, and their values."""


class Servers:
    """The series of many servers; a number is what is added in a step, a text is taken as is."""

    def __init__(self) -> None:
        self.series: list[Mapping[str, str]] = []

    def show(self, instance: str, shown: Shown, **labels: str) -> None:
        for name, value in shown.items():
            given, _, mode = name.partition("/")
            own = {"job": "gpu", "instance": instance, **labels}
            if mode:
                own["mode"] = mode
            text = f"0+{value:g}x{LONG}" if isinstance(value, int | float) else value
            self.series.append({"series": name_of(given, own), "values": text})

    def up(self, instance: str, values: str = f"1x{LONG}") -> None:
        self.series.append(
            {"series": name_of("up", {"job": "gpu", "instance": instance}), "values": values}
        )

    def vllm(
        self, instance: str, accepted: float, k: int = 5, *, drafts: float = 40, **labels: str
    ) -> None:
        """A server of vLLM that makes 40 drafts a step."""
        self.show(
            instance,
            {
                "vllm:spec_decode_num_drafts_total": drafts,
                "vllm:spec_decode_num_draft_tokens_total": drafts * k,
                "vllm:spec_decode_num_accepted_tokens_total": accepted,
                "vllm:spec_decode_num_drafts_created": f"1700000000x{LONG}",
                "vllm:inter_token_latency_seconds_count": 40,
                "vllm:generation_tokens_total": 41 + accepted,
                "vllm:request_success_total": 1,
                "vllm:num_requests_running": f"4x{LONG}",
            },
            **{"model_name": "m", "engine": "0", **labels},
        )

    def sglang(self, instance: str, shown: Shown, length: float, **labels: str) -> None:
        """A server of SGLang whose gauge has this length."""
        own = {"model_name": "m", "engine_type": "unified", "tp_rank": "0", **labels}
        self.show(instance, {"sglang:spec_accept_length": f"{length}x{LONG}", **shown}, **own)
        served: Shown = {"sglang:num_running_reqs": f"4x{LONG}", "sglang:num_requests_total": 1}
        self.show(instance, served, model_name="m")


def steady() -> Servers:
    """One server of each kind, each the same all the time."""
    servers = Servers()
    servers.vllm("two-models", 84, 3, model_name="small")
    servers.vllm("two-models", 50, 5, model_name="large")
    servers.vllm("dead", 1)
    servers.vllm("low", 40)
    servers.vllm("too-good", 194)
    servers.vllm("misreported", 240)
    servers.vllm("bypass", 0, drafts=0)
    servers.vllm("ranks", 120, engine="0")
    servers.vllm("ranks", 20, engine="1")
    servers.vllm("older", 120)
    servers.show(
        "stalled",
        {"vllm:generation_tokens_total": 0, "vllm:num_requests_running": f"4x{LONG}"},
        model_name="m",
        engine="0",
    )
    servers.show(
        "idle",
        {
            "vllm:spec_decode_num_drafts_total": f"900x{LONG}",
            "vllm:spec_decode_num_draft_tokens_total": f"4500x{LONG}",
            "vllm:spec_decode_num_accepted_tokens_total": f"9x{LONG}",
            "vllm:generation_tokens_total": f"900x{LONG}",
            "vllm:inter_token_latency_seconds_count": f"900x{LONG}",
            "vllm:num_requests_running": f"0x{LONG}",
            "vllm:request_success_total": f"90x{LONG}",
        },
        model_name="m",
        engine="0",
    )
    servers.show(
        "plain",
        {
            "vllm:generation_tokens_total": 100,
            "vllm:inter_token_latency_seconds_count": 100,
            "vllm:num_requests_running": f"4x{LONG}",
        },
        model_name="m",
        engine="0",
    )
    # The counters of the V0 engine are sums of totals; they carry no engine.
    servers.show(
        "v0",
        {
            "vllm:spec_decode_num_draft_tokens_total": 4000,
            "vllm:spec_decode_num_accepted_tokens_total": 1,
            "vllm:num_requests_running": f"4x{LONG}",
        },
        model_name="m",
    )
    servers.show(
        "renamed",
        {
            "vllm:speculative_accepted_total": 40,
            "vllm:spec_decode_drafts": 40,
            "vllm:num_requests_running": f"4x{LONG}",
        },
        model_name="m",
        engine="0",
    )
    counted: Shown = {
        "sglang:spec_verify_calls_total": 40,
        "sglang:generation_tokens_total": 125,
        "sglang:spec_num_draft_tokens": f"4x{LONG}",
        "sglang:spec_num_steps": f"3x{LONG}",
        "sglang:realtime_tokens_total/decode": 125,
    }
    servers.sglang("counted", counted, 3.1)
    switched: Shown = {"sglang:generation_tokens_total": 41, "sglang:spec_num_steps": f"0x{LONG}"}
    servers.sglang("switched-off", {**counted, **switched}, 1.0)
    servers.sglang("gauge", {"sglang:generation_tokens_total": 116}, 2.9)
    servers.sglang("gauge-dead", {"sglang:generation_tokens_total": 40}, 1.01)
    servers.sglang("gauge-idle", {"sglang:generation_tokens_total": f"4000x{LONG}"}, 1.0)
    servers.sglang("gauge-off", {"sglang:generation_tokens_total": 100}, 0.0)
    for copy in ("0", "1"):
        ranks = {"sglang:realtime_tokens_total/decode": 116}
        servers.sglang("dp", ranks, 2.9, dp_rank="0", tp_rank=copy)
        ranks = {"sglang:realtime_tokens_total/decode": 46}
        servers.sglang("dp", ranks, 1.15, dp_rank="1", tp_rank=copy, moe_ep_rank=copy)
    for instance in {
        str(s["series"]).split('instance="')[1].split('"')[0] for s in servers.series
    }:
        servers.up(instance)
    return servers


FIRING = {
    ("EngineDrafterDead", "dead"),
    ("EngineAcceptanceBelowThreshold", "dead"),
    ("EngineAcceptanceBelowThreshold", "low"),
    ("EngineAcceptanceBelowThreshold", "two-models"),
    ("EngineTooGood", "too-good"),
    ("EngineMisreported", "misreported"),
    ("EngineNotDrafting", "bypass"),
    ("EngineNotDrafting", "switched-off"),
    ("EngineRankOutlier", "ranks"),
    ("EngineRankOutlier", "dp"),
    ("EngineStalled", "stalled"),
    ("EngineUnrecognised", "renamed"),
    ("EngineDrafterDead", "gauge-dead"),
}


def asks(expr: str, minutes: float, samples: Mapping[str, float]) -> Mapping[str, Any]:
    return {
        "expr": expr,
        "eval_time": f"{minutes:g}m",
        "exp_samples": [{"labels": labels, "value": value} for labels, value in samples.items()],
    }


def firing(minutes: float, alerts: set[tuple[str, str]]) -> Mapping[str, Any]:
    expr = 'count by (alertname, instance) (ALERTS{alertstate="firing"})'
    return asks(
        expr,
        minutes,
        {name_of("", {"alertname": name, "instance": where}): 1 for name, where in alerts},
    )


def of(instance: str, **labels: str) -> str:
    return name_of("", {"instance": instance, **labels})


def figures() -> Iterator[Mapping[str, Any]]:
    """Right to the number, and nothing where there is nothing."""
    length = "round(max by (instance, model_name) (model:specdec_acceptance_length:ratio5m), 1e-6)"
    known = {
        ("two-models", "small"): 1 + 84 / 40,
        ("two-models", "large"): 1 + 50 / 40,
        ("dead", "m"): 1.025,
        ("low", "m"): 2,
        ("too-good", "m"): 5.85,
        ("misreported", "m"): 7,
        ("ranks", "m"): 1 + 140 / 80,
        ("older", "m"): 4,
        ("counted", "m"): 3.1,
        ("gauge", "m"): 2.9,
        ("gauge-dead", "m"): 1.01,
        ("dp", "m"): (116 + 46) / (116 / 2.9 + 46 / 1.15),
    }
    yield asks(length, 29, {of(i, model_name=m): round(v, 6) for (i, m), v in known.items()})
    rate = "round(max by (instance, model_name) (model:specdec_acceptance_rate:ratio5m), 1e-6)"
    known = {
        ("two-models", "small"): 0.7,
        ("two-models", "large"): 0.25,
        ("dead", "m"): 0.005,
        ("low", "m"): 0.2,
        ("too-good", "m"): 0.97,
        ("misreported", "m"): 1.2,
        ("ranks", "m"): 0.35,
        ("older", "m"): 0.6,
        ("counted", "m"): 0.7,
    }
    yield asks(rate, 29, {of(i, model_name=m): v for (i, m), v in known.items()})
    ranks = "round(max by (instance, rank) (rank:specdec_acceptance_length:ratio5m{X}), 1e-6)"
    chosen = ranks.replace("X", 'instance=~"ranks|dp"')
    known = {("ranks", "0"): 4, ("ranks", "1"): 1.5, ("dp", "0"): 2.9, ("dp", "1"): 1.15}
    yield asks(chosen, 29, {of(i, rank=r): v for (i, r), v in known.items()})
    drafts = (
        'sum by (instance) (model:specdec_drafts:increase5m{instance=~"counted|gauge|dp|idle"})'
    )
    known_drafts = {"counted": 800, "gauge": 800, "dp": 1600, "idle": 0}
    yield asks(f"round({drafts})", 29, {of(i): v for i, v in known_drafts.items()})


def test_each_kind_of_server_raises_what_it_should_and_no_more(tmp_path: Path) -> None:
    questions = [firing(29, FIRING), *figures()]
    test = {
        "interval": "15s",
        "input_series": steady().series,
        "promql_expr_test": questions,
    }
    run_tests(tmp_path, [test], ENGINE_RULES)


GONE = None
"""The series is not there."""
RESET = -1.0
"""The counter begins at zero again, and stays there."""


def path(*parts: tuple[int, float | None]) -> str:
    """The values of a counter: for how many minutes it gains how much in each step of 15 s."""
    value, words = 0.0, []
    for minutes, gain in parts:
        steps = round(minutes * 4)
        if gain is GONE:
            words.append(f"stale _x{steps - 1}")
            continue
        if gain == RESET:
            value = 0.0
        words.append(f"{value:g}+{max(gain, 0.0):g}x{steps - 1}")
        value += max(gain, 0.0) * steps
    return " ".join(words)


def changing(instance: str, servers: Servers, *parts: tuple[int, float | None]) -> None:
    """A server of vLLM; the gain is that of accepted tokens of 200 draft tokens, 0 is idle."""
    gains = {
        "vllm:spec_decode_num_drafts_total": 40,
        "vllm:spec_decode_num_draft_tokens_total": 200,
        "vllm:generation_tokens_total": 100,
        "vllm:inter_token_latency_seconds_count": 40,
        "vllm:request_success_total": 1,
    }
    shown: dict[str, float | str] = {
        name: path(*((m, gain if a and a > 0 else a) for m, a in parts))
        for name, gain in gains.items()
    }
    shown["vllm:spec_decode_num_accepted_tokens_total"] = path(*parts)
    running = ((m, 0.0 if a is not GONE else GONE) for m, a in parts)
    shown["vllm:num_requests_running"] = path(*running)
    servers.show(instance, shown, model_name="m", engine="0")


def test_an_alert_outlasts_idle_hours_and_a_restart_and_ends_when_all_is_well(
    tmp_path: Path,
) -> None:
    servers = Servers()
    changing("sick", servers, (20, 1.0), (40, 0.0), (2, RESET), (10, 1.0), (30, 140.0))
    changing("restarted", servers, (30, 140.0), (1, RESET), (30, 140.0))
    servers.up("sick")
    dead = {("EngineDrafterDead", "sick"), ("EngineAcceptanceBelowThreshold", "sick")}
    rate = 'model:specdec_acceptance_rate:ratio5m{instance="restarted"}'
    questions = [
        firing(2, set()),
        firing(15, dead),
        firing(55, dead),
        firing(61, dead),
        asks(f"max(round({rate}, 1e-6))", 32, {"{}": 0.7}),
        asks('model:specdec_acceptance_rate:ratio5m{instance="sick"}', 50, {}),
        firing(101, set()),
    ]
    test = {
        "interval": "15s",
        "input_series": servers.series,
        "promql_expr_test": questions,
    }
    run_tests(tmp_path, [test], ENGINE_RULES)


def test_servers_that_go_and_names_that_vanish_are_told_apart(tmp_path: Path) -> None:
    servers = Servers()
    changing("vanished", servers, (20, 140.0), (30, GONE), (20, 140.0))
    servers.up("vanished")
    changing("down", servers, (20, 140.0), (10, GONE), (40, 140.0))
    servers.up("down", "1x79 0x39 1x160")
    # A server that is taken away for good is no news.
    changing("removed", servers, (20, 140.0), (40, GONE))
    servers.up("removed", "1x79 stale _x200")
    questions = [
        firing(19, set()),
        firing(23, {("EngineTargetDown", "down")}),
        firing(33, {("EngineUnrecognised", "vanished")}),
        firing(60, set()),
    ]
    test = {
        "interval": "15s",
        "input_series": servers.series,
        "promql_expr_test": questions,
    }
    nothing = {
        "interval": "15s",
        "input_series": [],
        "promql_expr_test": [asks(ABSENT, 12, {ONE: 1})],
    }
    run_tests(tmp_path, [test, nothing], ENGINE_RULES)


ABSENT = 'count by (alertname) (ALERTS{alertstate="firing"})'
ONE = name_of("", {"alertname": "EngineNothingScraped"})


def test_a_drop_is_one_against_what_was_usual(tmp_path: Path) -> None:
    # Without the alerts of other rules, as the story is long.
    dropped = [rule for rule in load_rules([]).rules if rule.id == "dropped"]
    rules = tmp_path / "rules.yml"
    rules.write_text(render(engine_groups(dropped), ""))
    servers = Servers()
    changing("dropped", servers, (100, 140.0), (25, 96.0), (20, 140.0))
    changing("always-so", servers, (145, 96.0))
    questions = [
        firing(99, set()),
        firing(112, {("EngineDropped", "dropped")}),
        firing(144, set()),
    ]
    test = {
        "interval": "15s",
        "input_series": servers.series,
        "promql_expr_test": questions,
    }
    run_tests(tmp_path, [test], rules)
