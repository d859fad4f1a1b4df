"""The traffic of the detection benchmark is what its page says it is."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.detection import rules
from benchmarks.detection.cells import CELLS, draft_variance, lorden_bound
from benchmarks.detection.replay import Pages, Replay
from benchmarks.detection.traffic import (
    PER_DAY,
    PER_HOUR,
    SCRAPE,
    Fault,
    Latent,
    Load,
    simulate,
)

CALM = Load(10.0, diurnal=0.0, wander=0.0)


def test_same_seed_same_traffic() -> None:
    one, same, other = (simulate(CALM, 0, PER_HOUR, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.accepted, same.accepted)
    assert not np.array_equal(one.accepted, other.accepted)


@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("healthy", [0.45, 0.70, 0.85])
def test_acceptance_is_what_was_asked_for(k: int, healthy: float) -> None:
    load = Load(100.0, k=k, healthy=healthy, diurnal=0.0, wander=0.0)
    traffic = simulate(load, 8 * PER_HOUR, 4 * PER_HOUR, seed=3)
    rate = traffic.total.sum() / (k * traffic.drafts.sum())
    assert rate == pytest.approx(healthy, abs=0.01)
    assert np.all(np.diff(traffic.accepted.sum(axis=1)) < 0.0)


def test_volume_follows_the_day_and_rests_at_night() -> None:
    traffic = simulate(CALM, 0, PER_DAY, seed=4)
    by_hour = traffic.drafts.reshape(24, PER_HOUR).sum(axis=1)
    # Requests that came before three o'clock may still run for some minutes.
    assert by_hour[4] == 0.0
    assert by_hour[15] > 2.5 * by_hour[23] > 0.0
    # Two of the quieter hours are missing from a mean of one.
    assert by_hour.sum() / (10.0 * 86_400.0) == pytest.approx(0.96, abs=0.06)


def test_requests_are_conserved() -> None:
    traffic = simulate(CALM, 0, PER_DAY, seed=5)
    started = np.diff(traffic.running, prepend=0.0) + traffic.finished
    assert traffic.running.min() >= 0.0
    assert started[1:].min() >= 0.0
    assert traffic.finished.sum() == pytest.approx(7200.0 * 0.96, rel=0.06)


def test_requests_differ_by_what_the_literature_of_the_page_assumes() -> None:
    """Blocks of a minute vary far more than independent drafts would."""
    traffic = simulate(CALM, 8 * PER_HOUR, 12 * PER_HOUR, seed=6)
    drafts = traffic.drafts.reshape(-1, 4).sum(axis=1)
    shares = traffic.total.reshape(-1, 4).sum(axis=1) / 3.0
    deviations = shares - 0.70 * drafts
    per_draft = (deviations**2).sum() / drafts.sum()
    assert 10.0 < per_draft / draft_variance(CALM) < 40.0


def test_fault_begins_where_it_should() -> None:
    fault = Fault(2 * PER_HOUR, 0.30)
    traffic = simulate(CALM, 8 * PER_HOUR, 4 * PER_HOUR, seed=7, fault=fault)
    half = 2 * PER_HOUR
    before = traffic.part(0, half)
    after = traffic.part(half, 2 * half)
    assert before.total.sum() / (3 * before.drafts.sum()) == pytest.approx(0.70, abs=0.02)
    assert after.total.sum() / (3 * after.drafts.sum()) == pytest.approx(0.40, abs=0.02)
    ramp = simulate(CALM, 0, PER_DAY, seed=7, fault=Fault(0, 0.15, PER_DAY))
    assert ramp.target[PER_DAY // 2] == pytest.approx(0.625, abs=1e-6)


def test_latent_mean_gives_the_rate_back() -> None:
    latent = Latent(3)
    assert sum(latent.positions(0.70)) / 3 == pytest.approx(0.70, abs=1e-3)
    assert draft_variance(Load(1.0)) == pytest.approx(0.156, abs=0.005)


@pytest.mark.parametrize(
    ("rate", "minutes"), [(1 / 30, 24.8 * 60.0), (1.0, 75.0), (10.0, 556.0 / 60.0)]
)
def test_bound_is_the_published_one(rate: float, minutes: float) -> None:
    assert lorden_bound(Load(rate), 0.10) / 60.0 == pytest.approx(minutes, rel=0.02)


def test_pages_are_cumulative_and_go_on() -> None:
    traffic = simulate(CALM, 8 * PER_HOUR, 20, seed=8)
    whole, pieces = Pages(3), Pages(3)
    expected = list(whole.show(traffic))
    seen = [*pieces.show(traffic.part(0, 7)), *pieces.show(traffic.part(7, 20))]
    assert seen == expected
    last = expected[-1].readings[0]
    assert last.counters["drafts"] == traffic.drafts.sum()
    assert sum(last.positions) == pytest.approx(last.counters["accepted_tokens"])


def test_rule_needs_five_minutes_below_and_forgets_in_idle_time() -> None:
    drafts, accepted = np.full(80, 100.0), np.full(80, 210.0)
    accepted[20:] = 90.0
    score = rules.scores(drafts, accepted, 3)
    # Five minutes until the window holds nothing but the fault, and five more for it to last.
    assert rules.first_alarm(rules.record_lows(score), 0.31) == 20 + 19 + 20
    assert rules.alarms(score, 0.31) == 1
    drafts[30:55] = accepted[30:55] = 0.0
    assert rules.scores(drafts, accepted, 3)[55] == np.inf


def test_threshold_of_the_rule_keeps_the_allowed_alarms() -> None:
    random = np.random.default_rng(9)
    series = [0.7 + 0.05 * random.standard_normal(PER_DAY) for _ in range(3)]
    threshold = rules.threshold_for(series, 2.0)
    assert sum(rules.alarms(score, threshold) for score in series) <= 2
    assert sum(rules.alarms(score, threshold + 0.02) for score in series) > 2


def test_a_frozen_replay_goes_on_alike() -> None:
    traffic = simulate(CALM, 8 * PER_HOUR, 2 * PER_HOUR, seed=10)
    replay = Replay(3)
    replay.play(traffic.part(0, PER_HOUR))
    frozen = replay.freeze()
    copies = [replay, Replay.thaw(frozen), Replay.thaw(frozen)]
    for copy in copies:
        copy.play(traffic.part(PER_HOUR, 2 * PER_HOUR))
    evidence = {copy.state.memory.watch.drop.evidence for copy in copies}
    assert len(evidence) == 1


def test_cells_cover_what_is_promised() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    assert all(cell.learning_days >= 7 for cell in CELLS)
    assert all(len(cell.published) in (0, len(cell.cases)) for cell in CELLS)
    assert SCRAPE * PER_DAY == 86_400.0
