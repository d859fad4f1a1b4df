"""Every question of every dashboard, asked of a real Prometheus over a fleet's past."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from fleet import END, INTERVAL, MEASURED, PLAIN, START, Past, play
from prometheus_server import MISSING, PROMETHEUS, PROMTOOL, Prometheus, fill, serving

from monitor.resources import data_dir
from monitor.web.judged import SEVERITY_CODES

pytestmark = [
    pytest.mark.skipif(PROMETHEUS is None or PROMTOOL is None, reason=MISSING),
    # One simulated past and one server for all of them.
    pytest.mark.xdist_group("prometheus"),
]

BUSY = START + 14 * 60.0
"""Everything runs and is well."""
BOARDS = ("paying", "service", "engines", "monitor")


@pytest.fixture(scope="module")
def past() -> Past:
    return play()


@pytest.fixture(scope="module")
def prometheus(past: Past, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with serving(past.text, tmp_path_factory.mktemp("prometheus")) as server:
        yield server


def asked() -> Iterator[tuple[str, int, str, str]]:
    """Board, panel, query and expression of all questions."""
    for board in BOARDS:
        document = json.loads((data_dir("dashboards") / f"{board}.json").read_text("utf-8"))
        for panel in document["panels"]:
            for one in panel.get("panels") or [panel]:
                for query in one.get("targets", ()):
                    if "expr" in query:
                        yield board, one["id"], query["refId"], query["expr"]
        for query in document["annotations"].get("list", ()):
            if "expr" in query:
                yield board, 0, query["name"], query["expr"]


ALL = [*asked()]
NEVER: set[tuple[str, int, str]] = {
    # A week before there was nothing.
    ("service", 9, "C"),
    ("service", 14, "D"),
    ("engines", 10, "C"),
    # Nobody was that lonely or that busy.
    *(("service", 7, ref) for ref in "AEFG"),
}


def ask(board: str, panel: int, ref: str = "A", **variables: str) -> str:
    """The expression of a panel, for these values of the variables."""
    (found,) = [expr for *key, expr in ALL if tuple(key) == (board, panel, ref)]
    return fill(found, **variables)


@pytest.mark.parametrize(("board", "panel", "ref", "expr"), ALL)
def test_every_question_has_an_answer_where_there_is_one(
    prometheus: Prometheus, board: str, panel: int, ref: str, expr: str
) -> None:
    answers = prometheus.vector(fill(expr), BUSY) or prometheus.vector(fill(expr), END)
    assert bool(answers) is ((board, panel, ref) not in NEVER)
    assert not [value for _, value in answers if value != value]  # noqa: PLR0124 - NaN


# -- the truth, from what the servers counted --------------------------------------------------


def grown(past: Past, name: str, at: float, field: str, seconds: float = 60.0) -> list[float]:
    """What each engine of a server added to a counter before ``at``; restarts began at zero."""
    looks = past.past[name]
    last = round((at - START) / INTERVAL)
    first = last - round(seconds / INTERVAL)
    total = [0.0] * len(looks[0])
    for before, after in zip(looks[first - 1 : last - 1], looks[first:last], strict=True):
        for engine, (old, new) in enumerate(zip(before, after, strict=True)):
            reset = new[field] < old[field]
            total[engine] += new[field] if reset else new[field] - old[field]
    return total


def length(past: Past, names: list[str], at: float, seconds: float = 60.0) -> float:
    accepted, drafts = (
        sum(sum(grown(past, name, at, field, seconds)) for name in names)
        for field in ("accepted_tokens", "drafts")
    )
    return 1.0 + accepted / drafts


LLAMA, QWEN = ["chat-1", "chat-2"], ["code-1", "code-2"]


def test_two_models_with_different_draft_sizes_are_not_mixed(
    prometheus: Prometheus, past: Past
) -> None:
    for at in (BUSY, END):
        found = prometheus.by(ask("engines", 5), at, "model_name")
        assert found[("llama",)] == pytest.approx(length(past, LLAMA, at))
        assert found[("qwen",)] == pytest.approx(length(past, QWEN, at))
        sizes = prometheus.by(ask("engines", 8), at, "model_name")
        assert (sizes[("llama",)], sizes[("qwen",)]) == pytest.approx((3.0, 5.0))
    positions = prometheus.by(ask("engines", 7), END, "model_name", "position")
    # Only one model has a fourth position, and it is not thinned by the drafts of the others.
    assert positions[("qwen", "4")] == pytest.approx(positions[("qwen", "3")] * 0.75, rel=0.05)
    assert ("llama", "3") not in positions


def test_the_tiles_of_the_engines_look_back_as_far_as_is_chosen(
    prometheus: Prometheus, past: Past
) -> None:
    for window, seconds in (("5m", 300.0), ("15m", 900.0)):
        found = prometheus.by(ask("engines", 1, window=window), END, "model_name")
        assert found[("llama",)] == pytest.approx(length(past, LLAMA, END, seconds))


def test_each_rank_is_seen(prometheus: Prometheus, past: Past) -> None:
    found = prometheus.by(ask("engines", 6), END, "instance", "engine")
    accepted, drafts = (
        grown(past, "code-2", END, field) for field in ("accepted_tokens", "drafts")
    )
    for engine in (0, 1):
        truth = 1.0 + accepted[engine] / drafts[engine]
        assert found[("code-2:8000", str(engine))] == pytest.approx(truth)
    assert found[("code-2:8000", "1")] < 1.05
    assert found[("code-2:8000", "0")] > 2.0
    own = prometheus.by(ask("service", 12), END, "target", "engine")
    assert own[("code-2", "1")] < 1.1
    assert own[("code-2", "0")] > 2.0


def test_a_restart_makes_neither_a_peak_nor_a_hole(prometheus: Prometheus, past: Past) -> None:
    at = START + 20 * 60.0 + 30.0
    found = prometheus.by(ask("engines", 6), at, "instance")
    assert found[("code-1:8000",)] == pytest.approx(length(past, ["code-1"], at))
    (tokens,) = prometheus.by(ask("engines", 13, instance="code-1:8000"), at, "x").values()
    assert tokens == pytest.approx(sum(grown(past, "code-1", at, "output_tokens")) / 60.0)
    restarts = prometheus.by(ask("engines", 26), END, "instance")
    assert restarts[("code-1:8000",)] == 1.0
    assert sum(restarts.values()) == 1.0


def test_what_is_idle_shows_nothing_instead_of_its_last_value(prometheus: Prometheus) -> None:
    assert ("tiny",) in prometheus.by(ask("engines", 1), BUSY, "model_name")
    for panel in (1, 2, 3, 4, 5, 8, 9, 10):
        assert ("tiny",) not in prometheus.by(ask("engines", panel), END, "model_name")
    for panel, ref in ((3, "A"), (4, "A"), (7, "A"), (7, "B"), (8, "A"), (9, "A")):
        expr = ask("paying", panel, ref, service="night")
        assert len(prometheus.vector(expr, END)) == (1 if panel == 4 else 0)
    assert prometheus.by(ask("paying", 1), END, "service")[("night",)] == 10.0


def test_counters_that_grow_quadratically_are_left_out(prometheus: Prometheus) -> None:
    for panel in (1, 2, 4, 5, 6, 8):
        found = prometheus.by(ask("engines", panel), END, "model_name")
        assert ("ancient",) not in found
        assert found


def test_sglang_counts_each_rank_once_and_only_while_tokens_come(prometheus: Prometheus) -> None:
    lengths = prometheus.by(ask("engines", 20), END, "instance", "dp_rank")
    assert lengths == {("sg-1:30000", "0"): 2.5, ("sg-1:30000", "1"): 1.5}
    (verified,) = prometheus.by(ask("engines", 21), END, "x").values()
    assert verified == pytest.approx(2.0)
    running, waiting = (prometheus.by(ask("engines", 22, ref), END, "x") for ref in "AB")
    assert (running, waiting) == ({("",): 9.0}, {("",): 1.0})
    assert prometheus.by(ask("engines", 23), END, "x") == {("",): pytest.approx(0.01)}


def test_a_renamed_metric_is_found(prometheus: Prometheus) -> None:
    names = prometheus.by(ask("engines", 24), END, "__name__")
    assert names[("vllm:spec_decoding_v2_num_drafts_total",)] == 1.0
    assert names[("vllm:spec_decode_num_drafts_total",)] == 7.0
    lost = prometheus.by(ask("engines", 25), END, "instance")
    assert set(lost) == {("renamed-1:8000",), ("chat-plain:8000",)}


def test_time_per_token_is_that_of_tokens_and_not_of_steps(
    prometheus: Prometheus, past: Past
) -> None:
    seconds, tokens = (
        sum(sum(grown(past, name, END, field)) for name in QWEN)
        for field in ("decode_seconds", "decode_tokens")
    )
    found = prometheus.by(ask("engines", 10), END, "model_name")
    assert found[("qwen",)] == pytest.approx(seconds / tokens)
    # A plain server of the same model is told apart from those that speculate.
    plain = prometheus.by(ask("engines", 10, "B"), END, "model_name")
    assert plain[("llama",)] == pytest.approx(0.013, rel=0.02)
    steps = prometheus.by(ask("engines", 3), END, "model_name")
    assert steps[("qwen",)] == pytest.approx(length(past, QWEN, END, 300.0))
    assert steps[("llama",)] == pytest.approx(length(past, LLAMA, END, 300.0))
    median = prometheus.by(ask("engines", 11), END, "model_name")[("qwen",)]
    assert 0.005 <= median <= 0.01


# -- what the monitor says ----------------------------------------------------------------------


def test_tiles_show_the_worst_verdict_of_each_service(prometheus: Prometheus) -> None:
    found = prometheus.vector(ask("paying", 1), END)
    words = {code: verdict.value for verdict, code in SEVERITY_CODES.items()}
    assert [(labels["service"], words[code]) for labels, code in found] == [
        ("chat", "harmful"),
        ("code", "degraded"),
        ("gone", "down"),
        ("rag", "unproven"),
        ("night", "idle"),
    ]


def test_the_table_names_the_reason(prometheus: Prometheus, past: Past) -> None:
    decided = prometheus.by(ask("paying", 5), END, "target", "cause", "action")
    assert ("chat-2", "integration_suspect", "roll_back") in decided
    assert ("code-2", "engine_outlier", "restart") in decided
    assert len(decided) == len(past.watch.workers)
    since = prometheus.by(ask("paying", 5, "C"), END, "target")
    assert START + 28 * 60.0 < since[("chat-2",)] / 1000.0 < START + 31 * 60.0


def test_speedup_of_a_service_is_a_quotient_of_sums(prometheus: Prometheus, past: Past) -> None:
    # Each engine has four requests, whatever its neighbour has.
    alone = PLAIN.tpot(4.0)
    assert alone is not None
    needed = sum(alone * sum(grown(past, name, END, "decode_tokens")) for name in QWEN)
    spent = sum(sum(grown(past, name, END, "decode_seconds")) for name in QWEN)
    found = prometheus.by(ask("paying", 7), END, "service")
    assert found[("code",)] == pytest.approx(needed / spent)
    assert ("rag",) not in found
    slowest = prometheus.by(ask("paying", 7, "B"), END, "service")
    low, high = (prometheus.by(ask("paying", 5, ref), END, "target") for ref in "EF")
    assert low[("code-2",)] < slowest[("code",)] < high[("code-2",)]


def test_acceptance_of_a_service_is_that_of_all_its_servers(
    prometheus: Prometheus, past: Past
) -> None:
    found = prometheus.by(ask("paying", 8), END, "service")
    assert found[("chat",)] == pytest.approx(length(past, LLAMA, END))
    assert found[("code",)] == pytest.approx(length(past, QWEN, END))
    tokens = prometheus.by(ask("paying", 11), END, "service")[("rag",)]
    assert tokens == pytest.approx(sum(grown(past, "rag-1", END, "output_tokens")) / 60.0)


def test_speedup_by_load_is_of_the_minutes_with_that_load(prometheus: Prometheus) -> None:
    def at_load(ref: str, target: str) -> dict[tuple[str, ...], float]:
        return prometheus.by(ask("service", 7, ref, service=".+", target=target), END, "x")

    alone = PLAIN.tpot(4.0)
    (steady,) = at_load("C", "code-1").values()
    (now,) = prometheus.by(ask("service", 6, target="code-1"), END, "x").values()
    assert steady == pytest.approx(now, rel=0.02)
    assert at_load("D", "code-1") == {}
    # The load of chat-1 rises all the time, and so what it gains is told apart by load.
    assert [len(at_load(ref, "chat-1")) for ref in "ABCDE"] == [0, 1, 1, 1, 0]
    tpot, without = (
        prometheus.by(ask("service", 13, ref, target="code-1"), END, "x") for ref in "AB"
    )
    assert without == {("",): pytest.approx(alone)}
    assert without[("",)] > tpot[("",)]


def test_alerts_and_ages_are_told(prometheus: Prometheus) -> None:
    firing = prometheus.by(ask("paying", 0, "Alerts"), END, "target", "rule")
    assert ("chat-2", "harmful") in firing
    assert ("gone-1", "target_down") in firing
    (count,) = prometheus.by(ask("paying", 2), END, "x").values()
    assert count == len(firing)
    (none,) = prometheus.by(ask("paying", 2), BUSY, "x").values()
    assert none == 0.0
    (oldest,) = prometheus.by(ask("paying", 4), END, "x").values()
    assert oldest == pytest.approx(20 * 60.0, abs=INTERVAL)
    assert prometheus.by(ask("service", 4), END, "target")[("chat-1",)] == END - MEASURED


def test_rollbacks_are_told(prometheus: Prometheus) -> None:
    phases = prometheus.by(ask("paying", 15), END, "service", "phase")
    assert phases == {("chat", "proposed"): 1.0, ("gone", "done"): 1.0}
    assert prometheus.by(ask("paying", 14), END, "x") == {("",): 1.0}
    assert prometheus.by(ask("paying", 14), BUSY, "x") == {("",): 0.0}
    moved = ask("paying", 0, "Traffic on the plain servers")
    assert prometheus.by(moved, END, "service") == {("gone",): 1.0}
    assert prometheus.by(moved, BUSY, "service") == {}


def test_without_the_monitor_nothing_is_made_up(prometheus: Prometheus) -> None:
    later = END + 3600.0
    for board, panel, ref, expr in ALL:
        if board != "engines":
            # A sum over the past is the only thing that outlives it.
            still = (board, panel) == ("service", 7) or "[1h]" in expr
            assert still or prometheus.vector(fill(expr), later) == [], (panel, ref)
