"""Workers behind one address whose pages do not tell when they were born, and their restarts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from monitor.health.judging import JudgeSettings
from monitor.health.target import TargetState
from monitor.health.window import Step, Track
from monitor.model import Cause, Engine, Identity, Reading, Sample, Speculation

INTERVAL = 15.0
LOOKS = 240
SHARES = {
    "output_tokens": 3.0,
    "requests": 0.01,
    "drafts": 1.0,
    "draft_tokens": 5.0,
    "accepted_tokens": 2.0,
    "decode_seconds": 0.02,
    "decode_tokens": 3.0,
}
Balancer = Callable[[random.Random, int, int, int], int]
BALANCERS: dict[str, Balancer] = {
    "in turns": lambda _rng, look, workers, _last: look % workers,
    "at random": lambda rng, _look, workers, _last: rng.randrange(workers),
    "for minutes": lambda rng, _look, workers, last: (
        rng.randrange(workers) if rng.random() < 0.2 else last
    ),
}


def counters(drafts: float) -> dict[str, float]:
    return {name: drafts * share for name, share in SHARES.items()}


def reading(drafts: float, birth: float | None) -> Reading:
    return Reading(
        "0",
        counters(drafts),
        birth=birth,
        running=2.0,
        draft_size=5.0,
        speculation=Speculation.CONFIGURED,
    )


def causes(drafts: Iterator[float], birth: float | None) -> tuple[Counter[Cause | None], float]:
    """What is said of such a server after its first ten minutes, and the drafts counted."""
    state, said, counted = (
        TargetState("t", INTERVAL, JudgeSettings()),
        Counter[Cause | None](),
        0.0,
    )
    for look, value in enumerate(drafts):
        now = 1e9 + INTERVAL * look
        sample = Sample(now, Identity(Engine.SGLANG), [reading(value, birth)])
        counted += sum(increment.counts.drafts for increment in state.observe(sample))
        if look >= 40:
            said[state.assess(now).cause] += 1
    return said, counted


def balanced(balancer: Balancer, workers: int, seed: int) -> Iterator[float]:
    rng = random.Random(seed)
    totals, last = [rng.uniform(0.0, 1e6) for _ in range(workers)], 0
    for look in range(LOOKS):
        totals = [total + rng.expovariate(1 / 75.0) for total in totals]
        last = balancer(rng, look, workers, last)
        yield totals[last]


@pytest.mark.parametrize("birth", [None, 1e9 - 5000.0], ids=["no births", "equal births"])
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize(
    ("name", "least"), [("in turns", 1.0), ("at random", 1.0), ("for minutes", 0.5)]
)
def test_workers_behind_a_balancer_are_said_to_be_that(
    name: str, least: float, workers: int, birth: float | None
) -> None:
    for seed in range(5):
        said, _ = causes(balanced(BALANCERS[name], workers, seed), birth)
        assert said[Cause.MIXED_WORKERS] >= least * said.total()


def restarting(life: int, seed: int, truth: list[float]) -> Iterator[float]:
    """A server in bursts, with idle times, that restarts after about ``life`` looks."""
    rng, total, busy = random.Random(seed), 0.0, True
    for _ in range(1000):
        if rng.random() < 1.0 / life:
            total = 0.0
        if rng.random() < 0.03:
            busy = not busy
        step = busy * rng.choice([1.0, 1.0, 1.0, 6.0]) * rng.expovariate(1 / 75.0)
        total += step
        truth.append(step)
        yield total


@pytest.mark.parametrize("life", [20, 100, 400])
def test_one_server_that_restarts_again_and_again_is_no_worker_among_others(life: int) -> None:
    for seed in range(4):
        truth: list[float] = []
        said, counted = causes(restarting(life, seed, truth), None)
        assert said[Cause.MIXED_WORKERS] == 0
        assert 0.85 * sum(truth) <= counted <= sum(truth)


def steps(*readings: Reading) -> list[Step]:
    track, found = Track(), list[Step | None]()
    for look, each in enumerate(readings):
        found.append(track.advance(each, INTERVAL * look, 2.5 * INTERVAL))
    return [step for step in found if step is not None]


def test_a_fall_of_everything_in_a_living_process_is_another_worker() -> None:
    (step,) = steps(reading(1000.0, 1.0), reading(400.0, 1.0))
    assert step.other_worker
    assert not any(step.counts._replace(seconds=0.0)[:-1])


def test_a_fall_of_one_counter_in_a_living_process_is_damage() -> None:
    for drafts in (1000.0, 1010.0):
        damaged = reading(drafts, 1.0)
        damaged.counters["requests"] = 3.0
        (step,) = steps(reading(1000.0, 1.0), damaged)
        assert (step.other_worker, step.counts.drafts) == (False, drafts - 1000.0)


@pytest.mark.parametrize("name", ["draft_tokens", "accepted_tokens", "output_tokens", "requests"])
def test_one_damaged_page_without_births_is_no_traffic(name: str) -> None:
    pages = [reading(150.0 * look, None) for look in range(200)]
    pages[100].counters[name] *= 0.5
    found = steps(*pages)
    assert sum(step.counts.drafts for step in found) == 150.0 * 197
    assert sum(step.counts.draft_tokens for step in found) == 750.0 * 197
    assert not any(step.other_worker for step in found)


def test_a_restart_into_traffic_after_a_quiet_time_is_a_restart() -> None:
    quiet = [reading(1e6 + 3.0 * look, None) for look in range(20)]
    busy = [reading(750.0 * look, None) for look in range(1, 20)]
    found = steps(*quiet, *busy)
    assert sum(step.counts.resets for step in found) == 1.0
    assert sum(step.counts.drafts for step in found) == 19 * 3.0 + 18 * 750.0
    assert not any(step.other_worker for step in found)


def test_a_server_that_crashes_in_each_batch_loses_only_what_no_page_has_shown() -> None:
    rng, pages, truth = random.Random(7), list[Reading](), 0.0
    for _ in range(20):
        total = 0.0
        for look in range(21):
            total += rng.uniform(1500.0, 6000.0) if look == 20 else 3.0
            pages.append(reading(total, None))
        truth += total - 3.0
    found = steps(*pages)
    assert sum(step.counts.drafts for step in found) == pytest.approx(truth)
    assert not any(step.other_worker for step in found)


@pytest.mark.parametrize("apart", [2, 18, 200])
@pytest.mark.parametrize("name", ["in turns", "at random"])
def test_workers_that_have_counted_about_as_much_are_not_counted_twice(
    name: str, apart: int
) -> None:
    rng, last, pages = random.Random(3), 0, list[Reading]()
    totals = [1e6, 1e6 + 75.0 * apart]
    for look in range(LOOKS):
        totals = [total + rng.expovariate(1 / 75.0) for total in totals]
        last = BALANCERS[name](rng, look, 2, last)
        pages.append(reading(totals[last], None))
    assert sum(step.counts.drafts for step in steps(*pages)) < 75.0 * LOOKS


def test_a_server_that_rises_past_its_old_totals_is_the_same() -> None:
    track = Track()
    counted = 0.0
    for look, drafts in enumerate([*range(0, 3000, 150), *range(0, 6000, 150)]):
        step = track.advance(reading(float(drafts), None), INTERVAL * look, 2.5 * INTERVAL)
        assert step is None or not step.other_worker
        counted += 0.0 if step is None else step.counts.drafts
    assert counted == 2850.0 + 5850.0
