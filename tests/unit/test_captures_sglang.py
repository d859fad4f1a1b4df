"""Every captured series of SGLang against the counts of the program that drove it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from engine_pages import Shot, counted, page, settings, sglang, spacing, ticks, total, truth

from monitor.engines.reader import PageReader
from monitor.health.combine import combine
from monitor.health.figures import load
from monitor.model import SHARED, Counts, Engine, Evidence, Increment, Speculation, Verdict, Window
from monitor.pipeline import TargetPipeline

GAUGES = ["v0.4.6.post5-tp1", "v0.5.5-tp1", "v0.5.8-tp2-allsched", "v0.5.12-dp2"]
COUNTERS = ["v0.5.23-tp2", "v0.5.23-dp2", "v0.5.23-adaptive"]
DRIVEN = [*GAUGES, *COUNTERS, "v0.5.23-lowtraffic"]
PLAIN = ["v0.5.5-nospec-baseline", "v0.5.23-nospec-baseline"]
NEAR = 0.05
"""The gauge covers the last 40 decode steps, the truth all steps since the page before."""


def _increments(folder: str) -> Iterator[tuple[dict[str, object], dict[str, Increment]]]:
    """What is known of each interval, and what was made of it by engine."""
    shots = sglang(folder)
    answers = ticks(shots, settings(spacing(shots), draft_size=3))
    for snapshot, tick in zip(truth(folder)["snapshots"], answers, strict=True):
        if tick.increments:
            yield snapshot, {i.label: i for i in tick.increments}


def _true_length(group: dict[str, float]) -> float:
    return 1.0 + group["correct_drafts"] / group["verify_calls"]


@pytest.mark.parametrize("folder", GAUGES)
def test_the_gauge_is_the_true_length_of_each_window_with_traffic(folder: str) -> None:
    seen = 0
    for snapshot, increments in _increments(folder):
        groups = snapshot["groups"] or []
        assert isinstance(groups, list)
        ranks = [i for label, i in sorted(increments.items()) if label != SHARED]
        for group, increment in zip(groups, ranks, strict=False):
            counts = increment.counts
            if not group.get("verify_calls") or not counts.drafts or increment.counts.resets:
                continue
            seen += 1
            assert counts.gauge_drafts == counts.drafts
            length = 1.0 + counts.accepted_tokens / counts.drafts
            # One page in this set lies further off: 40 steps are a small sample.
            assert abs(length - _true_length(group)) < 2.4 * NEAR, snapshot["file"]
    assert seen >= 6


@pytest.mark.parametrize("folder", GAUGES)
def test_most_gauges_are_nearer_than_a_twentieth(folder: str) -> None:
    off = [
        abs(1.0 + i.counts.accepted_tokens / i.counts.drafts - _true_length(group))
        for snapshot, increments in _increments(folder)
        for group, (label, i) in zip(
            snapshot["groups"] or [],  # type: ignore[call-overload]
            [item for item in sorted(increments.items()) if item[0] != SHARED],
            strict=False,
        )
        if group.get("verify_calls") and i.counts.drafts
    ]
    assert sum(distance < NEAR for distance in off) >= 0.75 * len(off)


@pytest.mark.parametrize("folder", ["v0.5.5-tp1", "v0.5.8-tp2-allsched", "v0.5.12-dp2"])
def test_the_draft_size_is_found_from_length_and_rate(folder: str) -> None:
    """The rate gauge has meant three things; only length and rate together tell which."""
    reader = PageReader()
    sizes = [
        reading.draft_size
        for shot in sglang(folder)
        if shot.metrics.strip()
        for reading in reader.read(shot.metrics, shot.at).readings
        if reading.accept_length is not None
    ]
    assert set(sizes) == {3.0}


def test_without_a_rate_there_is_no_acceptance_rate_unless_k_is_told() -> None:
    shots = sglang("v0.4.6.post5-tp1")[1:4]
    unknown = ticks(shots, settings())[-1].assessment
    assert unknown.acceptance_rate is None
    assert unknown.acceptance_length is not None
    assert unknown.evidence is Evidence.GAUGE
    told = ticks(shots, settings(draft_size=3))[-1].assessment
    assert told.acceptance_rate is not None
    assert abs(told.acceptance_rate.value - 0.632) < 0.02


@pytest.mark.parametrize("folder", ["v0.5.23-tp2", "v0.5.23-dp2"])
def test_the_verify_counter_over_the_healthy_phase(folder: str) -> None:
    shots = [shot for shot in sglang(folder) if "healthy_" in shot.name]
    phase = [s for s in truth(folder)["snapshots"] if s["phase"] == "healthy"]
    counts = total(shots)
    before, after = phase[0]["finished"], phase[-1]["finished"]
    assert counts.drafts == after["spec_verify_calls"] - before["spec_verify_calls"]
    assert counts.gauge_drafts == 0.0
    assert counts.draft_tokens == 3.0 * counts.drafts
    generated = after["generation_tokens"] - before["generation_tokens"]
    finished = after["requests"] - before["requests"]
    assert counts.accepted_tokens == generated - finished - counts.drafts
    groups = [group for snapshot in phase[1:] for group in snapshot["groups"] if group]
    correct = sum(g["correct_drafts"] for g in groups)
    calls = sum(g["verify_calls"] for g in groups)
    length = 1.0 + counts.accepted_tokens / counts.drafts
    assert abs(length - (1.0 + correct / calls)) < 0.02


def test_each_data_parallel_rank_has_its_own_length() -> None:
    for folder in ("v0.5.12-dp2", "v0.5.23-dp2"):
        shots = sglang(folder)
        answers = ticks(shots, settings(spacing(shots), windows=(spacing(shots),)))
        seen = 0
        for snapshot, tick in zip(truth(folder)["snapshots"], answers, strict=True):
            engines = {e.label: e.acceptance_length for e in tick.assessment.engines}
            groups = snapshot["groups"] or []
            if len(groups) < 2 or not all(g.get("verify_calls") for g in groups):
                continue
            for label, group in zip("01", groups, strict=True):
                length = engines.get(label)
                if length is not None:
                    seen += 1
                    assert abs(length.value - _true_length(group)) < 2.4 * NEAR
        assert seen >= 6


def test_a_collapsed_rank_is_named() -> None:
    for folder in ("v0.5.12-dp2", "v0.5.23-dp2"):
        shots = sglang(folder)
        answers = ticks(shots, settings(spacing(shots), windows=(spacing(shots),)))
        for shot, tick in zip(shots, answers, strict=True):
            if "onerankcollapsed" in shot.name:
                assert tick.assessment.verdict is Verdict.DEGRADED
                assert "engine 1, one of 2" in tick.assessment.sentence


def test_copies_of_tensor_parallel_ranks_are_not_added() -> None:
    both = sglang("v0.5.8-tp2-allsched")
    alone = sglang("v0.5.5-tp1")
    for two, one in zip(both, alone, strict=True):
        if not two.metrics.strip():
            continue
        [a] = PageReader().read(two.metrics, two.at).readings
        [b] = PageReader().read(one.metrics, one.at).readings
        assert a.running == b.running
        assert a.accept_length == b.accept_length
        assert a.counters["requests"] == b.counters["requests"]
        # realtime_tokens_total came with 0.5.7; it is on both ranks of the newer page.
        if "output_tokens" in a.counters:
            assert abs(a.counters["output_tokens"] / b.counters["output_tokens"] - 1.0) < 0.2


@pytest.mark.parametrize("folder", PLAIN)
def test_a_server_without_speculation_is_off_and_has_a_speed(folder: str) -> None:
    shots = [shot for shot in sglang(folder) if "baseline_" in shot.name]
    answer = ticks(shots, settings())[-1].assessment
    assert answer.verdict is Verdict.OFF
    assert answer.load.tpot is not None
    assert abs(answer.load.tpot - 0.018) < 0.0002


def test_steps_that_the_engine_takes_back_itself_are_no_fault() -> None:
    for shot, tick in zip(
        sglang("v0.5.23-adaptive"),
        ticks(sglang("v0.5.23-adaptive"), settings(windows=(15.0,))),
        strict=True,
    ):
        if "specoff" in shot.name:
            assert tick.assessment.verdict is Verdict.NOT_DRAFTING
            assert tick.assessment.acceptance_length is None


def test_zero_gauges_of_a_server_that_verified_drafts_mean_not_measured_yet() -> None:
    """On low traffic the gauges stay 0.0, ``spec_num_steps`` among them, for a long time."""
    reader = PageReader()
    for shot in sglang("v0.5.23-lowtraffic")[1:]:
        [reading] = reader.read(shot.metrics, shot.at).readings
        assert reading.speculation is Speculation.CONFIGURED
        assert "drafts" in reading.counters


def test_a_gauge_is_not_counted_while_nothing_flows() -> None:
    for folder in DRIVEN:
        shots = sglang(folder)
        answers = ticks(shots, settings(spacing(shots), draft_size=3))
        for before, now, tick in zip(
            [None, *truth(folder)["snapshots"]],
            [*truth(folder)["snapshots"], None],
            [*answers, None],
            strict=True,
        ):
            if before is None or now is None or tick is None:
                continue
            if before["phase"] == now["phase"] == "idle":
                assert all(i.counts.drafts == 0.0 for i in tick.increments), now["file"]


# -- /v1/loads -------------------------------------------------------------------------------

REAL = "real-server-0.5.23-cpu"


def _moments() -> dict[str, list[float]]:
    return {entry["file"]: entry["decode_moments"] for entry in truth(REAL)}


@pytest.mark.parametrize(("first", "last"), [(0, 3), (0, 6), (1, 4), (3, 5), (7, 8)])
def test_moments_give_the_exact_length_and_step_time(first: int, last: int) -> None:
    shots = sglang(REAL, loads=True)[first : last + 1]
    a, b = _moments()[shots[0].name], _moments()[shots[-1].name]
    steps, batch, _, _, batch_time, generated = (y - x for x, y in zip(a, b, strict=True))
    counts = total(shots)
    assert counts.drafts == batch
    assert counts.accepted_tokens == generated - batch
    assert 1.0 + counts.accepted_tokens / counts.drafts == pytest.approx(generated / batch)
    assert counts.engine_steps == steps
    carried = load(Window(0.0, 1.0, counts))
    assert carried.step == pytest.approx(batch_time / 1e6 / batch)
    assert carried.tpot == pytest.approx(batch_time / 1e6 / generated)
    assert carried.tokens_per_step == pytest.approx(generated / batch)
    assert counts.gauge_drafts == 0.0


def test_loads_that_fail_for_a_while_never_mix_with_the_counters_of_the_page() -> None:
    shots = sglang(REAL, loads=True)
    for missing in range(1, 6):
        for pages in (1, 2, 3):
            holes = [
                Shot(s.name, s.at, s.metrics, None if missing <= i < missing + pages else s.loads)
                for i, s in enumerate(shots[:7])
            ]
            counts = total(holes)
            if pages == 1 and missing + pages < 7:
                # One page without is caught up with on the next one.
                assert counts.drafts == total(shots[:7]).drafts
            assert 0.0 <= counts.accepted_tokens <= 3.0 * counts.drafts
            assert counts.resets == 0.0


@pytest.mark.parametrize("restart", range(2, 6))
@pytest.mark.parametrize("pages", [1, 2, 3])
def test_a_restart_while_loads_fail_counts_what_one_process_would(
    restart: int, pages: int
) -> None:
    shots = [
        Shot(s.name, s.at, s.metrics, None if restart <= i < restart + pages else s.loads)
        for i, s in enumerate(sglang(REAL, loads=True))
    ]
    target = settings(interval=spacing(shots))
    whole, first, second = (TargetPipeline(target) for _ in range(3))
    told = [i for shot in shots for i in whole.tick(shot.page, shot.at).increments]
    again = [i for shot in shots[:restart] for i in first.tick(shot.page, shot.at).increments]
    second.restore(first.state(), again)
    again += [i for shot in shots[restart:] for i in second.tick(shot.page, shot.at).increments]
    assert again == told


def test_an_unusable_body_of_loads_is_a_note() -> None:
    shot = sglang(REAL, loads=True)[2]
    bodies = [
        b"",
        b"[]",
        b"null",
        b'"loads"',
        b"{}",
        b'{"loads": 5}',
        b'{"loads": [{"dp_rank": 0}]}',
        b'{"loads": [{"dp_rank": 0, "decode_moments": null}]}',
        b'{"loads": [{"dp_rank": 0, "decode_moments": [1, 2, 3]}]}',
        b'{"loads": [{"dp_rank": 0, "decode_moments": [NaN, 1, 1, 1, 1, 1]}]}',
        b'{"loads": [{"dp_rank": 0, "decode_moments": [1, 1, 1, 1, Infinity, 1]}]}',
        b'{"loads": [{"dp_rank": 0, "decode_moments": [5, 4, 1, 1, 1, 4]}]}',
        b'{"loads": [{"dp_rank": 0, "decode_moments": [-1, 4, 1, 1, 1, 4]}]}',
        b'{"loads": [{"dp_rank": 0, "decode_moments": [1, 1, 1, 1, 1, 1' + b"0" * 400 + b"]}]}",
        b'{"loads": [{"dp_rank": 1, "decode_moments": [1, 1, 1, 1, 1, 1]}]}',
        b'{"loads": [{"dp_rank": 0, "decode_moments": [1, 1, 1, 1, 1, 1]},'
        b' {"dp_rank": 0, "decode_moments": [2, 2, 2, 2, 2, 2]}]}',
        b"[" * 100_000,
        b"\xff\xfe",
    ]
    for body in bodies:
        sample = PageReader().read(shot.metrics, shot.at, body)
        assert any("/v1/loads" in note for note in sample.notes), body[:80]
        [reading] = sample.readings
        assert reading.counters["drafts"] > 0.0


def test_the_format_of_loads_with_underscores_is_read_as_a_page() -> None:
    sample = PageReader().read(page(f"sglang/{REAL}/v1_loads_format_prometheus.prom"), 0.0)
    assert sample.identity.engine is Engine.SGLANG
    assert sample.readings[0].accept_length is not None


def test_a_real_server_without_speculation_is_off_or_not_measured() -> None:
    sample = PageReader().read(page(f"sglang/{REAL}/nospec_after.prom"), 0.0)
    assert sample.readings[0].speculation in (Speculation.ABSENT, Speculation.UNMEASURED)


def test_new_weights_leave_the_counters_alone() -> None:
    shots = sglang(REAL, loads=True)[:5]
    assert all(
        step.counts.resets == 0.0 for t in ticks(shots, settings(60.0)) for step in t.increments
    )


# -- routers ---------------------------------------------------------------------------------


def test_a_router_page_keeps_its_workers_apart() -> None:
    body = page("sglang/router/sglang-router-0.3.2.engine_metrics.excerpt.prom")
    sample = PageReader().read(body, 0.0)
    lengths = {reading.label: reading.accept_length for reading in sample.readings}
    assert set(lengths) == {"http://127.0.0.1:33101", "http://127.0.0.1:33102"}
    by_label = {reading.label: reading for reading in sample.readings}
    first = by_label["http://127.0.0.1:33101"]
    assert first.counters["output_tokens"] == 83402.0
    # The excerpt lacks the number of requests, so its verify calls cannot be used.
    assert "drafts" not in first.counters
    assert first.draft_size == 3.0


def test_the_page_of_a_router_about_itself_is_of_no_known_engine() -> None:
    body = page("sglang/router/sglang-router-0.3.2.own_metrics.prom")
    assert PageReader().read(body, 0.0).identity.engine is None


def test_increments_of_all_windows_are_finite_and_never_negative() -> None:
    for folder in [*DRIVEN, *PLAIN]:
        shots = [shot for shot in sglang(folder) if shot.metrics.strip()]
        total = combine(counted(shots, draft_size=3))
        for name in Counts._fields[:-1]:
            assert getattr(total, name) >= 0.0, (folder, name)


def test_series_are_in_the_order_of_time() -> None:
    for folder in [*DRIVEN, *PLAIN, REAL]:
        assert all(a.at < b.at for a, b in pairwise(sglang(folder)))
